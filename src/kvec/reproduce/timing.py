"""How long cells will take, told from those that are done."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from statistics import fmean

from kvec.reproduce.plan import Cell, Sizes

_ASIDE, _SCORING = 5.0, 1.15  # before any cell is done: reading and scoring, beside the seconds of training


class Timing:
    """Expects of a cell what others of its data set took, else all others, else the time that its training is given."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._of_dataset: dict[str, list[float]] = {}
        for cell, took in seconds.items():
            self.add(cell.partition("/")[0], took)

    def add(self, dataset: str, seconds: float) -> None:
        """Hear of a cell that is done."""
        self._of_dataset.setdefault(dataset, []).append(seconds)

    def expected(self, cell: Cell, sizes: Sizes) -> float | None:
        """Seconds that a cell will take; None where nothing is known of it.

        >>> Timing({"planted/kvec/0": 4.0}).expected(Cell("planted", "srn", "", None, 0, "smoke"), Sizes())
        4.0
        """
        took = self._of_dataset.get(cell.dataset) or [s for all_of in self._of_dataset.values() for s in all_of]
        if took:
            return fmean(took)
        return sizes.train_seconds * _SCORING + _ASIDE if sizes.train_seconds else None


def time_left(running: Iterable[float], waiting: Iterable[float], jobs: int) -> float:
    """Seconds until all is done: each waiting cell goes to the process that is first free.

    >>> time_left(running=[30.0, 10.0], waiting=[20.0, 20.0], jobs=2)
    50.0
    """
    free = sorted([*(max(left, 0.0) for left in running), *([0.0] * jobs)], reverse=True)[:jobs]
    heapq.heapify(free)
    for seconds in waiting:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)
