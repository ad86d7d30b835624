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
# their halting rules are chosen after training
WITHOUT_POLICY = ("srn", "srn-all", "kvec-every", "kvec-typed-every", *WITHOUT_EPOCHS)


@dataclass(frozen=True)
class Convergence:
    """The policies of one training on one data set: how many seeds and cells of them had converged."""

    n_seeds: int
    n_converged: int
    n_cells: int
    n_collapsed: int
    n_unsettled: int  # of those not collapsed
    control: tuple[float, float] | None = None  # how often the time was given to another run, and its gain in HM

    @property
    def is_converged(self) -> bool:
        """Whether most seeds had converged."""
        return 2 * self.n_converged > self.n_seeds

    def words(self) -> str:
        """What to say of it in a table.

        >>> Convergence(3, 1, 12, 8, 2).words()
        'converged in 1 of 3 seeds; of 12 cells 8 collapsed, 2 still rising'
        """
        faults = [(self.n_collapsed, "collapsed"), (self.n_unsettled, "still rising")]
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

    A seed converged when at least one of its cells had not collapsed (the ends of a sweep may), and at least half of
    those had settled. Where another run was given more time, what that gained says whether all of them had.
    """
    cells = results.cells.filter(pl.col("dataset") == dataset)
    cells = main_cells(cells) if swept is None else cells.filter(pl.col("swept") == swept)
    cells = cells.filter(pl.col("training") == training)
    by_word, waiting, control = _by_word(results), _waiting(results), _control(results, dataset, training)
    seeds: dict[int, list[tuple[bool, bool]]] = {}
    for row in cells.iter_rows(named=True):
        hm, late = _validated(row, row["cell"] in by_word)
        has_collapsed = training not in WITHOUT_POLICY and is_collapsed(
            late, row["first_earliness"] or 0.0, row["cell"] in waiting
        )
        has_settled = training in WITHOUT_EPOCHS or (is_settled(hm) if control is None else _is_over(control[1]))
        seeds.setdefault(row["seed"], []).append((has_collapsed, has_settled))
    alive = {seed: [settled for collapsed, settled in found if not collapsed] for seed, found in seeds.items()}
    return Convergence(
        n_seeds=len(seeds),
        n_converged=sum(bool(found) and 2 * sum(found) >= len(found) for found in alive.values()),
        n_cells=cells.height,
        n_collapsed=cells.height - sum(map(len, alive.values())),
        n_unsettled=sum(not settled for found in alive.values() for settled in found),
        control=control,
    )


def doubts(results: Results, dataset: str, methods: Iterable[str]) -> str:
    """Which methods rest on a training that had not converged, in words; nothing if all had."""
    training_of = dict(results.points.select("method", "training").unique().rows())
    found = {}
    for method in methods:
        name = method.removesuffix(MOVED)
        found[name] = convergence(results, dataset, training_of.get(name, name))
    return "; ".join(f"{look_of(name).label} {each.words()}" for name, each in found.items() if not each.is_converged)


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

    Others are judged at the θ of best HM, which says little where HM prefers a guess.
    """
    swept = results.points.filter(pl.col("curve") == "swept")["cell"].to_list()
    return {*swept, *results.halts["cell"].to_list()}


def _validated(row: Mapping[str, Any], is_by_word: bool) -> tuple[list[float], float]:
    """HM on validation by epoch, and the earliness of the epoch that was kept; by the policy's own word where known."""
    late = row["word_earliness"] if is_by_word else None
    hm = numbers(row["word_hm_by_epoch"]) if is_by_word else []
    return hm or numbers(row["hm_by_epoch"]), row["validation_earliness"] or 0.0 if late is None else late


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
    return set(_halts(results).filter(is_last)["cell"].to_list())


def _halts(results: Results) -> pl.DataFrame:
    return results.halts.join(results.cells.select("cell", "first_earliness"), on="cell", how="left")
