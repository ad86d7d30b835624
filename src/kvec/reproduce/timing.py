"""How long cells will take, told from those that are done."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from kvec.reproduce.plan import Cell, Sizes

_ASIDE, _BESIDE = 5.0, 1.35  # before any cell is done: reading and scoring, beside the seconds of training


@dataclass(frozen=True)
class Took:
    """What a cell that is done took: seconds in all, and of its training, 0 where that is not known."""

    seconds: float
    training: float = 0.0


class Timing:
    """Expects of a cell, for the time that its training is given, what others of its data set took for theirs.

    Where there are none it looks at all others. The middle of them counts: a machine may have been busy at times.
    """

    def __init__(self, took: Mapping[str, Took]) -> None:
        self._of_dataset: dict[str, list[Took]] = {}
        for cell, each in took.items():
            self.add(cell.partition("/")[0], each)

    def add(self, dataset: str, took: Took) -> None:
        """Hear of a cell that is done."""
        self._of_dataset.setdefault(dataset, []).append(took)

    def expected(self, cell: Cell, sizes: Sizes) -> float | None:
        """Seconds that a cell will take; None where nothing is known of it.

        >>> timing = Timing({"planted/kvec/0": Took(4.0, training=2.0)})
        >>> timing.expected(Cell("planted", "srn", "", None, 0, "smoke"), Sizes(train_seconds=3.0))
        6.0
        """
        took = self._of_dataset.get(cell.dataset) or [each for those in self._of_dataset.values() for each in those]
        ratios = [each.seconds / each.training for each in took if each.training]
        if sizes.train_seconds and ratios:
            return sizes.train_seconds * median(ratios)
        if took:
            return median(each.seconds for each in took)
        return sizes.train_seconds * _BESIDE + _ASIDE if sizes.train_seconds else None


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
