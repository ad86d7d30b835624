"""Whether halting policies had converged on validation, since claims about them are else not tested."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kvec.reproduce.results import Results, main_cells, numbers

GAIN = 0.01  # of HM on validation in the last third of the epochs; with more, training was not at its end
NEAR = 0.01  # of the way from the first item to the end: closer to either, a policy has collapsed
WITHOUT_POLICY = ("srn", "srn-all")  # their halting rules are chosen after training


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
    policies = results.points.filter((pl.col("curve") == "swept") & (pl.col("training") == training))
    late = dict(zip(policies["cell"].to_list(), policies["earliness"].to_list(), strict=True))
    seeds: dict[int, list[tuple[bool, bool]]] = {}
    for row in cells.iter_rows(named=True):
        ends = [*numbers(row["earliness_by_epoch"])[-1:], *([late[row["cell"]]] if row["cell"] in late else [])]
        has_policy = training not in WITHOUT_POLICY
        has_collapsed = has_policy and any(is_collapsed(end, row["first_earliness"] or 0.0) for end in ends)
        seeds.setdefault(row["seed"], []).append((has_collapsed, is_settled(numbers(row["hm_by_epoch"]))))
    alive = {seed: [settled for collapsed, settled in found if not collapsed] for seed, found in seeds.items()}
    return Convergence(
        n_seeds=len(seeds),
        n_converged=sum(bool(found) and 2 * sum(found) >= len(found) for found in alive.values()),
        n_cells=cells.height,
        n_collapsed=cells.height - sum(map(len, alive.values())),
        n_unsettled=sum(not settled for found in alive.values() for settled in found),
    )


def is_settled(hm: list[float]) -> bool:
    """Whether the last third of the epochs brought no HM better by more than 0.01 than before; not with under three.

    >>> is_settled([0.5, 0.7, 0.705]), is_settled([0.5, 0.6, 0.7])
    (True, False)
    """
    if len(hm) < 3:
        return False
    start = len(hm) - len(hm) // 3
    return max(hm[start:]) - max(hm[:start]) <= GAIN + 1e-9


def is_collapsed(earliness: float, first: float) -> bool:
    """Whether a policy halts at the first item, or waits for the end, `first` being the earliness of the first item."""
    share = (earliness - first) / max(1 - first, 1e-9)
    return not NEAR <= share <= 1 - NEAR
