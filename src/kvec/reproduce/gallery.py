"""Which figures a folder of results gives, with their names and what to look for in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kvec.reproduce import figures, inner_figures
from kvec.reproduce.by_items import draw_by_items, draw_side_by_side, measured_trainings, side_by_side
from kvec.reproduce.curves import MEASURES, drawn_methods
from kvec.reproduce.dials import dials_of, draw_dial
from kvec.reproduce.discussions import key_counts, sweep
from kvec.reproduce.looks import ABLATION, name_of
from kvec.reproduce.results import Results
from kvec.reproduce.tables import data_table
from kvec.reproduce.yardsticks import draw_yardsticks, has_yardstick

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISCUSSED = ("kvec", "kvec-paper")  # trainings whose attention is drawn
READERS = ("kvec-hidden-every", "logistic")  # trained at every length
MOST_COLUMNS = 8  # of the table as a picture


@dataclass(frozen=True)
class Picture:
    """A figure that can be drawn: its file name, its place in the report and its caption."""

    name: str
    section: str  # a data set, or an experiment
    caption: str
    draw: Callable[[], Figure]
    is_shown: bool = True  # in the report itself; others are files beside it


def pictures(results: Results) -> Iterator[Picture]:
    """All figures that these results can give, in the order of the report."""
    for dataset in results.datasets():
        yield from _of_dataset(results, dataset)
    for dataset in results.datasets():
        if len(set(ABLATION) & drawn_methods(results, dataset)) > 2:
            caption = f"KVEC and KVEC without each of its parts on {name_of(dataset)}."
            yield Picture(f"{dataset}-ablation", "ablation", caption, partial(figures.draw_ablation, results, dataset))
        if sweep(results, dataset, "alpha").height:
            caption = f"Accuracy and earliness of the trained policy over α and β on {name_of(dataset)}."
            draw = partial(inner_figures.draw_sensitivity, results, dataset)
            yield Picture(f"{dataset}-sensitivity", "sensitivity", caption, draw)
    yield from _inner(results)
    yield from _beyond(results)


def _of_dataset(results: Results, dataset: str) -> Iterator[Picture]:
    main, where = figures.main_methods(results, dataset), name_of(dataset)
    if main:
        caption = f"The five measures against earliness on {where}; earliness in logarithmic steps."
        yield Picture(f"{dataset}-measures", dataset, caption, partial(figures.draw_measures, results, dataset, main))
        parts = ", the whole range and its early part" if figures.early_part(results, dataset, main) else ""
        for measure in MEASURES:
            caption = f"{figures.TITLES[measure]} against earliness on {where}{parts}."
            draw = partial(figures.draw_measure, results, dataset, measure, main)
            yield Picture(f"{dataset}-{measure}", dataset, caption, draw, measure in ("accuracy", "hm"))
    for kind, methods, words in _compared(results, dataset):
        if figures.are_apart(results, dataset, methods):
            draw = partial(figures.draw_measure, results, dataset, "accuracy", methods)
            yield Picture(f"{dataset}-{kind}", dataset, f"{words}.", draw)


def not_drawn(results: Results) -> list[str]:
    """Figures that are left out, since all their lines lie on each other."""
    return [
        f"{words}: all lines lie on each other, and are not drawn."
        for dataset in results.datasets()
        for _, methods, words in _compared(results, dataset)
        if not figures.are_apart(results, dataset, methods)
    ]


def _compared(results: Results, dataset: str) -> Iterator[tuple[str, list[str], str]]:
    """Methods that are compared beside the paper's: a kind of figure, the methods and what they are."""
    main, where = figures.main_methods(results, dataset), name_of(dataset)
    for kind, methods, words in (
        ("rules-srn", figures.rules_of_srn(results, dataset), "Ways of halting on what SRN says, beside KVEC, on"),
        ("rules-kvec", figures.rules_of_kvec(results, dataset), "Ways of halting on what KVEC says, on"),
        ("moved", figures.moved_methods(results, dataset), "Swept methods, and their thresholds moved instead, on"),
    ):
        if len(methods) > 1 and not set(methods) <= set(main):
            yield kind, methods, f"{words} {where}"


def _inner(results: Results) -> Iterator[Picture]:
    for dataset in results.attention["dataset"].unique(maintain_order=True).to_list():
        own = results.attention.filter(results.attention["dataset"] == dataset)
        trainings = [name for name in DISCUSSED if name in own["training"].to_list()]
        if trainings and "@" not in dataset:
            caption = (
                f"Attention to the own key and to other keys on {name_of(dataset)}, by how much of a key was seen."
            )
            draw = partial(inner_figures.draw_attention, results, dataset, trainings)
            yield Picture(f"{dataset}-attention", "attention", caption, draw)
    if halted := results.halts["dataset"].unique(maintain_order=True).to_list():
        caption = "Where sequences were decided, by a halt or at their end, and the true positions."
        yield Picture("halting", "halting", caption, partial(inner_figures.draw_halting, results, halted))
    for base, counts in key_counts(results).items():
        known = [k for k in counts if "kvec" in drawn_methods(results, f"{base}@{k}")]
        if known:
            caption = f"KVEC with K concurrent keys on {name_of(base)}; earliness in logarithmic steps."
            yield Picture(f"{base}-keys", "keys", caption, partial(inner_figures.draw_keys, results, base, known))
    if results.data.height:
        table = data_table(results)
        header, rows = table.header[:MOST_COLUMNS], [row[:MOST_COLUMNS] for row in table.rows]
        draw = partial(inner_figures.draw_table, header, rows, "Data sets")
        yield Picture("table-1", "data", "Table I: the data sets in numbers.", draw, is_shown=False)


def _beyond(results: Results) -> Iterator[Picture]:
    for dataset in results.datasets():
        if dials_of(results, dataset):
            caption = f"One model with a dial on {name_of(dataset)}, and models trained for one delay cost each."
            yield Picture(f"{dataset}-dial", "dial", caption, partial(draw_dial, results, dataset))
        if has_yardstick(results, dataset):
            caption = (
                f"Accuracy against earliness on {name_of(dataset)}, beside boosted trees for each number of items."
            )
            yield Picture(f"{dataset}-yardsticks", "beyond", caption, partial(draw_yardsticks, results, dataset))
        trainings = measured_trainings(results, dataset)
        if "logistic" in trainings:
            caption = f"What is told after n items on {name_of(dataset)}, beside logistic regression on the same items."
            draw = partial(draw_by_items, results, dataset, [name for name in trainings if name in READERS])
            yield Picture(f"{dataset}-items", "ratings", caption, draw)
    for base, numbers in side_by_side(results).items():
        caption = f"{name_of(base)} with and without other keys, in ever larger tangles."
        yield Picture(f"{base}-visibility", "visibility", caption, partial(draw_side_by_side, results, base, numbers))
