"""Curves of methods compared at equal earliness: straight lines between points, areas, differences paired by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from kvec.report.metrics import Floats, harmonic_means
from kvec.reproduce.collapse import is_collapsed
from kvec.reproduce.looks import MOVED
from kvec.reproduce.results import Results, main_cells

GRID: Floats = np.unique(np.concatenate([np.linspace(0, 0.15, 76), np.linspace(0.15, 1, 86)]).round(6))  # for drawing
HM_STEP = 0.0005  # how close the points are along which HM is averaged
SAME = 0.002  # earlinesses no further apart are told as one
MEASURES = ("accuracy", "precision", "recall", "f1", "hm")
# t of Student's distribution that holds 95 % in the middle, by degrees of freedom from 1 to 30
STUDENT = (
    12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216, 2.22814, 2.20099, 2.17881, 2.16037,
    2.14479, 2.13145, 2.11991, 2.10982, 2.10092, 2.09302, 2.08596, 2.07961, 2.07387, 2.06866, 2.0639, 2.05954, 2.05553,
    2.05183, 2.04841, 2.04523, 2.04227,
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A measure against earliness: straight lines between points of ascending earliness."""

    earliness: Floats
    height: Floats

    def at(self, earliness: ArrayLike) -> Floats:
        """The height at each earliness, NaN beyond the ends."""
        return np.interp(np.asarray(earliness, np.float64), self.earliness, self.height, left=np.nan, right=np.nan)

    def mean(self, low: float, high: float) -> float:
        """The mean height between two earlinesses: the area under the line over its width."""
        inside = self.earliness[(self.earliness > low) & (self.earliness < high)]
        x = np.concatenate([[low], inside, [high]])
        y = self.at(x)
        return float(y[0]) if low == high else float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2) / (high - low))


Lines = Mapping[int, Line]  # by seed


@dataclass(frozen=True)
class Spread:
    """A number over seeds: mean, standard deviation, extremes, and the 95 % interval of the mean by Student's t."""

    mean: float
    sd: float  # 0 for one seed
    least: float
    most: float
    low: float  # NaN for one seed: there is no interval
    high: float
    n: int

    @property
    def is_positive(self) -> bool:
        """Whether the interval lies above zero; never for one seed."""
        return self.low > 0


@dataclass(frozen=True)
class Band:
    """Mean and spread of lines over seeds along a grid; NaN where a seed has no line."""

    grid: Floats
    mean: Floats
    sd: Floats
    n: int


@dataclass(frozen=True)
class Comparison:
    """By how much one method's line lies above another's, between two earlinesses that both reach."""

    spread: Spread
    low: float
    high: float


def straight(earliness: ArrayLike, height: ArrayLike) -> Line:
    """The line through points, in order of earliness; points of equal earliness are one, of their mean height."""
    given = np.stack([np.asarray(earliness, np.float64), np.asarray(height, np.float64)])
    given = given[:, np.isfinite(given).all(axis=0)]
    x, where = np.unique(given[0], return_inverse=True)
    total = np.bincount(where, given[1], minlength=x.size)
    return Line(x, total / np.bincount(where, minlength=x.size))


def as_hm(line: Line) -> Line:
    """A line of accuracy as a line of HM: that of the interpolated accuracy, bent between points as HM is."""
    if line.earliness.size < 2:
        return Line(line.earliness, harmonic_means(line.height, line.earliness))
    between = np.arange(line.earliness[0], line.earliness[-1], HM_STEP)
    x = np.union1d(line.earliness, between)
    return Line(x, harmonic_means(line.at(x), x))


def spread(values: Sequence[float] | Floats) -> Spread:
    """Mean, deviation and interval of a number over seeds."""
    x = np.asarray(values, np.float64)
    mean, n = float(x.mean()), x.size
    if n == 1:
        return Spread(mean, 0.0, mean, mean, float("nan"), float("nan"), 1)
    sd = float(x.std(ddof=1))
    half = STUDENT[min(n - 1, len(STUDENT)) - 1] * sd / n**0.5
    return Spread(mean, sd, float(x.min()), float(x.max()), mean - half, mean + half, n)


def band(lines: Lines, grid: Floats = GRID) -> Band:
    """Mean and spread of lines over seeds along a grid."""
    heights = np.stack([line.at(grid) for line in lines.values()])
    n = len(lines)
    sd = heights.std(axis=0, ddof=1) if n > 1 else np.zeros(grid.size)
    return Band(grid, heights.mean(axis=0), sd, n)


def common_range(many: Sequence[Lines], low: float = 0.0, high: float = 1.0) -> tuple[float, float] | None:
    """The part of a range of earliness that all lines reach, or nothing."""
    lines = [line for lines in many for line in lines.values()]
    if not lines:
        return None
    low = max(low, *(float(line.earliness[0]) for line in lines))
    high = min(high, *(float(line.earliness[-1]) for line in lines))
    return (low, high) if low < high else None


def area(lines: Lines, low: float, high: float) -> Spread:
    """The area under the lines between two earlinesses over its width, so the mean height there."""
    return spread([line.mean(low, high) for line in lines.values()])


def compare(first: Lines, second: Lines, low: float = 0.0, high: float = 1.0) -> Comparison | None:
    """First minus second in mean height over a range, paired by seed; nothing without common seeds or earliness."""
    seeds = sorted(set(first) & set(second))
    pairs = [{seed: lines[seed] for seed in seeds} for lines in (first, second)]
    reach = common_range(pairs, low, high)
    if reach is None:
        return None
    return Comparison(spread([pairs[0][seed].mean(*reach) - pairs[1][seed].mean(*reach) for seed in seeds]), *reach)


def lines_of(
    results: Results,
    dataset: str,
    method: str,
    measure: str = "accuracy",
    without_repeats: bool = False,
    as_trained: bool = False,
) -> dict[int, Line]:
    """The line of a method for each seed; without repeats, over test sequences that do not occur in training.

    A swept method's points are joined over all values; its line begins where every sequence is decided after one item,
    as the earliest of its cells does. Lines end where all is read, also where scores are so sure that no threshold
    leads there; `as_trained` a swept one ends with its latest policy that has not collapsed, if there is one.
    """
    points = _points(results, dataset, method)
    new = "new_" if without_repeats else ""
    late, height = f"{new}earliness", f"{new}accuracy" if measure == "hm" else f"{new}{measure}"
    lines: dict[int, Line] = {}
    for seed in sorted(set(points["seed"].to_list())):
        own = points.filter(pl.col("seed") == seed).drop_nulls([late, height])
        if not own.height:
            continue
        is_swept = own["curve"][0] == "swept"
        if as_trained and is_swept:
            own = _trained(own)
        x, y = own[late].to_numpy(), own[height].to_numpy()
        ends: list[tuple[float, float]] = []
        if x.max() < 1 - SAME and not (as_trained and is_swept):
            ends += _end(results, own.row(int(x.argmax()), named=True), late, height, is_first=False)
        if is_swept:
            ends += _end(results, own.row(int(x.argmin()), named=True), late, height, is_first=True)
        line = straight(np.append(x, [end[0] for end in ends]), np.append(y, [end[1] for end in ends]))
        lines[seed] = as_hm(line) if measure == "hm" else line
    return lines


def _trained(policies: pl.DataFrame) -> pl.DataFrame:
    """Policies up to the latest that has not collapsed; all of them where each has."""
    places = policies.select("earliness", pl.col("first_earliness").fill_null(0.0)).iter_rows()
    alive = [late for late, first in places if not is_collapsed(late, first)]
    return policies.filter(pl.col("earliness") <= max(alive)) if alive else policies


def _end(
    results: Results, policy: Mapping[str, Any], late: str, height: str, is_first: bool
) -> list[tuple[float, float]]:
    """Where the line of a trained policy begins or ends, from its cell; for other measures from its moved threshold."""
    end = policy["first_earliness"] if is_first else 1.0
    if height == "accuracy":
        right = policy["first_accuracy" if is_first else "end_accuracy"]
        return [] if end is None or right is None else [(end, right)]
    is_moved = (pl.col("cell") == policy["cell"]) & (pl.col("curve") == "moved")
    moved = results.points.filter(is_moved).drop_nulls([late, height]).sort("earliness")
    reached = moved.head(1) if is_first else moved.tail(1)
    if end is None or not reached.height or abs(reached["earliness"][0] - end) > SAME:
        return []
    return [(reached[late][0], reached[height][0])]


def swept_points(results: Results, dataset: str, method: str) -> pl.DataFrame:
    """The trained policies of a swept method, one point for each value and seed; no rows for other methods."""
    return _points(results, dataset, method).filter(pl.col("curve") == "swept")


def is_reached(results: Results, dataset: str, method: str, low: float, high: float) -> bool:
    """Whether a line is more than a guess between two earlinesses: a swept one needs a trained policy there.

    A policy that has collapsed to the first item or to the end was not trained to halt there.
    """
    points = _points(results, dataset, method)
    if "swept" not in points["curve"]:
        return True
    places = points.select("earliness", pl.col("first_earliness").fill_null(0.0)).iter_rows()
    is_there = [low <= late <= high and not is_collapsed(late, first) for late, first in places]
    there = points.filter(pl.Series(is_there, dtype=pl.Boolean))
    return 2 * there["seed"].n_unique() > points["seed"].n_unique()


def drawn_methods(results: Results, dataset: str) -> set[str]:
    """Methods with a line; a swept one whose threshold was moved as well counts twice, the second as `-moved`."""
    points = _main_points(results, dataset)
    swept = set(points.filter(pl.col("curve") == "swept")["method"].to_list())
    moved = set(points.filter(pl.col("curve") == "moved")["method"].to_list())
    return swept | (moved - swept) | {f"{name}{MOVED}" for name in swept & moved}


def chosen_points(results: Results, dataset: str, method: str) -> pl.DataFrame:
    """For each seed the point chosen on validation; of several cells that of the one with the best validation HM."""
    points = _main_points(results, dataset).filter(pl.col("method") == method.removesuffix(MOVED))
    kept = points.filter(pl.col("curve") == "chosen")
    if not kept.height:
        kept = points.filter(pl.col("curve") == "swept")
    return _best_cells(kept).unique("seed", keep="first", maintain_order=True).sort("seed")


def best_hm(results: Results, dataset: str, method: str, without_repeats: bool = False) -> dict[int, float]:
    """The HM on test of the point chosen on validation, by seed."""
    column = "new_hm" if without_repeats else "hm"
    points = chosen_points(results, dataset, method).drop_nulls(column)
    return dict(zip(points["seed"].to_list(), points[column].to_list(), strict=True))


def _points(results: Results, dataset: str, method: str) -> pl.DataFrame:
    """The points of a method's line: swept ones if it has any, else the moved ones of each seed's best cell."""
    points = _main_points(results, dataset).filter(pl.col("method") == method.removesuffix(MOVED))
    swept = points.filter(pl.col("curve") == "swept")
    if swept.height and not method.endswith(MOVED):
        return swept
    return _best_cells(points.filter(pl.col("curve") == "moved"))


def _main_points(results: Results, dataset: str) -> pl.DataFrame:
    cells = main_cells(results.cells.filter(pl.col("dataset") == dataset))
    known = cells.select("cell", "validation_hm", "first_accuracy", "end_accuracy", "first_earliness")
    return results.points.join(known, on="cell", how="inner", maintain_order="left")


def _best_cells(points: pl.DataFrame) -> pl.DataFrame:
    """Of each seed only the points of the cell with the best HM on validation."""
    best = points.sort("validation_hm", descending=True, nulls_last=True, maintain_order=True)
    return points.join(best.unique("seed", keep="first", maintain_order=True).select("cell"), on="cell", how="semi")
