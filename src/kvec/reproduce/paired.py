"""Methods compared on the same test units: accuracy at equal earliness and HM, with intervals by a paired bootstrap.

A draw takes units with replacement, the same for both methods, for each seed apart; what is told is the mean over seeds
of the differences. The intervals hold for these trainings: they say how sure the test parts are, not how much another
training would differ. A method with trained policies and a moved threshold counts with the better of its two lines.

Letters: P points, U units, B draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kvec.report.metrics import Floats, harmonic_means
from kvec.reproduce.results import Results, main_cells
from kvec.reproduce.store import units_of
from kvec.reproduce.units import END, FIRST, UNIT
from kvec.words.errors import DataError

LEVELS = (0.05, 0.1, 0.2, 0.3)  # of earliness
HM = "hm"
MEASURES = (*(f"{level:g}" for level in LEVELS), HM)
DRAWS = 2000
FIXED, STOPPED = "trees-fixed", "trees-induction"  # of the gap between them, half is to be closed
HALF = "half"  # of that gap


@dataclass(frozen=True)
class Points:
    """What came of every unit at P points of a method, for one seed."""

    right: Floats  # (P, U)
    late: Floats  # (P, U)
    count: Floats  # (U,) sequences
    lines: tuple[tuple[int, ...], ...]  # points that make a line
    chosen: int  # the point that validation chose


def paired_rows(results: Results, folder: Path, compare: Sequence[str], against: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of paired.csv: methods of the first list against those of the second, on every data set."""
    rows = []
    for dataset in results.datasets():
        names = list(dict.fromkeys((*compare, *against, FIXED, STOPPED)))
        drawn: dict[str, dict[int, Floats]] = {name: {} for name in names}
        n_units = 0
        cells = main_cells(results.cells.filter(pl.col("dataset") == dataset))
        for seed in sorted(set(cells["seed"].to_list())):
            found = dict(_of_seed(results, folder, cells.filter(pl.col("seed") == seed), names))
            sizes = {points.count.size for points in found.values()}
            if len(sizes) > 1:
                raise DataError(f"{folder}: methods were tested on different parts of {dataset}; run its cells anew")
            n_units += sum(sizes)
            weights = drawn_weights(max(sizes), seed) if sizes else np.zeros((0, 0))
            for name, points in found.items():
                drawn[name][seed] = measured(points, weights)
        for name in compare:
            rows += [
                _row(dataset, name, other, drawn[name], drawn[other], n_units) for other in against if name != other
            ]
            halfway = {s: (drawn[FIXED][s] + drawn[STOPPED][s]) / 2 for s in drawn[FIXED] if s in drawn[STOPPED]}
            rows.append(_row(dataset, name, HALF, drawn[name], halfway, n_units))
    return [row for part in rows for row in part]


def drawn_weights(n_units: int, seed: int, draws: int = DRAWS) -> Floats:
    """(1 + B, U) how often each unit counts: once in the first row, then as often as it was drawn."""
    drawn = np.random.default_rng(seed).multinomial(n_units, np.full(n_units, 1 / max(n_units, 1)), draws)
    return np.concatenate([np.ones((1, n_units)), drawn])


def measured(points: Points, weights: Floats) -> Floats:
    """(1 + B, measures) accuracy at each level of earliness, NaN beyond a line's ends, and HM at the chosen point."""
    total = (weights @ points.count)[:, None]
    right, late = (weights @ part.T / total for part in (points.right, points.late))
    found = np.full((len(weights), len(MEASURES)), np.nan)
    for line in points.lines:
        x, y = late[:, line], right[:, line]
        order = np.argsort(x, axis=1, kind="stable")
        x, y = np.take_along_axis(x, order, 1), np.take_along_axis(y, order, 1)
        at = [np.interp(LEVELS, *pair, left=np.nan, right=np.nan) for pair in zip(x, y, strict=True)]
        found[:, : len(LEVELS)] = np.fmax(found[:, : len(LEVELS)], at)
    found[:, -1] = harmonic_means(right[:, points.chosen], late[:, points.chosen])
    return found


def _row(
    dataset: str, method: str, other: str, first: dict[int, Floats], second: dict[int, Floats], n_units: int
) -> list[dict[str, Any]]:
    """A row for each measure; values are empty where a seed of either method does not reach the level."""
    seeds = sorted(set(first) & set(second))
    if not seeds:
        return []
    ours, theirs = (np.mean([of[seed] for seed in seeds], axis=0) for of in (first, second))
    rows = []
    for i, measure in enumerate(MEASURES):
        gain = ours[:, i] - theirs[:, i]
        low, high = np.percentile(gain[1:], (2.5, 97.5)) if np.isfinite(gain).all() else (np.nan, np.nan)
        numbers = {"value": ours[0, i], "other_value": theirs[0, i], "difference": gain[0], "low": low, "high": high}
        rows.append({
            "dataset": dataset, "method": method, "other": other, "measure": measure,
            **{name: f"{value:.5f}" if np.isfinite(value) else "" for name, value in numbers.items()},
            "seeds": len(seeds), "units": n_units,
        })  # fmt: skip
    return rows


def _of_seed(
    results: Results, folder: Path, cells: pl.DataFrame, methods: Sequence[str]
) -> Iterator[tuple[str, Points]]:
    """The points of those methods whose cells have all kept what came of their units."""
    training_of = dict(results.points.select("method", "training").unique().rows())
    for method in methods:
        own = cells.filter(pl.col("training") == training_of.get(method, method))
        ranked = own.sort("validation_hm", descending=True, nulls_last=True, maintain_order=True)["cell"].to_list()
        paths = [units_of(folder, cell) for cell in ranked]
        if paths and all(path.is_file() for path in paths):
            yield method, read_points(paths, method)


def read_points(paths: Sequence[Path], method: str) -> Points:
    """The points of a method in the files of its cells, the one that is best on validation first."""
    right, late = [], []
    curve: list[str] = []
    cell: list[int] = []
    count = np.zeros(0)
    for place, path in enumerate(paths):
        table = pl.read_parquet(path)
        table = table.filter((pl.col("method") == method) | pl.col("curve").is_in([FIRST, END]))
        n_units = table[UNIT].n_unique()
        count = table["sequences"].head(n_units).to_numpy().astype(np.float64)
        right.append(table["right"].to_numpy().reshape(-1, n_units))
        late.append(table["late"].to_numpy().reshape(-1, n_units))
        curve += table["curve"].to_list()[::n_units]
        cell += [place] * (len(curve) - len(cell))
    rights, lates = np.concatenate(right).astype(np.float64), np.concatenate(late).astype(np.float64)
    of_curve = {name: [i for i, each in enumerate(curve) if each == name] for name in set(curve)}
    moved = [i for i in of_curve.get("moved", []) if cell[i] == 0]
    swept = of_curve.get("swept", [])
    if swept:  # it begins where its earliest policy decides all at once, and ends where its latest reads all
        ordered = sorted(swept, key=lambda i: float(lates[i].sum()))
        ends = (of_curve[FIRST][cell[ordered[0]]], of_curve[END][cell[ordered[-1]]])
        swept = [ends[0], *ordered, ends[1]]
    chosen = next(i for i in (*of_curve.get("chosen", []), *swept[1:-1]) if cell[i] == 0)
    return Points(rights, lates, count, tuple(tuple(line) for line in (moved, swept) if line), chosen)
