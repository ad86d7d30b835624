"""What waiting is expected to lose, by backward induction at several costs of waiting: a dial for induction.

Letters: N items, C classes, F features of their probabilities, T numbers of items, P knots of the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kvec.decide.dial import knots_of
from kvec.decide.triggers.base import Ints
from kvec.decide.triggers.calimera import Calimera, features

KNOTS = 17  # costs, from one to the next 1.63 times as much
PER_ERROR = 10.0  # logits for each error that waiting loses: scores that can be told apart at a glance
NO_STEP = -100.0  # the logit where waiting was not weighed: a score of 0
MOST = 2**24  # items of a step; more are not believed


@dataclass(frozen=True)
class Waiting:
    """Linear functions of the features of class probabilities, one for each number of items and each knot.

    What they give is a logit, above 0 where waiting loses; behind the last number of items its function goes on, lest
    sequences that are longer than those it was learned from wait for ever. The cost at a knot is that of waiting for as
    many items as a sequence has on average, in errors.
    """

    steps: Ints  # (T,)
    weights: npt.NDArray[np.float32]  # (T, P, F + 1), the last of each the constant

    @classmethod
    def of(cls, trigger: Calimera) -> Self:
        """What a fitted trigger says at each knot."""
        found = trigger.induce(knots_of(KNOTS) / trigger.typical)
        weights = np.stack([np.concatenate([one.slope, one.level[None]]).T for one in found])
        return cls(trigger.steps, (PER_ERROR * weights).astype(np.float32, order="C"))

    @cached_property
    def row(self) -> npt.NDArray[np.int32]:
        """The place of each number of items among the steps, from 0 items on; -1 where it is none."""
        row = np.full(int(self.steps.max(initial=0)) + 1, -1, np.int32)
        row[self.steps] = np.arange(len(self.steps))
        return row

    def knots(self, shares: npt.NDArray[np.float32], place: Ints) -> npt.NDArray[np.float32]:
        """(N, P) logits of halting, by (N, C) calibrated probabilities after so many items."""
        found = np.full((len(place), self.weights.shape[1]), NO_STEP, np.float32)
        row = self.row[np.minimum(place, len(self.row) - 1)]  # behind the last step as there
        for step in np.unique(row[row >= 0]):
            which = np.flatnonzero(row == step)
            weights = self.weights[step].astype(np.float64)
            found[which] = features(shares[which].astype(np.float64)) @ weights[:, :-1].T + weights[:, -1]
        return found

    def is_for(self, n_classes: int) -> bool:
        """Whether the functions are of so many classes."""
        n_features = int(features(np.ones((1, n_classes))).shape[1])
        return n_features + 1 == int(self.weights.shape[2])

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays to be kept beside the weights of the network."""
        return {"waiting.steps": self.steps, "waiting.weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Read what `to_arrays` gave."""
        steps, weights = arrays["waiting.steps"], arrays["waiting.weights"]
        fits = steps.ndim == 1 and weights.ndim == 3 and 0 < len(steps) == len(weights) and weights.shape[1] > 0
        if not (fits and steps.dtype == np.int64 and 1 <= steps[0] and (np.diff(steps) > 0).all() and steps[-1] < MOST):
            raise ValueError("what waiting loses is kept in arrays of the wrong shape")
        return cls(steps, weights)
