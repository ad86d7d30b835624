"""Pictures of an evaluation and of a training run. Each returns a figure; `canvas` turns it into SVG or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvec.report.canvas import (
    BLUE,
    GREEN,
    INK,
    LETTERS,
    MUTED,
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
from kvec.report.curves import Curve
from kvec.report.metrics import Floats, Ints, harmonic_mean
from kvec.report.places import leader_start, place_labels
from kvec.report.text import columns, percent, plain
from kvec.report.trust import Coverage, Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CLASSES = 60
LETTER = 0.0108  # the width of a letter, as a share of the widest panel
LOSS_TERMS = ("classification", "policy", "lateness", "every", "baseline", "unseen")
_MEASURES = (("hm", "HM", BLUE), ("accuracy", "accuracy", GREEN), ("earliness", "earliness ↓", VERMILLION))


def draw_curves(
    model: Curve, fixed: Curve, chosen: tuple[str, float, float], best_fixed: tuple[int, float, float],
    what: str = "best",
) -> Figure:  # fmt: skip
    """Accuracy against earliness: the model and the fixed-n rule, each with its point.

    `chosen` is (name, earliness, accuracy), `best_fixed` is (n, earliness, accuracy), and `what` is best about it.
    """
    with styled():
        figure = sheet(7.2, 4.4)
        axes: Axes = figure.subplots()
        lowest = min(model.accuracy.min(), fixed.accuracy.min(), chosen[2], best_fixed[2])
        bottom = max(0.0, np.floor(10 * lowest - 0.5) / 10)
        axes.set(xlim=(0, 1), ylim=(bottom, 1.0), ylabel="accuracy")
        axes.set_xlabel("earliness: share of the items seen before deciding (lower is better)")
        as_percent(axes.xaxis)
        as_percent(axes.yaxis)
        _hm_lines(axes)
        axes.plot(fixed.earliness, fixed.accuracy, color=VERMILLION, dashes=(4, 2), clip_on=False)
        axes.plot(model.earliness, model.accuracy, color=BLUE, lw=2.2, clip_on=False)
        named = (
            (chosen, BLUE, "o", 11, f"the model, {chosen[0]}"),
            (best_fixed, VERMILLION, "D", 7, f"{what} fixed rule, n = {best_fixed[0]}"),
        )
        points = np.array([[late, (right - bottom) / (1 - bottom)] for (_, late, right), *_ in named])
        words = [
            f"{name}\n{percent(right)} right after {percent(late)}, HM {harmonic_mean(right, late):.3f}"
            for (_, late, right), *_, name in named
        ]
        sizes = [(LETTER * max(map(columns, text.split("\n"))), 0.1) for text in words]
        places = place_labels(points, sizes, _along((model, fixed), bottom))
        for ((_, late, right), colour, marker, big, _), text, point, (left, low), (width, height) in zip(
            named, words, points, places, sizes, strict=True
        ):
            start = leader_start((left, low, left + width, low + height), (point[0], point[1]))
            axes.annotate(
                "", (late, right), start, textcoords="axes fraction",
                arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.9, "shrinkA": 0, "shrinkB": 2 + big / 2},
            )  # fmt: skip
            axes.text(
                left + width / 2, low + height / 2, text, color=LETTERS[colour], transform=axes.transAxes, ha="center",
                va="center", bbox={"boxstyle": "round,pad=0.2", "fc": PAPER, "ec": "none"},
            )  # fmt: skip
            axes.plot(late, right, marker, color=colour, ms=big, mec=PAPER, mew=1.5, zorder=5, clip_on=False)
        return figure


def draw_earliness(ratios: Floats, is_correct: Any) -> Figure:
    """How many sequences were decided after which share of their items, right and wrong ones."""
    with styled():
        figure = sheet(7.2, 2.8)
        axes: Axes = figure.subplots()
        right = np.asarray(is_correct, bool)
        edges = np.linspace(0, 1, 21)
        counts = [np.histogram(ratios[chosen], edges)[0] for chosen in (right, ~right)]
        axes.bar(edges[:-1], counts[0], 0.05, align="edge", color=BLUE, ec=PAPER, lw=0.8)
        axes.bar(edges[:-1], counts[1], 0.05, counts[0], align="edge", color=VERMILLION, ec=PAPER, lw=0.8)
        mean = float(np.mean(ratios))
        axes.axvline(mean, color=INK, lw=1, dashes=(3, 2))
        side = (5, "left") if mean < 0.7 else (-5, "right")
        axes.annotate(
            f"mean {percent(mean)}", (mean, 0.9), (side[0], 0), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha=side[1],
        )  # fmt: skip
        top = 1.2 * max(float((counts[0] + counts[1]).max()), 1.0)  # the words about the mean stand above all bars
        axes.set(xlim=(0, 1), ylim=(0, top), ylabel="sequences")
        axes.set_xlabel("earliness: share of the items seen (lower is better)")
        axes.grid(axis="x", visible=False)
        count_by_integers(axes.yaxis)
        as_percent(axes.xaxis)
        for x, word, colour in ((0.0, "■ right", BLUE), (0.09, "■ wrong", VERMILLION)):
            axes.text(x, 1.04, word, color=LETTERS[colour], transform=axes.transAxes)
        return figure


def draw_history(
    rows: Sequence[Mapping[str, Any]], losses: Sequence[str] | None = None, kept: float | None = None
) -> Figure:
    """Loss terms (those named, or columns that look like one) and validation measures by epoch.

    The epoch `kept` is ringed: its HM, and what it loses on unseen sequences.
    """
    epochs = [_number(row.get("epoch", i + 1)) for i, row in enumerate(rows)]
    names = list(rows[0]) if rows else []
    if losses is None:
        losses = [name for name in names if "loss" in name.lower() or name in LOSS_TERMS]
        losses = [name for name in losses if any(_number(row.get(name)) for row in rows)]  # an unused term stays zero
        if all(row.get("every") == row.get("loss") for row in rows):
            losses = [name for name in losses if name != "every"]  # it is all of the loss
    measured = [
        (name, word, colour)
        for measure, word, colour in _MEASURES
        for name in [next((n for n in (f"validation_{measure}", f"val_{measure}", measure) if n in names), None)]
        if name
    ]
    with styled():
        figure = sheet(9.4, 3.0)
        left, right = figure.subplots(1, 2)
        lines = [(name, plain(name.replace("_", " "), 22), SERIES[i % len(SERIES)]) for i, name in enumerate(losses)]
        for axes, title, chosen in ((left, "loss", lines), (right, "on validation", measured)):
            ends: list[tuple[float, str, str]] = []
            for name, word, colour in chosen:
                values = np.array([_number(row.get(name)) for row in rows])
                axes.plot(epochs, values, color=colour, marker="o" if len(rows) < 25 else "", ms=3.5)
                known = values[np.isfinite(values)]
                if known.size:
                    ends.append((float(known[-1]), word, colour))
            axes.set(title=title, xlabel="epoch")
            count_by_integers(axes.xaxis)
            if axes is right:
                axes.set_ylim(0, 1)
                as_percent(axes.yaxis)
            if ends:
                label_ends(axes, ends, epochs[-1])
        if kept in epochs:
            ringed = [(left, name) for name in losses if name == "unseen"]
            ringed += [(right, name) for name, word, _ in measured if word == "HM"]
            for axes, name in ringed:
                value = _number(rows[epochs.index(kept)].get(name))
                axes.plot(kept, value, "o", ms=9, mfc="none", mec=INK, mew=1.2)
            right.set_title(f"on validation; kept: epoch {kept:g}")
        return figure


def draw_confusion(matrix: Ints, classes: Sequence[str]) -> Figure:
    """The confusion matrix as shares of each true class, for the classes that occur (the 60 most frequent)."""
    support, given = matrix.sum(axis=1), matrix.sum(axis=0)
    occurring = np.flatnonzero(support + given)
    shown = np.sort(occurring[np.argsort(-support[occurring], kind="stable")[:MOST_CLASSES]])
    matrix = matrix[np.ix_(shown, shown)]
    n = shown.size
    shares = matrix / np.maximum(support[shown, None], 1)
    with styled():
        cell = float(np.clip(5.4 / max(n, 1), 0.17, 0.8))
        figure = sheet(max(4.2, 2.2 + n * cell), 1.5 + n * cell)
        axes: Axes = figure.subplots()
        shade(axes, shares, BLUE, (-0.5, n - 0.5, n - 0.5, -0.5))
        letters = float(np.clip(cell * 72 * 0.42, 6.0, 9.0))
        names = [plain(classes[i], 20) for i in shown]
        is_wide = max(map(columns, names)) * letters * 0.6 > cell * 72
        axes.set_xticks(range(n), names, rotation=90 if is_wide else 0, fontsize=letters)
        axes.set_yticks(
            range(n),
            [f"{name}  {count:,}" for name, count in zip(names, support[shown], strict=True)],
            fontsize=letters,
        )
        axes.set(xlabel="given class", ylabel="true class (sequences)")
        axes.set_xticks(np.arange(n + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(n + 1) - 0.5, minor=True)
        axes.grid(which="minor", lw=0.4)
        if n <= 20:
            for i, j in zip(*np.nonzero(matrix), strict=True):
                words = f"{100 * shares[i, j]:.0f}" if shares[i, j] >= 0.005 else "·"
                colour = "#ffffff" if shares[i, j] > 0.55 else INK
                axes.text(j, i, words, ha="center", va="center", fontsize=letters, color=colour)
        axes.set_title("% of each true class" + (f"; {n} of {occurring.size} classes" * (n < occurring.size)))
        return figure


def draw_reliability(after: Reliability, before: Reliability | None = None) -> Figure:
    """How often decisions were right against how sure they were, with 95 % intervals, and how many there were."""
    with styled():
        figure = sheet(4.3, 5.0)
        axes, counts = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        axes.plot((0, 1), (0, 1), color=MUTED, lw=1, dashes=(3, 2))
        axes.text(0.06, 0.12, "as sure as right", color=MUTED, rotation=45, transform_rotates_text=True, fontsize=8)
        words = [("● calibrated", BLUE, after)]
        if before is not None:
            axes.plot(before.confidence, before.accuracy, "D", color=VERMILLION, ms=4.5, mfc="none", mew=1.2, zorder=3)
            words.append(("◇ before", VERMILLION, before))
        gaps = (after.accuracy - after.low, after.high - after.accuracy)
        axes.errorbar(after.confidence, after.accuracy, gaps, fmt="o", color=BLUE, ms=5, lw=1.2, zorder=4)
        for i, (name, colour, table) in enumerate(words):
            text = f"{name}: ECE {table.error:.3f}, Brier {table.brier:.3f}"
            height = 1.03 + 0.07 * (len(words) - 1 - i)
            axes.text(0.0, height, text, color=LETTERS[colour], transform=axes.transAxes, va="bottom")
        axes.set(xlim=(0, 1.03), ylim=(0, 1.03), ylabel="share that was right")
        as_percent(axes.yaxis)
        counts.bar(after.confidence, after.count, 0.05, color=BLUE, lw=0)
        counts.set(xlabel="probability at the decision", ylabel="decisions", ylim=(0, None))
        counts.grid(axis="x", visible=False)
        count_by_integers(counts.yaxis, 3)
        as_percent(counts.xaxis)
        return figure


def draw_coverage(coverage: Coverage, chosen: tuple[float, float] | None = None) -> Figure:
    """The accuracy of the surest decisions against their share; `chosen` is (share, accuracy) of the known ones."""
    with styled():
        figure = sheet(4.3, 3.4)
        axes: Axes = figure.subplots()
        lowest = min(float(coverage.accuracy.min(initial=1.0)), chosen[1] if chosen else 1.0)
        bottom = max(0.0, np.floor(10 * lowest - 0.5) / 10)
        axes.plot(coverage.share, coverage.accuracy, color=BLUE, clip_on=False)
        axes.set(xlim=(0, 1), ylim=(bottom, 1.0), ylabel="accuracy of these")
        axes.set_xlabel("share of the decisions, the surest first")
        as_percent(axes.xaxis)
        as_percent(axes.yaxis)
        if chosen is not None:
            share, right = chosen
            axes.plot(share, right, "o", color=VERMILLION, ms=9, mec=PAPER, mew=1.5, zorder=5, clip_on=False)
            text = f"known: {percent(share)},\n{percent(right)} of them right"
            side = (-9, "right") if share > 0.5 else (9, "left")
            axes.annotate(
                text, (share, right), (side[0], -10), textcoords="offset points", ha=side[1], va="top",
                color=LETTERS[VERMILLION],
            )  # fmt: skip
        return figure


def _hm_lines(axes: Axes) -> None:
    """Lines of equal HM in the background."""
    saved = np.linspace(1, 0.02, 300)
    for hm in (0.5, 0.6, 0.7, 0.8, 0.9):
        reach = saved[saved > 0.52 * hm]
        axes.plot(1 - reach, hm * reach / (2 * reach - hm), color=MUTED, alpha=0.4, lw=0.8, zorder=0.5)
        axes.text(1 - hm / (2 - hm), 1.012, f"HM {hm:.1f}", color=MUTED, fontsize=8, ha="center")


def _along(drawn: Sequence[Curve], bottom: float) -> Floats:
    """Points along curves, evenly apart, as shares of the picture."""
    parts = []
    for curve in drawn:
        x, y = curve.earliness, (curve.accuracy - bottom) / (1 - bottom)
        way = np.append(0, np.cumsum(np.hypot(np.diff(x), np.diff(y))))
        at = np.linspace(0, way[-1], 120)
        parts.append(np.stack([np.interp(at, way, x), np.interp(at, way, y)], axis=1))
    return np.concatenate(parts)


def _number(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        return float("nan")
