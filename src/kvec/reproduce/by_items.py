"""Accuracy against the number of items seen: by training, and against how much is put side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kvec.report.canvas import PAPER, as_percent, sheet, styled
from kvec.reproduce.curves import Spread, spread
from kvec.reproduce.looks import Look, in_order, look_of, name_of
from kvec.reproduce.results import Results, main_cells
from kvec.reproduce.strokes import LETTER_SIZE, draw_sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VISIBILITY = ("kvec", "kvec-typed", "kvec-window", "kvec-no-value")
TITLES = {"accuracy": "accuracy", "auc": "area under ROC"}
END = "end"


@dataclass(frozen=True)
class ByItems:
    """A measure of a training after n items, over seeds, and at the end."""

    n_observed: tuple[int, ...]
    measured: tuple[Spread, ...]
    end: Spread


def by_items(results: Results, dataset: str, training: str, measure: str = "accuracy") -> ByItems | None:
    """What a training reaches after n items; nothing where that was not measured."""
    cells = main_cells(results.cells.filter((pl.col("dataset") == dataset) & (pl.col("training") == training)))
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
    """Data sets on which several rules of visibility were tried with growing tangles, and how large these were."""
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
        figure = sheet(4.6 * len(measures) + 1.4, 3.9)
        places = figure.subplots(1, len(measures), squeeze=False)[0]
        for axes, measure in zip(places, measures, strict=True):
            _draw(axes, results, dataset, trainings, measure)
            axes.set_title(f"{name_of(dataset)}: {TITLES[measure]}" if axes is places[0] else TITLES[measure])
        _name(places[0], trainings)
        return figure


def draw_side_by_side(results: Results, base: str, numbers: Sequence[int]) -> Figure:
    """Accuracy after n items for each size of tangles, and accuracy at the end against that size."""
    with styled():
        figure = sheet(3.0 * (len(numbers) + 1) + 0.8, 3.9)
        *places, last = figure.subplots(1, len(numbers) + 1, squeeze=False)[0]
        known = [name for name in VISIBILITY if any(by_items(results, f"{base}@{k}", name) for k in numbers)]
        low = 1.0
        for axes, number in zip(places, numbers, strict=True):
            _draw(axes, results, f"{base}@{number}", known, "accuracy")
            axes.set_title(name_of(f"{base}@{number}") if axes is places[0] else f"{number} in a tangle")
            low = min(low, axes.get_ylim()[0])
        for axes in places:
            axes.set_ylim(low, 1.0)
        _name(places[0], known)
        for name in known:
            found = {k: each.end for k in numbers if (each := by_items(results, f"{base}@{k}", name))}
            _line(last, list(range(len(found))), list(found.values()), look_of(name))
        last.set_xticks(range(len(numbers)), [str(number) for number in numbers])
        last.set(xlabel="in a tangle", title="at the end")
        as_percent(last.yaxis)
        return figure


def _draw(axes: Axes, results: Results, dataset: str, trainings: Sequence[str], measure: str) -> None:
    ns: tuple[int, ...] = ()
    for name in trainings:
        if found := by_items(results, dataset, name, measure):
            ns = found.n_observed
            _line(axes, [*range(len(ns) + 1)], [*found.measured, found.end], look_of(name))
    axes.set_xticks(range(len(ns) + 1), [*(str(n) for n in ns), END], fontsize=LETTER_SIZE - 2)
    axes.set_xlabel("items seen of each sequence")
    if measure == "accuracy":
        as_percent(axes.yaxis)


def _line(axes: Axes, places: Sequence[int], found: Sequence[Spread], look: Look) -> None:
    mean, sd = (np.array([getattr(each, name) for each in found]) for name in ("mean", "sd"))
    axes.fill_between(places, mean - sd, mean + sd, color=look.colour, alpha=0.16, lw=0)
    (line,) = axes.plot(places, mean, color=look.colour, marker=look.marker, ms=5.5, mec=PAPER, mew=0.6)
    if look.dashes:
        line.set_dashes(look.dashes)


def _name(axes: Axes, trainings: Sequence[str]) -> None:
    """The names of lines, in the corner below them: accuracy rises."""
    for i, name in enumerate(reversed(trainings)):
        look, at = look_of(name), 0.06 + 0.075 * i
        draw_sample(axes, look, (0.36, 0.41, 0.46), at, axes.transAxes)
        axes.text(0.49, at, look.label, va="center", fontsize=LETTER_SIZE - 1.5, transform=axes.transAxes)
