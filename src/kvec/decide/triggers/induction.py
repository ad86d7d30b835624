"""Backward induction where waiting is charged as earliness counts it: by the share of the sequence that was seen.

How long a sequence will be is not known while it runs; the regression learns from held-out sequences what share an item
is likely to be, given the class probabilities. All else is as in CALIMERA.
"""

from __future__ import annotations

from kvec.decide.triggers.base import Floats, Ints
from kvec.decide.triggers.calimera import Calimera


class Induction(Calimera):
    """Halts where the regression sees no gain in waiting, the setting being the cost of seeing a whole sequence."""

    name = "induction"

    def spent(self, n_observed: Ints, who: Ints) -> Floats:
        """(K, 1) the share that was seen, in items of a sequence of typical length."""
        share: Floats = n_observed / self.length[who] * self.typical
        return share[:, None]
