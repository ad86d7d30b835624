"""Figures of methods against each other: measures against earliness and the ablation, §V-B and §V-D."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvec.report.canvas import LETTERS, MUTED, PAPER, sheet, styled
from kvec.reproduce.curves import (
    MEASURES,
    Band,
    Spread,
    area,
    band,
    best_hm,
    common_range,
    drawn_methods,
    lines_of,
    spread,
    swept_points,
)
from kvec.reproduce.looks import ABLATION, MOVED, YARDSTICKS, Look, in_order, look_of, name_of
from kvec.reproduce.results import Results
from kvec.reproduce.strokes import (
    LETTER_SIZE,
    draw_line,
    draw_sample,
    empty,
    fit_heights,
    name_lines,
    set_earliness,
    shade_range,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"accuracy": "accuracy", "precision": "precision", "recall": "recall", "f1": "F1", "hm": "HM"}
TRAFFIC = (0.02, 0.08)
RANGES = {  # of earliness that the paper speaks of
    "traffic-fg": TRAFFIC, "ustc-tfc2016": TRAFFIC, "traffic-app": TRAFFIC, "movielens-1m": (0.1, 0.4),
}  # fmt: skip
ABLATION_END = 0.4
ONE = 0.5  # an early part of more than this share is all but the whole range
ALIKE = 0.0005  # lines no further apart are one line to the eye
SWEPT = tuple(
    f"{name}{end}" for name in ("kvec-paper", "kvec-paper-sum", "srn-earliest", "earliest") for end in ("", MOVED)
)


def main_methods(results: Results, dataset: str) -> list[str]:
    """The methods of the paper's figures that have a line here."""
    return [name for name in in_order(drawn_methods(results, dataset)) if look_of(name).is_main]


def rules_of_srn(results: Results, dataset: str) -> list[str]:
    """Ways of halting on what networks say that are trained at every length, beside KVEC."""
    names = in_order(drawn_methods(results, dataset))
    return [name for name in names if name == "kvec" or (name.startswith("srn") and "earliest" not in name)]


def rules_of_kvec(results: Results, dataset: str) -> list[str]:
    """Other ways of halting on what KVEC says, and its window of all keys."""
    names = in_order(drawn_methods(results, dataset))
    names = [name for name in names if not name.startswith(YARDSTICKS)]
    return [name for name in names if name.startswith("kvec") and name not in (*ABLATION[1:], *SWEPT)]


def moved_methods(results: Results, dataset: str) -> list[str]:
    """Methods that the paper sweeps, beside themselves with a threshold that was moved after training, and KVEC."""
    return [name for name in in_order(drawn_methods(results, dataset)) if name in ("kvec", *SWEPT)]


def early_part(results: Results, dataset: str, methods: list[str]) -> float | None:
    """Up to which earliness the early part of a figure goes; nothing where that would be all but the whole range."""
    _, high = RANGES.get(dataset, (0.0, 0.0))
    end = max(0.12, 1.15 * high, 3 * _first(results, dataset, methods))
    return end if end <= ONE else None


def are_apart(results: Results, dataset: str, methods: list[str]) -> bool:
    """Whether any two lines of accuracy can be told from each other."""
    means = np.stack([band(lines).mean for name in methods if (lines := lines_of(results, dataset, name))])
    means = means[:, np.isfinite(means).any(axis=0)]
    return bool(np.any(np.nanmax(means, axis=0) - np.nanmin(means, axis=0) > ALIKE))


def draw_measure(results: Results, dataset: str, measure: str, methods: list[str]) -> Figure:
    """One measure against earliness, the whole range and its early part, lines named in the last of them."""
    low, high = RANGES.get(dataset, (0.0, 0.0))
    zoom = early_part(results, dataset, methods)
    ends = (1.0,) if zoom is None else (1.0, zoom)
    with styled():
        figure = sheet(9.6 if zoom else 7.4, 4.2)
        places = figure.subplots(1, len(ends), width_ratios=(1, 1.05)[: len(ends)], squeeze=False)[0]
        for axes, end in zip(places, ends, strict=True):
            set_earliness(axes, 0.0, end)
            shade_range(axes, low, high)
            found = _draw_methods(axes, results, dataset, measure, methods)
            fit_heights(axes, [each for each, _ in found], 0.0, end, measure != "hm")
        name_lines(places[-1], found)
        places[0].set(ylabel=TITLES[measure], title=f"{name_of(dataset)}: {TITLES[measure]}")
        if zoom:
            places[1].set_title("the early part" + f"; shaded {100 * low:g}–{100 * high:g} %" * (high > 0))
        return figure


def draw_measures(results: Results, dataset: str, methods: list[str]) -> Figure:
    """All five measures of a data set on one sheet, earliness in logarithmic steps."""
    with styled():
        figure = sheet(11.0, 6.6)
        places = figure.subplots(2, 3).ravel()
        first = _first(results, dataset, methods)
        for axes, measure in zip(places, MEASURES, strict=False):
            set_earliness(axes, first, 1.0, is_log=True)
            found = _draw_methods(axes, results, dataset, measure, methods)
            fit_heights(axes, [each for each, _ in found], first, 1.0, measure != "hm")
            axes.set_title(f"{name_of(dataset)}: {TITLES[measure]}" if measure == "accuracy" else TITLES[measure])
        _key(places[-1], methods)
        return figure


def draw_ablation(results: Results, dataset: str) -> Figure:
    """KVEC without each of its parts: HM and accuracy against earliness, the area under accuracy, and the best HM."""
    methods = [name for name in ABLATION if name in drawn_methods(results, dataset)]
    with styled():
        figure = sheet(9.6, 6.4)
        parts = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.5, 1))
        left, right = parts[0, 0].subplots(1, 2, width_ratios=(1, 1.05))
        for axes, measure in ((left, "hm"), (right, "accuracy")):
            set_earliness(axes, 0.0, ABLATION_END)
            drawn = _draw_methods(axes, results, dataset, measure, methods)
            fit_heights(axes, [each for each, _ in drawn], 0.0, ABLATION_END, measure != "hm")
            axes.set_title(f"{name_of(dataset)}: {TITLES[measure]}" if axes is left else TITLES[measure])
        name_lines(right, drawn)
        lines = {name: lines_of(results, dataset, name) for name in methods}
        reach = common_range(list(lines.values()))
        heights = {name: area(lines[name], *reach) for name in methods if reach}
        hm = {name: spread(list(best.values())) for name in methods if (best := best_hm(results, dataset, name))}
        first, second = parts[1, 0].subplots(1, 2)
        _dots(first, heights, methods, "mean accuracy along the curve")
        _dots(second, hm, methods, "HM at the point chosen on validation")
        second.set_yticklabels([])
        return figure


def _draw_methods(
    axes: Axes, results: Results, dataset: str, measure: str, methods: list[str]
) -> list[tuple[Band, Look]]:
    """Lines of methods, KVEC above the others, and the trained policies of swept ones as small marks."""
    found = []
    for name in sorted(methods, key=lambda name: (name == "kvec", name == "kvec-paper")):
        lines = lines_of(results, dataset, name, measure)
        if not lines:
            continue
        look = look_of(name)
        found.append((draw_line(axes, lines, look, 2.4 if name == "kvec" else 1.8), look))
        policies = swept_points(results, dataset, name) if not name.endswith(MOVED) else None
        if policies is not None and policies.height:
            axes.plot(
                policies["earliness"].to_numpy(), policies[measure].to_numpy(), look.marker, color="none", ms=4.5,
                mec=look.colour, mew=0.9, alpha=0.8, zorder=3,
            )  # fmt: skip
    if not found:
        empty(axes, "no results")
    return found


def _first(results: Results, dataset: str, methods: list[str]) -> float:
    """A round earliness just below the first that any line reaches."""
    starts = [line.earliness[0] for name in methods for line in lines_of(results, dataset, name).values()]
    lowest = max(min(starts, default=0.01), 0.002)
    return float(lowest / 1.15)


def _key(axes: Axes, methods: list[str]) -> None:
    """The names of lines, large, in an empty panel."""
    axes.axis("off")
    for i, name in enumerate(methods):
        look, at = look_of(name), 0.9 - 0.13 * i
        draw_sample(axes, look, (0.02, 0.15, 0.28), at, axes.transAxes)
        axes.text(
            0.32, at, look.label, color=LETTERS[look.colour], va="center", fontsize=10.5, transform=axes.transAxes
        )
    words = "bands: one standard deviation over seeds\nopen marks: trained policies,\none for each value and seed"
    at = 0.88 - 0.13 * len(methods)
    axes.text(0.02, at, words, va="top", fontsize=9, color=MUTED, transform=axes.transAxes)


def _dots(axes: Axes, heights: dict[str, Spread], methods: list[str], title: str) -> None:
    """A dot for each method, its deviation over seeds behind it."""
    axes.set_title(title)
    if not heights:
        empty(axes, "no results")
        return
    looks = [look_of(name) for name in methods]
    for i, (name, look) in enumerate(zip(methods, looks, strict=True)):
        if name not in heights:
            continue
        found = heights[name]
        axes.plot((found.mean - found.sd, found.mean + found.sd), (i, i), color=look.colour, lw=5, alpha=0.35)
        axes.plot(found.mean, i, look.marker, color=look.colour, ms=8, mec=PAPER)
        axes.annotate(
            f"{found.mean:.3f}", (found.mean + found.sd, i), (9, 0), textcoords="offset points", va="center",
            fontsize=LETTER_SIZE,
        )  # fmt: skip
    axes.set_yticks(range(len(methods)), [look.label for look in looks], fontsize=LETTER_SIZE)
    for label, look in zip(axes.get_yticklabels(), looks, strict=True):
        label.set_color(LETTERS[look.colour])
    low, high = (min(f.mean - f.sd for f in heights.values()), max(f.mean + f.sd for f in heights.values()))
    room = max(high - low, 0.02)
    axes.set(xlim=(low - 0.1 * room, high + 0.25 * room), ylim=(len(methods) - 0.4, -0.6))
