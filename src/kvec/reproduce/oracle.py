"""What no rule can know: where a classifier is first right."""

from __future__ import annotations

import numpy as np

from kvec.decide.triggers.base import Floats, Ints, Prefixes

N_COSTS = 41


def hindsight(test: Prefixes) -> tuple[Floats, Ints]:
    """(M,) costs of seeing a whole sequence, in errors, and (M, S) the best stops, for one who knows the classes.

    A sequence is decided at the earliest item at which the classifier is right, if waiting for it costs less than an
    error; else at its first. With a cost of 1 or less all that can be right is right.
    """
    rows = np.arange(len(test.probabilities))
    right = np.where(test.is_wrong(), len(rows), rows)
    first = np.minimum.reduceat(right, test.offsets[:-1]) - test.offsets[:-1] + 1 if len(rows) else test.length
    costs = np.geomspace(max(int(test.length.max(initial=1)), 1), 1.0, N_COSTS)
    pays = (first <= test.length) & (costs[:, None] * (first - 1) / test.length < 1)
    return costs, np.where(pays, first, 1)
