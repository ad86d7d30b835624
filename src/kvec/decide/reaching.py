"""Where scores reach a threshold, sequence by sequence.

Letters: S sequences, N items, R records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def first_reached(offsets: Ints, scores: Floats, threshold: float) -> Ints:
    """(S,) items of each sequence up to its first score of at least `threshold`; 0 where there is none.

    >>> first_reached(np.array([0, 3, 5]), np.array([0.1, 0.6, 0.9, 0.2, 0.3]), 0.5).tolist()
    [2, 0]
    """
    n = len(scores)
    reached = np.where(scores >= threshold, np.arange(n), n)
    first = np.minimum.reduceat(reached, offsets[:-1]) if n else reached
    return np.where(first < offsets[1:], first - offsets[:-1] + 1, 0)


def records(offsets: Ints, ranks: npt.NDArray[np.integer[Any]]) -> Ints:
    """(R,) the items that top all earlier ones of their sequence: only there can a threshold halt it.

    >>> records(np.array([0, 3, 5]), np.array([1, 0, 2, 0, 0])).tolist()
    [0, 2, 3]
    """
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    top = np.maximum.accumulate(owner * (int(ranks.max(initial=0)) + 1) + ranks)  # no maximum crosses a sequence
    return np.flatnonzero(np.diff(top, prepend=-1) > 0)
