"""CALIMERA (Bilski and Jastrzębska, Information Processing and Management 2023): stop when waiting does not pay.

From the end backwards, at every step of a log-spaced grid, a regression learns from held-out sequences how much cost
waiting saves, given the class probabilities at that step; the sequences for which it should pay are taken to wait, so
the step before knows what waiting really leads to. A cost is one minus the largest calibrated probability (by
temperatures here) plus the delay, so much per item seen. Two things differ from the paper. Lengths are unequal and
unknown: a sequence that ends before the next step is decided at its end, and that is what its waiting cost; after the
last step the one choice is to wait for the end. And the paper's kernel regression, whose work grows with the cube of
the sequences, is a ridge regression on the probabilities, their squares, and a few functions of the largest two.

Letters: M settings, S sequences, F features.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from kvec.decide.triggers.base import Floats, Ints, Prefixes, Trigger, logs_of, need_sequences
from kvec.decide.triggers.calibrated import Temperatures
from kvec.decide.triggers.grid import alive, costs_to_sweep, log_steps
from kvec.decide.triggers.ridge import Ridge, Weights


class Calimera(Trigger):
    """Halts where the regression sees no gain in waiting."""

    name = "calimera"
    typical: float  # mean length of held-out sequences: the setting is the cost of waiting so long
    steps: Ints
    length: Ints  # (S,) of held-out sequences
    temperatures: Temperatures
    rows: list[Floats]  # (alive, F) features of held-out sequences at each step
    ridges: list[Ridge]
    risk: list[Floats]  # (alive,) chance of an error if decided at each step
    end_risk: Floats  # (S,)

    def fit(self, known: Prefixes, temperatures: Temperatures | None = None) -> Self:
        """Learn temperatures if there are none, and one regression per step; their targets depend on the setting."""
        need_sequences(known)
        self.length, self.typical = known.length, float(known.length.mean())
        self.steps = log_steps(known.length)
        self.temperatures = Temperatures.fit(known) if temperatures is None else temperatures
        shares = [self._shares(known, int(step)) for step in self.steps]
        self.rows = [features(p) for p in shares]
        self.ridges = [Ridge.of(rows) for rows in self.rows]
        self.risk = [1 - p.max(axis=1) for p in shares]
        self.end_risk = 1 - self.temperatures.apply(known.probabilities[known.offsets[1:] - 1], self.length).max(axis=1)
        return self

    def settings(self) -> Floats:
        """Costs of waiting for a whole typical length, from high to low."""
        return costs_to_sweep(self.typical)

    def sweep(self, prefixes: Prefixes, settings: Floats) -> Ints:
        """The first step of the grid at which waiting is not expected to pay, or the end."""
        stopped = np.repeat(prefixes.length[None], len(settings), axis=0)
        for step, weights in reversed(list(zip(self.steps, self.induce(settings / self.typical), strict=True))):
            _, who = alive(prefixes, int(step))
            loss = weights.predict(features(self._shares(prefixes, int(step))))  # (alive, M) of waiting
            stopped[:, who] = np.where((loss.T >= 0) & (settings[:, None] > 0), step, stopped[:, who])
        return stopped

    def induce(self, per_item: Floats) -> list[Weights]:
        """Of each step, the regression of what waiting loses, for each of M costs per item."""
        everyone = np.arange(len(self.length))
        later = self.end_risk[:, None] + per_item * self.spent(self.length, everyone)  # (S, M), if not decided so far
        found = []
        for step, rows, ridge, risk in reversed(list(zip(self.steps, self.rows, self.ridges, self.risk, strict=True))):
            who = np.flatnonzero(self.length >= step)
            now = risk[:, None] + per_item * self.spent(np.full(len(who), step), who)
            weights = ridge.solve(later[who] - now)
            later[who] = np.where(weights.predict(rows) >= 0, now, later[who])
            found.append(weights)
        return found[::-1]

    def spent(self, n_observed: Ints, who: Ints) -> Floats:
        """(K, 1) what waiting for so many items of K held-out sequences is charged as, in items."""
        return n_observed[:, None].astype(np.float64)

    def _shares(self, prefixes: Prefixes, step: int) -> Floats:
        rows, who = alive(prefixes, step)
        return self.temperatures.apply(prefixes.probabilities[rows], np.full(len(who), step))


def features(shares: Floats) -> Floats:
    """(N, F) of (N, C) probabilities: themselves, squared, and the largest, its lead over the next, their doubt."""
    two = np.sort(shares, axis=1)[:, -2:]
    first, lead = two[:, -1], two[:, -1] - two[:, 0]
    doubt = -(shares * logs_of(shares)).sum(axis=1)
    return np.column_stack([shares, shares**2, first, first**3, lead, lead**2, lead**3, doubt])
