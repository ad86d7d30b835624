"""KVEC beside a strong prefix classifier: its best fixed n, its optimal stopping, its hindsight; and differences."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import polars as pl

from kvec.report.canvas import sheet, styled
from kvec.reproduce.curves import Line, chosen_points, drawn_methods, lines_of, straight
from kvec.reproduce.looks import LOOKS, Look, look_of, name_of
from kvec.reproduce.paired import FIXED, HALF, HM, MEASURES, STOPPED
from kvec.reproduce.results import Results
from kvec.reproduce.strokes import draw_line, fit_heights, name_lines, set_earliness

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORACLE = "trees-oracle"
DRAWN = (
    "kvec-default-induction",
    "kvec",
    "kvec-every-induction",
    "kvec-paper",
    "srn-earliest",
    "srn-fixed",
    "srn-confidence",
)
LATEST = 0.5  # of earliness that is drawn
GAP = 0.01  # between two yardsticks, of which shares can be told


def has_yardstick(results: Results, dataset: str) -> bool:
    """Whether the prefix classifier was run on a data set."""
    return FIXED in drawn_methods(results, dataset)


def bound_lines(results: Results, dataset: str, method: str) -> dict[int, Line]:
    """For each seed the line of a bound that no rule can reach."""
    points = results.points.filter(
        (pl.col("dataset") == dataset) & (pl.col("method") == method) & (pl.col("curve") == "bound")
    )
    seeds = sorted(set(points["seed"].to_list()))
    of = {seed: points.filter(pl.col("seed") == seed) for seed in seeds}
    return {seed: straight(own["earliness"].to_numpy(), own["accuracy"].to_numpy()) for seed, own in of.items()}


def draw_yardsticks(results: Results, dataset: str) -> Figure:
    """Accuracy against earliness: KVEC, its rivals, and what trees reach by fixed n, by stopping and in hindsight."""
    known = drawn_methods(results, dataset)
    lines = {name: lines_of(results, dataset, name) for name in (*DRAWN, FIXED, STOPPED) if name in known}
    lines[ORACLE] = bound_lines(results, dataset, ORACLE)
    with styled():
        figure = sheet(8.2, 4.8)
        axes = figure.subplots()
        set_earliness(axes, 0.0, LATEST)
        looks: dict[str, Look] = {name: look_of(name) for name in LOOKS if lines.get(name)}
        found = [
            (draw_line(axes, lines[name], look, 2.4 if name == "kvec" else 1.8), look) for name, look in looks.items()
        ]
        fit_heights(axes, [each for each, _ in found], 0.0, LATEST)
        name_lines(axes, found, 0.07)
        axes.set(ylabel="accuracy", title=f"{name_of(dataset)}: beside a classifier for each number of items")
        return figure


def paired_table(results: Results, dataset: str) -> tuple[list[str], list[list[str]]]:
    """Differences at equal earliness with their intervals, and how much of the trees' gap is closed."""
    own = results.paired.filter(pl.col("dataset") == dataset)
    best = champion(results, dataset, list(dict.fromkeys(own["method"].to_list())))
    own = pl.concat([own.filter(pl.col("method") == best), own.filter(pl.col("method") != best)])
    header = ["method", "against", "seeds", *(_titled(measure) for measure in MEASURES)]
    rows = []
    for (method, other), part in own.group_by("method", "other", maintain_order=True):
        by_measure = {row["measure"]: row for row in part.iter_rows(named=True)}
        told = [_told(by_measure.get(measure)) for measure in MEASURES]
        if other == HALF:
            shares = [_closed(own, str(method), measure) for measure in MEASURES]
            told = [f"{share}; {words}" if share else words for share, words in zip(shares, told, strict=True)]
        against = "half of the way from fixed n to induction" if other == HALF else look_of(str(other)).label
        role = "" if not best else ", champion" if method == best else ", beside it"
        rows.append([look_of(str(method)).label + role, against, f"{part['seeds'][0]:.0f}", *told])
    return header, rows


def champion(results: Results, dataset: str, methods: Sequence[str]) -> str:
    """Of several methods the one of best HM on validation, mean over seeds; nothing where that is not known of all."""
    found = {name: chosen_points(results, dataset, name)["validated"].drop_nulls().to_list() for name in methods}
    if len(methods) < 2 or not all(found.values()):
        return ""
    return max(found, key=lambda name: fmean(found[name]))


def _titled(measure: str) -> str:
    return "HM" if measure == HM else f"accuracy at {100 * float(measure):g} %"


def _told(row: dict[str, float] | None) -> str:
    """A difference in points, with its interval: bold where that lies above zero, with a word where it lies below."""
    if row is None or row["difference"] is None:
        return "–"
    gain = f"{100 * row['difference']:+.1f}"
    if row["low"] is None:
        return gain
    bold, below = "**" * (row["low"] > 0), ", below" * (row["high"] < 0)
    return f"{bold}{gain}{bold} ({100 * row['low']:+.1f} to {100 * row['high']:+.1f}){below}"


def _closed(own: pl.DataFrame, method: str, measure: str) -> str:
    """The share of the gap from the best fixed n to induction that a method closes, where that is a gap."""
    rows = own.filter((pl.col("method") == method) & (pl.col("measure") == measure))
    found = {row["other"]: row for row in rows.iter_rows(named=True)}
    if FIXED not in found or STOPPED not in found:
        return ""
    value, low, high = found[FIXED]["value"], found[FIXED]["other_value"], found[STOPPED]["other_value"]
    if None in (value, low, high) or high - low < GAP:
        return ""
    return f"{100 * (value - low) / (high - low):.0f} % closed"
