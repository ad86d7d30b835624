"""The dial: what halts takes the delay cost λ as an input, so that one model has the whole trade-off.

It is one linear function for each of P knots, costs spread evenly on a log scale (heads of the policy, or what backward
induction has found); between two knots it is their mixture. So turning the dial costs a stream nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
LEAST, MOST = 0.02, 50.0  # λ: below, waiting costs nothing worth mentioning; above, one item costs more than any error


def knots_of(knots: int) -> Floats:
    """(P,) the delay costs at P knots.

    >>> knots_of(3).round(6).tolist()
    [0.02, 1.0, 50.0]
    """
    costs: Floats = np.geomspace(LEAST, MOST, knots)
    return costs


def mixture(costs: npt.ArrayLike, knots: int) -> Floats:
    """How much each of P knots counts at n delay costs, (n, P); a cost beyond the last knot is taken to be there.

    >>> mixture([0.02, 1.0, 1000.0], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    given = np.atleast_1d(np.asarray(costs, np.float64))
    if knots == 1:
        return np.ones((len(given), 1))
    place = np.log(np.clip(given, LEAST, MOST) / LEAST) / np.log(MOST / LEAST) * (knots - 1)
    shares: Floats = np.clip(1 - np.abs(place[:, None] - np.arange(knots)), 0, 1)
    return shares.round(12)


def halting_scores(knots: npt.NDArray[Any], delay_cost: float) -> npt.NDArray[np.float32]:
    """(N,) halting scores at a delay cost, from the logits at P knots, (N, P); rounded as the network rounds them."""
    dial = mixture(delay_cost, knots.shape[1])[0].astype(np.float32)
    counts = np.flatnonzero(dial)  # two at the most
    logits = (knots[:, counts].astype(np.float32) * dial[counts]).sum(axis=1)
    with np.errstate(over="ignore"):
        scores: npt.NDArray[np.float32] = 1 / (1 + np.exp(-logits))
    return scores


def draw_costs(rng: np.random.Generator, n: int) -> Floats:
    """Delay costs for n tangles, evenly spread on the log scale."""
    return LEAST * (MOST / LEAST) ** rng.random(n)
