"""Which tangles are in memory together, where not all can be: windows of stretches from all over the files."""

from __future__ import annotations

import numpy as np

from kvec.tangle.batch import Ints

STRETCHES = 8  # of a window; more mix better, fewer are read faster


def plan_windows(items: Ints, most: int, rng: np.random.Generator | None = None) -> list[Ints]:
    """Tangles with so many items each, in windows of at most `most` items; a larger tangle is a window of its own.

    With a generator each window holds stretches of neighbours from different places, drawn at random; all tangles are
    in one window where they fit. Inside a window, tangles keep their order.

    >>> [window.tolist() for window in plan_windows(np.array([4, 4, 4, 9, 4]), 8)]
    [[0, 1], [2], [3], [4]]
    """
    if items.sum() <= most:
        return [np.arange(len(items))]
    if rng is None:
        return _runs(np.arange(len(items)), items, most)
    stretches = _runs(np.arange(len(items)), items, max(most // STRETCHES, 1))
    sizes = np.array([items[stretch].sum() for stretch in stretches])
    groups = _runs(rng.permutation(len(stretches)), sizes, most)
    return [np.sort(np.concatenate([stretches[i] for i in group])) for group in groups]


def _runs(order: Ints, sizes: Ints, most: int) -> list[Ints]:
    """The order cut into runs of at most `most` together."""
    runs: list[list[int]] = [[]]
    held = 0
    for number, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        if runs[-1] and held + size > most:
            runs.append([])
            held = 0
        runs[-1].append(number)
        held += size
    return [np.array(run, np.int64) for run in runs]
