"""Accuracy against the number of items seen: by training, and against how much is put side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kvec.report.canvas import PAPER, as_percent, sheet, styled
from kvec.reproduce.curves import Band, Spread, spread
from kvec.reproduce.looks import Look, in_order, look_of, name_of
from kvec.reproduce.results import Results, main_cells
from kvec.reproduce.strokes import LETTER_SIZE, mark_size, name_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VISIBILITY = ("kvec-default", "kvec-alone")
TITLES = {"accuracy": "accuracy", "auc": "area under ROC"}
SHOWN = (1, 2, 3, 5, 10, 20)  # items, where there is little room
END = "end"


@dataclass(frozen=True)
class ByItems:
    """A measure of a training after n items, over seeds, and at the end."""

    n_observed: tuple[int, ...]
    measured: tuple[Spread, ...]
    end: Spread


def by_items(results: Results, dataset: str, training: str, measure: str = "accuracy") -> ByItems | None:
    """What a training reaches after n items; nothing where that was not measured."""
    cells = main_cells(results.cells.filter(pl.col("dataset") == dataset)).filter(pl.col("training") == training)
    kept = results.prefixes.join(cells.select("cell"), on="cell", how="semi").drop_nulls(measure)
    if not kept.height:
        return None
    ns = sorted({int(n) for n in kept["n_observed"].to_list() if n is not None})
    of = [kept.filter(pl.col("n_observed") == n)[measure].to_list() for n in ns]
    at_end = kept.filter(pl.col("n_observed").is_null())[measure].to_list()
    return ByItems(tuple(ns), tuple(spread(values) for values in of), spread(at_end))


def measured_trainings(results: Results, dataset: str) -> list[str]:
    """Trainings on a data set that tell of the number of items, in the order of all tables; swept ones left out."""
    own = results.prefixes.filter((pl.col("dataset") == dataset) & (pl.col("swept") == ""))
    return in_order(set(own["training"].to_list()))


def side_by_side(results: Results) -> dict[str, list[int]]:
    """Data sets that were learned with and without other keys in growing tangles, and how large these were."""
    found: dict[str, set[int]] = {}
    for name in dict.fromkeys(results.prefixes["dataset"].to_list()):
        base, _, number = name.partition("@")
        if number.isdigit() and len(set(VISIBILITY) & set(measured_trainings(results, name))) > 1:
            found.setdefault(base, set()).add(int(number))
    return {base: sorted(numbers) for base, numbers in found.items()}


def items_rows(results: Results, dataset: str, trainings: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """A header and rows: accuracy (and area under ROC) after n items, mean ± deviation over seeds."""
    header, rows = [], []
    for measure, title in TITLES.items():
        for training in trainings:
            if (found := by_items(results, dataset, training, measure)) is None:
                continue
            header = ["method", "measure", "seeds", *(f"n = {n}" for n in found.n_observed), END]
            told = [f"{each.mean:.3f}" + f" ± {each.sd:.3f}" * (each.n > 1) for each in (*found.measured, found.end)]
            rows.append([look_of(training).label, title, str(found.end.n), *told])
    return header, rows


def draw_by_items(results: Results, dataset: str, trainings: Sequence[str]) -> Figure:
    """Each measure against the number of items seen, a line for each training, a band over seeds."""
    measures = [name for name in TITLES if any(by_items(results, dataset, each, name) for each in trainings)]
    with styled():
        figure = sheet(4.2 * len(measures) + 2.2, 3.9)
        places = figure.subplots(1, len(measures), squeeze=False)[0]
        for axes, measure in zip(places, measures, strict=True):
            found = _draw(axes, results, dataset, trainings, measure)
            axes.set_title(f"{name_of(dataset)}: {TITLES[measure]}" if axes is places[0] else TITLES[measure])
        name_lines(axes, found)
        return figure


def draw_side_by_side(results: Results, base: str, numbers: Sequence[int]) -> Figure:
    """Accuracy after n items for each size of tangles, and accuracy at the end against that size."""
    with styled():
        figure = sheet(2.7 * (len(numbers) + 1) + 2.2, 3.9)
        *places, last = figure.subplots(1, len(numbers) + 1, squeeze=False)[0]
        known = [name for name in VISIBILITY if any(by_items(results, f"{base}@{k}", name) for k in numbers)]
        low = 1.0
        for axes, number in zip(places, numbers, strict=True):
            _draw(axes, results, f"{base}@{number}", known, "accuracy", SHOWN)
            axes.set_title(f"{name_of(base)}: " * (axes is places[0]) + f"{number} in a tangle")
            low = min(low, axes.get_ylim()[0])
        for axes in places:
            axes.set_ylim(low, 1.0)
        drawn = []
        for name in known:
            found = {i: each.end for i, k in enumerate(numbers) if (each := by_items(results, f"{base}@{k}", name))}
            drawn.append(_line(last, list(found), list(found.values()), look_of(name)))
        last.set_xticks(range(len(numbers)), [str(number) for number in numbers])
        last.set(xlabel="in a tangle", title="at the end")
        _widen(last)
        as_percent(last.yaxis)
        name_lines(last, drawn)
        return figure


def _draw(
    axes: Axes, results: Results, dataset: str, trainings: Sequence[str], measure: str, shown: Sequence[int] = ()
) -> list[tuple[Band, Look]]:
    """A line for each training over evenly spaced numbers of items: all of them, or those to be shown."""
    ns: list[int] = []
    drawn = []
    for name in trainings:
        if found := by_items(results, dataset, name, measure):
            ns = [n for n in found.n_observed if not shown or n in shown]
            heights = [each for n, each in zip(found.n_observed, found.measured, strict=True) if n in ns]
            drawn.append(_line(axes, [*range(len(ns) + 1)], [*heights, found.end], look_of(name)))
    axes.set_xticks(range(len(ns) + 1), [*(str(n) for n in ns), END], fontsize=LETTER_SIZE - 2)
    axes.set_xlabel("items seen of each sequence")
    if measure == "accuracy":
        as_percent(axes.yaxis)
    return drawn


def _line(axes: Axes, places: Sequence[int], found: Sequence[Spread], look: Look) -> tuple[Band, Look]:
    mean, sd = (np.array([getattr(s, name) for s in found]) for name in ("mean", "sd"))
    axes.fill_between(places, mean - sd, mean + sd, color=look.colour, alpha=0.16, lw=0)
    (line,) = axes.plot(places, mean, color=look.colour, marker=look.marker, ms=mark_size(look), mec=PAPER, mew=0.6)
    if look.dashes:
        line.set_dashes(look.dashes)
    return Band(np.array(places, np.float64), mean, sd, len(found)), look


def _widen(axes: Axes) -> None:
    """Show at least five points of accuracy, so that little looks like little."""
    low, high = axes.get_ylim()
    room = max(0.0, 0.05 - (high - low)) / 2
    axes.set_ylim(low - room, high + room)
