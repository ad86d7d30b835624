"""Whether halting policies had converged on validation, since claims about them are else not tested."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from kvec.reproduce.looks import MOVED, look_of
from kvec.reproduce.results import Results, main_cells, numbers

GAIN = 0.01  # of HM on validation in the last third of the epochs; with more, training was not at its end
NEAR = 0.01  # of the way from the first item to the end: closer to either, a policy has collapsed
WITHOUT_EPOCHS = ("trees", "logistic")  # they learn until they are done
WITHOUT_POLICY = ("srn", "srn-all", "kvec-every", *WITHOUT_EPOCHS)  # their halting rules are chosen after training


@dataclass(frozen=True)
class Convergence:
    """The policies of one training on one data set: how many seeds and cells of them had converged."""

    n_seeds: int
    n_converged: int
    n_cells: int
    n_collapsed: int
    n_unsettled: int  # of those not collapsed

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
        return (
            f"converged in {self.n_converged} of {self.n_seeds} seeds"
            + f"; of {self.n_cells} {cells} {told}" * bool(told)
        )


def convergence(results: Results, dataset: str, training: str, swept: str | None = None) -> Convergence:
    """How a training converged: its main cells, or those of one swept setting.

    A seed converged when at least one of its cells had not collapsed (the ends of a sweep may), and at least half of
    those had settled.
    """
    cells = results.cells.filter((pl.col("dataset") == dataset) & (pl.col("training") == training))
    cells = main_cells(cells) if swept is None else cells.filter(pl.col("swept") == swept)
    said, waiting = _own_word(results), _waiting(results)
    seeds: dict[int, list[tuple[bool, bool]]] = {}
    for row in cells.iter_rows(named=True):
        late, first = said.get(row["cell"], row["validation_earliness"] or 0.0), row["first_earliness"] or 0.0
        has_collapsed = training not in WITHOUT_POLICY and is_collapsed(late, first, row["cell"] in waiting)
        has_settled = training in WITHOUT_EPOCHS or is_settled(numbers(row["hm_by_epoch"]))
        seeds.setdefault(row["seed"], []).append((has_collapsed, has_settled))
    alive = {seed: [settled for collapsed, settled in found if not collapsed] for seed, found in seeds.items()}
    return Convergence(
        n_seeds=len(seeds),
        n_converged=sum(bool(found) and 2 * sum(found) >= len(found) for found in alive.values()),
        n_cells=cells.height,
        n_collapsed=cells.height - sum(map(len, alive.values())),
        n_unsettled=sum(not settled for found in alive.values() for settled in found),
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
    return max(hm[start:]) - max(hm[:start]) <= GAIN + 1e-9


def is_collapsed(earliness: float, first: float, may_wait: bool = False) -> bool:
    """Whether a policy halts at the first item, or waits for the end, `first` being the earliness of the first item.

    To wait for the end is no collapse where the signal is there.
    """
    share = (earliness - first) / max(1 - first, 1e-9)
    return share < NEAR or (share > 1 - NEAR and not may_wait)


def _own_word(results: Results) -> dict[str, float]:
    """The earliness of policies by their own word (θ = 0.5), by cell, where that was written down.

    Of other cells validation tells at the θ of best HM alone, which says little where HM prefers a guess.
    """
    swept = results.points.filter(pl.col("curve") == "swept").select("cell", "earliness")
    items = (pl.col("n_observed") * pl.col("count")).sum() / pl.col("count").sum()
    halted = _halts(results).group_by("cell").agg(earliness=items * pl.col("first_earliness").first())
    return dict(pl.concat([swept, halted]).drop_nulls().rows())


def _waiting(results: Results) -> set[str]:
    """Cells of sequences whose signal is complete with their last item."""
    is_last = pl.col("true") * pl.col("first_earliness") > 1 - NEAR
    return set(_halts(results).filter(is_last)["cell"].to_list())


def _halts(results: Results) -> pl.DataFrame:
    return results.halts.join(results.cells.select("cell", "first_earliness"), on="cell", how="left")
