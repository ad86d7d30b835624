"""Whether halting policies had converged on validation, since claims about them are else not tested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from kvec.reproduce.collapse import NEAR, is_collapsed
from kvec.reproduce.looks import MOVED, look_of
from kvec.reproduce.results import Results, main_cells, numbers

GAIN = 0.01  # of HM on validation in the last third of the epochs; with more, training was not at its end
WITHOUT_EPOCHS = ("trees", "logistic")  # they learn until they are done
BLIND = 0.02  # of macro recall above chance: with less at its best, a network names one class whatever it sees


@dataclass(frozen=True)
class Convergence:
    """The policies of one training on one data set: how many seeds and cells of them had converged."""

    n_seeds: int
    n_converged: int
    n_cells: int
    n_collapsed: int
    n_unsettled: int  # of those neither collapsed nor blind
    control: tuple[float, float] | None = None  # how often the time was given to another run, and its gain in HM
    n_blind: int = 0  # not collapsed, but one class is named whatever is seen
    n_alive: int = 0  # seeds with a cell that is neither

    @property
    def is_converged(self) -> bool:
        """Whether most seeds had converged."""
        return 2 * self.n_converged > self.n_seeds

    @property
    def is_alive(self) -> bool:
        """Whether most seeds have a cell that tells classes apart and halts between the ends."""
        return 2 * self.n_alive > self.n_seeds

    def words(self) -> str:
        """What to say of it in a table.

        >>> Convergence(3, 1, 12, 8, 2).words()
        'converged in 1 of 3 seeds; of 12 cells 8 collapsed, 2 still rising'
        """
        faults = [
            (self.n_collapsed, "collapsed"), (self.n_blind, "named one class only"), (self.n_unsettled, "still rising"),
        ]  # fmt: skip
        told = ", ".join(f"{n} {word}" for n, word in faults if n)
        cells = "cell" if self.n_cells == 1 else "cells"
        control = "" if self.control is None else "; {:g} times the time gained {:+.3f} HM".format(*self.control)
        return (
            f"converged in {self.n_converged} of {self.n_seeds} seeds"
            + f"; of {self.n_cells} {cells} {told}" * bool(told)
            + control
        )


def convergence(results: Results, dataset: str, training: str, swept: str | None = None) -> Convergence:
    """How a training converged: its main cells, or those of one swept setting.

    A seed converged when at least one of its cells had neither collapsed (the ends of a sweep may) nor named one class
    only, and at least half of those had settled. Where another run was given more time, what that gained says whether
    all of them had.
    """
    cells = results.cells.filter(pl.col("dataset") == dataset)
    cells = main_cells(cells) if swept is None else cells.filter(pl.col("swept") == swept)
    cells = cells.filter(pl.col("training") == training)
    by_word, waiting, control = _by_word(results), _waiting(results), _control(results, dataset, training)
    blind, words = _blind(results, dataset), _words(results)
    seeds: dict[int, list[tuple[bool, bool, bool]]] = {}
    for row in cells.iter_rows(named=True):
        cell, late = row["cell"], words.get(row["cell"])
        has_collapsed = late is not None and is_collapsed(late, row["first_earliness"] or 0.0, cell in waiting)
        hm = _by_epoch(row, cell in by_word)
        has_settled = training in WITHOUT_EPOCHS or (is_settled(hm) if control is None else _is_over(control[1]))
        seeds.setdefault(row["seed"], []).append((has_collapsed, cell in blind, has_settled))
    alive = {seed: [settled for *dead, settled in found if not any(dead)] for seed, found in seeds.items()}
    of_all = [found for own in seeds.values() for found in own]
    return Convergence(
        n_seeds=len(seeds),
        n_converged=sum(bool(found) and 2 * sum(found) >= len(found) for found in alive.values()),
        n_cells=cells.height,
        n_collapsed=sum(collapsed for collapsed, _, _ in of_all),
        n_unsettled=sum(not settled for found in alive.values() for settled in found),
        control=control,
        n_blind=sum(is_blind and not collapsed for collapsed, is_blind, _ in of_all),
        n_alive=sum(map(bool, alive.values())),
    )


def doubts(results: Results, dataset: str, methods: Iterable[str], only_dead: bool = False) -> str:
    """Which methods rest on a training that had not converged, in words; nothing if all had.

    Of the dead alone: those of which most seeds had collapsed or named one class, not merely risen still.
    """
    training_of = dict(results.points.select("method", "training").unique().rows())
    found = {}
    for method in methods:
        name = method.removesuffix(MOVED)
        found[name] = convergence(results, dataset, training_of.get(name, name))
    told = {name: each for name, each in found.items() if not (each.is_alive if only_dead else each.is_converged)}
    return "; ".join(f"{look_of(name).label} {each.words()}" for name, each in told.items())


def is_settled(hm: list[float]) -> bool:
    """Whether the last third of the epochs brought no HM better by more than 0.01 than before; not with under three.

    >>> is_settled([0.5, 0.7, 0.705]), is_settled([0.5, 0.6, 0.7])
    (True, False)
    """
    if len(hm) < 3:
        return False
    start = len(hm) - len(hm) // 3
    return _is_over(max(hm[start:]) - max(hm[:start]))


def _is_over(gain: float) -> bool:
    return gain <= GAIN + 1e-9


def _by_word(results: Results) -> set[str]:
    """Cells whose policies are judged by their own word (θ = 0.5): sampled ones, and where the true halts are known.

    The curve of others is that of a threshold: which of its points is best by HM says nothing of what was learned.
    """
    swept = results.points.filter(pl.col("curve") == "swept")["cell"].to_list()
    return {*swept, *results.halts["cell"].to_list()}


def _words(results: Results) -> dict[str, float]:
    """How early each policy that is judged by its own word halts: on test, as in its curve, else on validation."""
    halted = results.cells.filter(pl.col("cell").is_in(results.halts["cell"].to_list())).drop_nulls("word_earliness")
    swept = results.points.filter(pl.col("curve") == "swept").drop_nulls("earliness")
    return dict(halted.select("cell", "word_earliness").rows()) | dict(swept.select("cell", "earliness").rows())


def _blind(results: Results, dataset: str) -> set[str]:
    """Cells that name one class whatever they see: nowhere on their curves is macro recall above chance."""
    known = results.data.filter(pl.col("dataset") == dataset.partition("@")[0])
    if not known.height or known["classes"][0] is None:
        return set()
    best = results.points.filter(pl.col("dataset") == dataset).group_by("cell").agg(pl.col("recall").max())
    return set(best.filter(pl.col("recall") < 1 / known["classes"][0] + BLIND)["cell"].to_list())


def _by_epoch(row: Mapping[str, Any], is_by_word: bool) -> list[float]:
    """HM on validation by epoch, by the policy's own word where that counts and is known."""
    return (numbers(row["word_hm_by_epoch"]) if is_by_word else []) or numbers(row["hm_by_epoch"])


def _control(results: Results, dataset: str, training: str) -> tuple[float, float] | None:
    """How often the time other runs of a training were given, and the most HM on validation that one of them gained."""
    place = (pl.col("dataset") == dataset) & (pl.col("training") == training)
    by_word = _by_word(results)
    gains = []
    for row in results.controls.filter(place).iter_rows(named=True):
        is_same = (pl.col("setting") == row["setting"]) & (pl.col("value") == row["value"])
        twins = results.cells.filter(place & is_same & (pl.col("seed") == row["seed"])).to_dicts()
        if twins:
            is_by_word = twins[0]["cell"] in by_word
            reached = [_reached(each, is_by_word) for each in (row, twins[0])]
            gains.append((float(row["time"]), reached[0] - reached[1]))
    return max(gains, key=lambda found: found[1]) if gains else None


def _reached(row: Mapping[str, Any], is_by_word: bool) -> float:
    """HM on validation of the epoch that was kept; by the policy's own word that of the last."""
    said = numbers(row["word_hm_by_epoch"]) if is_by_word else []
    return said[-1] if said else row["validation_hm"] or 0.0


def _waiting(results: Results) -> set[str]:
    """Cells of sequences whose signal is complete with their last item."""
    is_last = pl.col("true") * pl.col("first_earliness") > 1 - NEAR
    halts = results.halts.join(results.cells.select("cell", "first_earliness"), on="cell", how="left")
    return set(halts.filter(is_last)["cell"].to_list())
