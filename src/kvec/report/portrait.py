"""The picture of one decision: what the model made of each item, and which items it looked at, until it halted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kvec.report.canvas import (
    BLUE,
    GREEN,
    GRID,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    SERIES,
    VERMILLION,
    as_percent,
    count_by_integers,
    label_ends,
    shade,
    sheet,
    styled,
)  # fmt: skip
from kvec.report.metrics import Ints
from kvec.report.text import AFTER_HALT, explanation_headline, percent, plain
from kvec.words.explanation import Explanation, Step
from kvec.words.plain import shown_theta

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_STEPS = 200
MOST_CLASSES = 5
MOST_OTHERS = 10


def draw_explanation(explanation: Explanation) -> Figure:
    """Class probabilities, halting scores and attention by item, until the decision and a few items beyond."""
    n_observed = explanation.decision.n_observed
    end = min(len(explanation.steps), n_observed + AFTER_HALT)
    start = max(0, end - MOST_STEPS)
    steps = explanation.steps[start:end]
    others = _heaviest_others(steps)
    with styled():
        heights = [2.0, 1.1, _own_height(len(steps)), 0.35 + 0.21 * len(others)]
        figure = sheet(8.2, sum(heights) + 0.9)
        panels = figure.subplots(4, 1, sharex=True, height_ratios=heights)
        x = np.arange(start + 1, end + 1)
        limits = (start + 0.4, max(end, start + 6) + 0.6)
        panels[0].set_xlim(limits)
        _probabilities(panels[0], x, steps, explanation)
        _halting(panels[1], x, steps, explanation)
        _own(panels[2], x, steps, start)
        _others(panels[3], x, steps, others)
        panels[3].set_xlabel("item of the sequence" + _values(panels[3], x, steps))
        panels[0].set_xlim(limits)
        for axes in panels:
            axes.axvline(n_observed, color=INK, lw=0.9, dashes=(3, 2), zorder=1.5)
            if end > n_observed:
                axes.axvspan(n_observed + 0.5, end + 0.6, color=GRID, alpha=0.35, lw=0, zorder=0.4)
        figure.suptitle(plain(explanation_headline(explanation), 110), x=0.01, ha="left", fontsize=9.5, weight="bold")
        return figure


def _probabilities(axes: Axes, x: Ints, steps: Sequence[Step], explanation: Explanation) -> None:
    """The likeliest classes as lines with their names; the given class is the strongest line."""
    table = np.array([step.probabilities for step in steps])
    given = explanation.classes.index(explanation.decision.label)
    by_weight = [c for c in np.argsort(-table.max(axis=0), kind="stable").tolist() if c != given]
    axes.set(ylim=(0, 1.03), title="probability of each class")
    ends = []
    for c, colour in zip([given, *by_weight][:MOST_CLASSES], SERIES, strict=False):
        axes.plot(x, table[:, c], color=colour, lw=2.4 if c == given else 1.4, marker="o", ms=_dot(len(x)))
        ends.append((float(table[-1, c]), f"{plain(explanation.classes[c], 16)} {100 * table[-1, c]:.0f} %", colour))
    label_ends(axes, ends, x[-1] + 0.6, gap=0.1)
    as_percent(axes.yaxis)


def _halting(axes: Axes, x: Ints, steps: Sequence[Step], explanation: Explanation) -> None:
    """The halting score of each item against θ."""
    scores = np.array([step.halt_score for step in steps])
    reached = scores >= explanation.threshold
    axes.bar(x, scores, 0.8, color=[VERMILLION if is_reached else ORANGE for is_reached in reached], lw=0)
    axes.axhline(explanation.threshold, color=INK, lw=1)
    axes.set(ylim=(0, 1.03), title="halting score")
    axes.grid(axis="x", visible=False)
    label_ends(axes, [(explanation.threshold, shown_theta(explanation.threshold), INK)], axes.get_xlim()[1])


def _own(axes: Axes, x: Ints, steps: Sequence[Step], start: int) -> None:
    """Attention inside the sequence: each column is an item, its rows the earlier items it looked at."""
    n = len(steps)
    weights = np.zeros((n, n))
    for column, step in enumerate(steps):
        for look in step.looks:
            if look.is_own and start <= look.position < start + n:
                weights[look.position - start, column] = look.weight
    heaviest = weights.max()
    strength = np.sqrt(weights / heaviest) if heaviest else weights
    shade(axes, strength, GREEN, (x[0] - 0.5, x[-1] + 0.5, x[-1] + 0.5, x[0] - 0.5))
    axes.set_title(f"attention inside the sequence, by looked-at item (strongest {percent(heaviest)})")
    count_by_integers(axes.yaxis)


def _others(axes: Axes, x: Ints, steps: Sequence[Step], others: Sequence[tuple[int, str]]) -> None:
    """The heaviest items of other keys, one row each; the area of a dot is the attention it received."""
    axes.set_title("attention to items of other keys")
    axes.set_ylim(len(others) - 0.5 if others else 0.5, -0.5)
    axes.set_yticks(range(len(others)), [name for _, name in others], fontsize=7.5)
    row = {arrival: i for i, (arrival, _) in enumerate(others)}
    dots = [
        (x[i], row[look.arrival], look.weight)
        for i, step in enumerate(steps)
        for look in step.looks
        if look.arrival in row and not look.is_own
    ]
    if not dots:
        axes.text(0.5, 0.5, "none was looked at", transform=axes.transAxes, ha="center", va="center", color=MUTED)
        axes.set_yticks([])
        return
    where, height, weight = np.array(dots).T
    axes.scatter(where, height, 3 + 110 * weight / weight.max(), color=BLUE, ec=PAPER, lw=0.5, zorder=3)
    axes.set_title(f"attention to items of other keys (largest {percent(weight.max())})")


def _heaviest_others(steps: Sequence[Step]) -> list[tuple[int, str]]:
    """Arrival and name of the items of other keys that received the most attention, in order of arrival."""
    total: dict[int, float] = {}
    names: dict[int, str] = {}
    for step in steps:
        for look in step.looks:
            if not look.is_own:
                total[look.arrival] = total.get(look.arrival, 0.0) + look.weight
                names[look.arrival] = f"{plain(look.key, 20)} #{look.position + 1}: {plain(look.value, 16)}"
    chosen = sorted(total, key=lambda arrival: -total[arrival])[:MOST_OTHERS]
    return [(arrival, names[arrival]) for arrival in sorted(chosen)]


def _values(axes: Axes, x: Ints, steps: Sequence[Step]) -> str:
    """Write the value of each item under its number where there is room; return what the label should add."""
    if len(steps) > 40:
        count_by_integers(axes.xaxis)
        return ""
    axes.set_xticks(
        x, [f"{plain(step.value, 16)}  {i}" for i, step in zip(x, steps, strict=True)], fontsize=7, rotation=90
    )
    return ", and its value"


def _own_height(n: int) -> float:
    return float(np.clip(0.3 + 0.12 * n, 0.6, 2.4))


def _dot(n: int) -> float:
    return 3.5 if n <= 40 else 0.0
