"""One model with a dial against a training for each delay cost: does its curve lie on or above their points?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kvec.report.canvas import LETTERS, sheet, styled
from kvec.report.metrics import Floats
from kvec.report.places import leader_start, place_labels
from kvec.reproduce.convergence import doubts
from kvec.reproduce.curves import Band, Spread, lines_of, spread, swept_points
from kvec.reproduce.looks import look_of, name_of
from kvec.reproduce.results import Results
from kvec.reproduce.strokes import LETTER_SIZE, draw_line, fit_heights, name_lines, set_earliness
from kvec.reproduce.tables import percent
from kvec.reproduce.verdicts import FAILS, HOLDS, LEAST, PARTLY, UNTESTED, Judged, joined, points_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIALS = (  # induction as kvec has it by default, with the visibility of the trainings; and a policy that is told λ
    "kvec-default-induction", "kvec-every-induction", "kvec-dial",
)  # fmt: skip
TRAINED = "kvec-costs"
CLAIM = "one model's curve lies on or above the points of models trained for one delay cost each, within bands"


@dataclass(frozen=True)
class Turned:
    """The dial at the earliness of a model that was trained for one delay cost."""

    cost: float
    earliness: Spread
    trained: Spread  # accuracy of the model trained for it
    dial: Spread  # accuracy of the one model there
    gain: Spread  # of the dial, paired by seed


def dials_of(results: Results, dataset: str) -> list[str]:
    """The dials that were run beside models trained for one delay cost each."""
    return [name for name in DIALS if turned(results, dataset, name)]


def turned(results: Results, dataset: str, dial: str) -> list[Turned]:
    """A dial beside each trained point that it reaches, from the least delay cost to the largest."""
    lines, points = lines_of(results, dataset, dial), swept_points(results, dataset, TRAINED)
    by_cost: dict[float, list[tuple[float, float, float]]] = {}
    for row in points.iter_rows(named=True):
        if row["seed"] in lines and np.isfinite(there := float(lines[row["seed"]].at(row["earliness"]))):
            by_cost.setdefault(float(row["value"]), []).append((row["earliness"], row["accuracy"], there))
    found = []
    for cost, rows in sorted(by_cost.items()):
        late, right, there = np.array(rows).T
        found.append(Turned(cost, spread(late), spread(right), spread(there), spread(there - right)))
    return found


def judge_dial(results: Results, dataset: str, dial: str) -> Judged:
    """Whether no trained point lies above a dial's curve."""
    found = turned(results, dataset, dial)
    told = ", ".join(f"λ = {each.cost:g}: {points_of(each.gain)}" for each in found)
    verdict, reason = joined([(f"λ = {each.cost:g}", *_judged(each.gain)) for each in found], needs_all=True)
    if doubt := doubts(results, dataset, (dial, TRAINED)):
        verdict, reason = UNTESTED, doubt
    return Judged(CLAIM, dataset, dial, told, verdict, reason)


def dial_table(results: Results, dataset: str) -> tuple[list[str], list[list[str]]]:
    """A header and rows: of each delay cost the point that was trained for it, and each dial at its earliness."""
    header = ["the dial", "delay cost λ", "seeds", "earliness", "trained for it", "the dial there", "dial above it"]
    rows = [
        [look_of(dial).label, f"{each.cost:g}", str(each.gain.n),
         *(percent(part) for part in (each.earliness, each.trained, each.dial)), points_of(each.gain)]
        for dial in DIALS for each in turned(results, dataset, dial)
    ]  # fmt: skip
    return header, rows


def draw_dial(results: Results, dataset: str) -> Figure:
    """Accuracy against earliness: the dials' curves, and a mark for each training with one delay cost and each seed."""
    points, marked = swept_points(results, dataset, TRAINED), look_of(TRAINED)
    latest = min(max(float(points["earliness"].to_numpy().max()) * 1.3, 0.1), 1.0)
    with styled():
        figure = sheet(7.4, 4.4)
        axes = figure.subplots()
        set_earliness(axes, 0.0, latest)
        drawn = [
            (draw_line(axes, lines_of(results, dataset, name), look_of(name), 2.4), look_of(name))
            for name in dials_of(results, dataset)
        ]
        fit_heights(axes, [each for each, _ in drawn], 0.0, latest)
        low, high = axes.get_ylim()
        heights = points["accuracy"].to_numpy()
        low, high = min(low, float(heights.min())), max(high, float(heights.max()))
        axes.set_ylim(low, min(high + 0.04 * (high - low), 1.01))
        axes.plot(
            points["earliness"].to_numpy(), heights, marked.marker, color="none", ms=7, mec=marked.colour, mew=1.4,
            zorder=4,
        )  # fmt: skip
        _name_costs(axes, points, [each for each, _ in drawn])
        name_lines(axes, drawn)
        axes.text(
            1.03, 0.03, f"○ {marked.label},\n    one mark for each seed", transform=axes.transAxes, va="bottom",
            fontsize=LETTER_SIZE, color=LETTERS[marked.colour],
        )  # fmt: skip
        axes.set(ylabel="accuracy", title=f"{name_of(dataset)}: one model with a dial")
        return figure


def _name_costs(axes: Axes, points: pl.DataFrame, drawn: Sequence[Band]) -> None:
    """Name each delay cost once, off the lines and off all marks, with a leader to the middle of its marks."""

    def shares(late: Floats, right: Floats) -> Floats:
        return np.asarray(axes.transAxes.inverted().transform(axes.transData.transform(np.stack([late, right], 1))))

    along = np.linspace(*axes.get_xlim(), 200)
    lines = [shares(along, np.interp(along, line.grid, line.mean, right=np.nan)) for line in drawn]
    marks = shares(points["earliness"].to_numpy(), points["accuracy"].to_numpy())
    taken = np.concatenate([*lines, marks])
    means = points.group_by("value").agg(pl.mean("earliness", "accuracy")).sort("earliness")
    middles = shares(means["earliness"].to_numpy(), means["accuracy"].to_numpy())
    words = [f"λ = {float(cost):g}" for cost in means["value"]]
    sizes = [(0.022 * len(text), 0.05) for text in words]
    colour = LETTERS[look_of(TRAINED).colour]
    places = place_labels(middles, sizes, taken[np.isfinite(taken).all(axis=1)])
    for text, at, (left, low), (width, height) in zip(words, middles, places, sizes, strict=True):
        start = leader_start((left, low, left + width, low + height), (at[0], at[1]))
        axes.plot(*zip(start, at, strict=True), color=colour, lw=0.8, transform=axes.transAxes, zorder=3)
        axes.text(
            left + width / 2, low + height / 2, text, color=colour, fontsize=LETTER_SIZE, transform=axes.transAxes,
            ha="center", va="center",
        )  # fmt: skip


def _judged(gain: Spread) -> tuple[str, str]:
    """Verdict and reason for one trained point."""
    if gain.mean >= -LEAST:
        return (HOLDS, "on it or above") if gain.n > 1 else (PARTLY, "on it or above, on one seed")
    if gain.high >= 0:
        return PARTLY, "below, but within the band"
    return FAILS, "below"
