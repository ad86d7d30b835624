"""ECONOMY-γ (Achenchabe et al., Machine Learning 2021): stop when no later moment promises a lower cost.

At every step of a log-spaced grid, sequences are grouped by quantiles of their confidence. Held-out sequences give the
error of each group, and the chances to move on to each group of the next step: a Markov chain. A cost is the chance of
an error plus the delay, so much per item seen. What the paper does not know are sequences of unequal and unknown
length: here one may also end before the next step, and is then decided at its end; that chance, with its error and its
length, is part of what waiting is expected to cost. After the last step the one choice is to wait for the end.

Letters: K groups of a step, M settings, S sequences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from kvec.decide.triggers.base import Floats, Ints, Prefixes, Trigger, need_sequences
from kvec.decide.triggers.grid import alive, costs_to_sweep, log_steps

GROUPS = 8  # the paper chooses their number anew for every cost: curves then jump, and gained nothing when tried
FEWEST = 10  # held-out sequences of a group


@dataclass(frozen=True)
class Link:
    """What held-out sequences of each confidence group did at one step of the grid, and until the next."""

    step: int  # items seen
    edges: Floats  # (K - 1,) confidence from which the next group starts
    error: Floats  # (K,) share of wrong classes if decided here
    moves: Floats  # (K, K of the next step) share that is in each group at the next step; none after the last
    end_error: Floats  # (K,) share that ends before the next step, and is wrong there
    end_items: Floats  # (K,) items of those that end before the next step, per sequence of the group

    def group(self, confidence: Floats) -> Ints:
        """The group of each confidence."""
        return np.searchsorted(self.edges, confidence, side="right")


class Economy(Trigger):
    """Halts where the expected cost of deciding now is no more than that of any later step."""

    name = "economy"
    typical: float  # mean length of held-out sequences: the setting is the cost of waiting so long
    chain: list[Link]

    def fit(self, known: Prefixes) -> Self:
        """Learn the chain."""
        need_sequences(known)
        self.typical = float(known.length.mean())
        self.chain = link_up(known, GROUPS)
        return self

    def settings(self) -> Floats:
        """Costs of waiting for a whole typical length, from high to low."""
        return costs_to_sweep(self.typical)

    def sweep(self, prefixes: Prefixes, settings: Floats) -> Ints:
        """The first step of the grid at which waiting promises nothing, or the end."""
        tables = [expected_costs(self.chain, float(setting) / self.typical) for setting in settings]
        stopped = np.repeat(prefixes.length[None], len(settings), axis=0)
        for i, link in reversed(list(enumerate(self.chain))):
            rows, who = alive(prefixes, link.step)
            group = link.group(prefixes.probabilities[rows].max(axis=1).astype(np.float64))
            for row, table, cost in zip(stopped, tables, settings, strict=True):
                is_over = (table[i][:, 0] <= table[i][:, 1:].min(axis=1)) & (cost > 0)
                row[who[is_over[group]]] = link.step
        return stopped


def link_up(known: Prefixes, n_groups: int) -> list[Link]:
    """The chain of held-out sequences through at most so many groups per step."""
    confidence, wrong = known.probabilities.max(axis=1).astype(np.float64), known.is_wrong()
    chain: list[Link] = []
    following, then = np.inf, np.zeros(0, np.int64)  # items and groups at the next step
    n_then = 0
    for step in log_steps(known.length)[::-1]:
        rows, who = alive(known, int(step))
        edges = _edges(confidence[rows], n_groups)
        group, k = np.searchsorted(edges, confidence[rows], side="right"), len(edges) + 1
        count = np.bincount(group, minlength=k)
        goes_on = known.length[who] >= following
        moves = np.bincount(group[goes_on] * n_then + then, minlength=k * n_then).reshape(k, n_then)
        ended, last = group[~goes_on], who[~goes_on]
        chain.append(
            Link(
                int(step),
                edges,
                np.bincount(group, wrong[rows], k) / count,
                moves / count[:, None],
                np.bincount(ended, wrong[known.offsets[last + 1] - 1], k) / count,
                np.bincount(ended, known.length[last], k) / count,
            )
        )
        following, then, n_then = step, group, k
    return chain[::-1]


def expected_costs(chain: list[Link], per_item: float) -> list[Floats]:
    """Of each step and group, (K, horizons): the cost of deciding now, at each later step, and at the end."""
    found: list[Floats] = []
    costs = np.zeros((0, 1))
    for link in reversed(chain):
        now = link.error + per_item * link.step
        later = link.moves @ costs + (link.end_error + per_item * link.end_items)[:, None]
        costs = np.column_stack([now, later])
        found.append(costs)
    return found[::-1]


def _edges(confidence: Floats, n_groups: int) -> Floats:
    """Confidences that part it into groups of like size, as far as ties allow; no group is empty."""
    n = min(n_groups, max(confidence.size // FEWEST, 1))
    ordered = np.sort(confidence)
    edges = np.unique(ordered[np.arange(1, n) * ordered.size // n])
    inner: Floats = edges[edges > ordered[0]]
    return inner
