"""Figures of what is inside KVEC: α and β, attention, halting positions, number of keys (§V-C, §V-E), and table I."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kvec.report.canvas import (
    BLUE,
    GREEN,
    INK,
    LETTERS,
    MUTED,
    VERMILLION,
    as_percent,
    count_by_integers,
    label_ends,
    sheet,
    styled,
)
from kvec.report.metrics import Floats
from kvec.reproduce.curves import lines_of
from kvec.reproduce.discussions import FEWEST_ITEMS, attention_of, sweep
from kvec.reproduce.looks import SWEPT, Look, look_of, name_of
from kvec.reproduce.results import Results
from kvec.reproduce.strokes import (
    LETTER_SIZE,
    colours,
    draw_line,
    empty,
    fit_heights,
    name_lines,
    set_earliness,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_sensitivity(results: Results, dataset: str) -> Figure:
    """Accuracy and earliness of the trained policy over values of α and of β, each told with the other's value."""
    with styled():
        figure = sheet(9.6, 3.8)
        for axes, setting in zip(figure.subplots(1, 2), ("alpha", "beta"), strict=True):
            table = sweep(results, dataset, setting)
            axes.set_title(f"{name_of(dataset)}: {SWEPT[setting]}{_held(results, dataset, setting)}")
            if not table.height:
                empty(axes, "not run")
                continue
            places = np.arange(table.height)
            ends = []
            for name, colour, mark, dashes in (("accuracy", BLUE, "o", ()), ("earliness", VERMILLION, "s", (4, 2))):
                y, sd = table[name].to_numpy(), table[f"{name}_sd"].to_numpy()
                axes.errorbar(places, y, sd, color=colour, fmt="none", capsize=3, lw=1)
                (line,) = axes.plot(places, y, color=colour, marker=mark, ms=6)
                if dashes:
                    line.set_dashes(dashes)
                ends.append((float(y[-1]), name + " ↓" * (name == "earliness"), colour))
            turned = 40 if table.height > 7 else 0
            axes.set_xticks(places, [f"{value:.2g}" for value in table["value"].to_list()], rotation=turned)
            axes.set(xlim=(-0.3, table.height - 0.7), ylim=(0, 1.03), xlabel=SWEPT[setting])
            as_percent(axes.yaxis)
            label_ends(axes, ends, table.height - 0.7)
        return figure


def _held(results: Results, dataset: str, setting: str) -> str:
    """At which value the other of α and β was held, if all cells of a sweep tell the same."""
    other = "beta" if setting == "alpha" else "alpha"
    own = results.cells.filter(
        (pl.col("dataset") == dataset) & (pl.col("training") == "kvec-paper") & (pl.col("swept") == setting)
    )
    values = set(own["settings"].str.extract(rf"(?:^|\s)training\.{other}=(\S+)").to_list())
    value = values.pop() if len(values) == 1 else None
    return f", at {SWEPT[other]} = {value}" if value else ""


def draw_attention(results: Results, dataset: str, trainings: Sequence[str]) -> Figure:
    """Attention inside the own sequence and to others, and accuracy, against how much of the sequence was seen."""
    with styled():
        figure = sheet(5.2 * len(trainings) + 0.6, 3.9)
        for axes, training in zip(figure.subplots(1, len(trainings), squeeze=False)[0], trainings, strict=True):
            own = attention_of(results, dataset, training).filter(pl.col("items") >= FEWEST_ITEMS)
            columns = ("inside", "outside", "accuracy")
            means = own.group_by("earliness").agg(
                *(pl.col(name).mean() for name in columns),
                *(pl.col(name).std().fill_null(0.0).alias(f"{name}_sd") for name in columns),
            )
            means = means.sort("earliness")
            ends = []
            for name, words, colour, mark, dashes in (
                ("inside", "own key", BLUE, "o", ()), ("outside", "other keys", VERMILLION, "s", (5, 2)),
                ("accuracy", "accuracy", GREEN, "^", (1.5, 1.5)),
            ):  # fmt: skip
                x, y, sd = (means[column].to_numpy() for column in ("earliness", name, f"{name}_sd"))
                axes.fill_between(x, y - sd, y + sd, color=colour, alpha=0.16, lw=0)
                (line,) = axes.plot(x, y, color=colour, marker=mark, ms=4.5)
                if dashes:
                    line.set_dashes(dashes)
                ends += [(float(y[-1]), words, colour)] if y.size else []
            set_earliness(axes, 0.0, 1.0)
            axes.set_xlabel("share of the sequence seen")
            axes.set(ylim=(0, 1.03), title=f"{name_of(dataset)}: {look_of(training).label}")
            axes.set_ylabel("share of attention; accuracy")
            as_percent(axes.yaxis)
            label_ends(axes, ends, 1.0)
            if not ends:
                empty(axes, "too few items")
        return figure


def draw_halting(results: Results, datasets: Sequence[str]) -> Figure:
    """Where sequences were decided and where they could be: a row for each data set, KVEC beside its ablation."""
    methods = ("kvec", "kvec-no-value")
    with styled():
        figure = sheet(9.6, 2.9 * len(datasets))
        rows = figure.subplots(len(datasets), 2, squeeze=False, sharex="row", sharey="row")
        for row, dataset in zip(rows, datasets, strict=True):
            of_set = results.halts.filter(pl.col("dataset") == dataset)
            last = float(np.max(of_set.select("n_observed", "true").to_numpy())) + 1
            edges = np.linspace(0.5, last + 0.5, min(int(last), 50) + 1)
            for axes, method in zip(row, methods, strict=True):
                own = of_set.filter(pl.col("method") == method)
                look = look_of(method)
                axes.set_title(f"{name_of(dataset)}: {'KVEC' if method == 'kvec' else look.label}")
                axes.set_xlabel("items read")
                if not own.height:
                    empty(axes, "not run")
                    continue
                _histogram(axes, own, edges, look)
            row[0].set_ylabel("sequences")
            as_percent(row[0].yaxis)
            highest = row[0].get_ylim()[1]
            row[0].set_yticks([tick for tick in row[0].get_yticks() if tick <= 1.0])
            row[0].set(xlim=(0, last + 1), ylim=(0, 1.3 * highest))  # the words stand above the bars
            count_by_integers(row[0].xaxis)
        return figure


def _histogram(axes: Axes, own: pl.DataFrame, edges: Floats, look: Look) -> None:
    """Shares of places of decision as bars, of true ones as an outline; both named inside."""
    weight = own["count"].to_numpy() / own["count"].sum()
    found = np.histogram(own["n_observed"].to_numpy(), edges, weights=weight)[0]
    true = np.histogram(own["true"].to_numpy(), edges, weights=weight)[0]
    axes.bar(edges[:-1], found, np.diff(edges), align="edge", color=look.colour, alpha=0.75, lw=0)
    if np.count_nonzero(true) == 1:
        axes.axvline(float(own["true"][0]), color=INK, lw=1.4, dashes=(4, 2))
    else:
        axes.stairs(true, edges, color=INK, lw=1.4)
    axes.grid(axis="x", visible=False)
    mark = "┆" if np.count_nonzero(true) == 1 else "□"
    is_late = float(np.average(own["true"].to_numpy(), weights=weight)) > edges[-1] / 2
    for i, (words, colour) in enumerate((("■ decided", LETTERS[look.colour]), (f"{mark} true position", INK))):
        x = (0.03 if is_late else 0.58) + 0.2 * i
        axes.text(x, 0.9, words, color=colour, fontsize=LETTER_SIZE, transform=axes.transAxes)


def draw_keys(results: Results, base: str, counts: Sequence[int]) -> Figure:
    """KVEC with K concurrent keys: HM and accuracy against earliness, darker for more keys."""
    with styled():
        figure = sheet(9.6, 4.2)
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.05))
        marks, shades = "osD^vPX", colours(len(counts))
        found = {}
        for axes, measure, end in ((left, "hm", 0.5), (right, "accuracy", 1.0)):
            lines = {k: lines_of(results, f"{base}@{k}", "kvec", measure) for k in counts}
            first = min(line.earliness[0] for of_k in lines.values() for line in of_k.values())
            set_earliness(axes, max(float(first), 0.002) / 1.15, end, is_log=True)
            found[measure] = [
                (draw_line(axes, lines[k], look), look)
                for i, k in enumerate(counts)
                for look in [Look(f"K = {k}", shades[i], marks[i % len(marks)])]
                if lines[k]
            ]
            fit_heights(axes, [each for each, _ in found[measure]], 0.0, end, measure != "hm")
        name_lines(right, found["accuracy"])
        left.set_title(f"{name_of(base)}: HM")
        right.set_title("accuracy")
        return figure


def draw_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Figure:
    """A small table as a picture."""
    widths = [max(len(str(row[i])) for row in (header, *rows)) + 2 for i in range(len(header))]
    edges = np.concatenate([[0], np.cumsum(widths)])
    with styled():
        figure = sheet(float(max(6.0, 0.085 * edges[-1])), 0.32 * (len(rows) + 2.2))
        axes: Axes = figure.subplots()
        axes.set(xlim=(0, edges[-1]), ylim=(len(rows) + 0.6, -0.8), title=title)
        axes.axis("off")
        for y, row in enumerate((header, *rows)):
            for i, words in enumerate(row):
                x, side = (edges[i], "left") if i == 0 else (edges[i + 1] - 0.5, "right")
                axes.text(x, y, words, ha=side, va="center", fontsize=9, color=MUTED if y == 0 else INK)
        axes.axhline(0.5, color=MUTED, lw=0.8)
        return figure
