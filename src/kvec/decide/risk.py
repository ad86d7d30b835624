"""The risk of operating points, E[losses of a unit] / E[sequences of a unit], tested from the latest to the earliest.

Each point is tested at the full δ until the first that does not pass; so a point whose risk is too large is chosen with
a chance of at most δ, however many points there are.

Letters: P operating points, n units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvec.decide.bounds import Floats, p_values

Ints = npt.NDArray[np.int64]

MOST_UNITS = 1 << 22  # units beyond which "how many are needed" is not worked out
MOST_BETS = 1 << 12  # the same where units are bet on one by one


@dataclass(frozen=True)
class Sample:
    """Losses and sequences of n independent units, in an order that does not depend on them."""

    losses: Ints  # (P, n)
    keys: Ints  # (n,) at least 1 each
    most_keys: int  # K_max, fixed before the sample was drawn

    @property
    def n_units(self) -> int:
        """Units in all."""
        return len(self.keys)

    @property
    def n_sequences(self) -> int:
        """Sequences of all units."""
        return int(self.keys.sum())

    @property
    def _held(self) -> Floats:
        return self.keys / self.most_keys

    def observed(self, point: int) -> float:
        """The share of losses at a point."""
        return float(self.losses[point].sum() / self.n_sequences)

    def n_passed(self, bound: str, alpha: float, delta: float) -> int:
        """How many points pass before the first that fails."""
        n, step = 0, 32  # points behind the first failure need not be looked at
        for start in range(0, len(self.losses), step):
            lost = self.losses[start : start + step] / self.most_keys
            n += (passed := first_failure(p_values(bound, lost, self._held, alpha, delta), delta))
            if passed < len(lost):
                break
        return n

    def n_needed(self, bound: str, alpha: float, delta: float) -> int:
        """The fewest units that could be enough; 0 where there are as many."""
        clean = np.zeros((1, self.n_units))
        if self.n_units and p_values(bound, clean, self._held, alpha, delta)[0] <= delta:
            return 0
        return units_needed(bound, self.keys if self.n_units else np.ones(1, np.int64), alpha, delta, self.most_keys)

    def upper(self, point: int, bound: str, delta: float) -> float:
        """The least risk, of a fine grid, that is rejected at this point alone, together with all that are larger."""
        least = max(self.observed(point), 1e-4)
        grid = np.geomspace(least, 1, 258)[1:-1] if least < 1 else np.zeros(0)
        lost = np.tile(self.losses[point] / self.most_keys, (len(grid), 1))
        left = np.flatnonzero(~(p_values(bound, lost, self._held, grid, delta) <= delta))
        first = int(left[-1]) + 1 if left.size else 0
        return float(grid[first]) if first < len(grid) else 1.0


def first_failure(p: Floats, delta: float) -> int:
    """How many points pass before the first that does not: none behind it counts, however good it looks.

    >>> first_failure(np.array([0.01, 0.04, 0.2, 0.001]), 0.05)
    2
    """
    failed = np.flatnonzero(~(p <= delta))
    return int(failed[0]) if failed.size else len(p)


def units_needed(bound: str, keys: Ints, alpha: float, delta: float, most_keys: int) -> int:
    """The fewest units without any loss that are enough, if they hold as many sequences as `keys`, over and over.

    Where they are very many, a number below which none can be enough.

    >>> units_needed("binomial", np.ones(1, int), 0.02, 0.05, 1)
    149
    """

    def is_enough(n: int) -> bool:
        held = np.resize(keys, n) / most_keys
        return bool(p_values(bound, np.zeros((1, n)), held, alpha, delta)[0] <= delta)

    if bound == "betting":
        boldest = float(np.log1p(alpha / (1 - alpha) * keys / most_keys).mean())  # a unit's gain by the largest stake
        if (least := math.ceil(-math.log(delta) / boldest)) >= MOST_BETS:
            return least
    most = 1
    while not is_enough(most):
        if most >= MOST_UNITS:
            return most
        most *= 2
    least = most // 2  # not enough
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if is_enough(middle) else (middle, most)
    return most
