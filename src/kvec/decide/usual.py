"""What the class probabilities of known sequences usually look like, so that others can be told from them.

A normal distribution around the mean of each class, of one common spread, and one around all of them, in the logarithms
of the probabilities. A sequence is strange if it lies far from every class, compared with how far it lies from all: the
relative distance of Mahalanobis.

Letters: N items, C classes, K of them with held-out sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MOST = 20_000  # items that distributions are fitted to
RIDGE = 1e-3  # share of the mean variance that is added to each, lest a direction without any count for all


@dataclass(frozen=True)
class Usual:
    """Distributions, each by what makes its spread round."""

    classes: Floats  # (K, C) means of the classes, made round
    round: Floats  # (C, C)
    middle: Floats  # (C,) mean of all, made round
    round_all: Floats  # (C, C)

    @classmethod
    def fit(cls, logs: Floats, truth: npt.NDArray[np.int64]) -> Usual:
        """From the logarithms of N items' probabilities, (N, C), and the true classes of their sequences."""
        chosen = np.linspace(0, len(logs) - 1, min(MOST, len(logs))).round().astype(np.int64)
        logs, truth = logs[chosen], truth[chosen]
        present, own = np.unique(truth, return_inverse=True)
        means = np.stack([logs[own == k].mean(axis=0) for k in range(len(present))])
        middle = logs.mean(axis=0)
        within, across = _rounding(logs - means[own]), _rounding(logs - middle)
        return cls(means @ within, within, middle @ across, across)

    def strangeness(self, logs: Floats) -> Floats:
        """(N,) how much farther from the nearest class than befits the distance from all."""
        here = logs @ self.round
        nearest = np.min([((here - mean) ** 2).sum(axis=1) for mean in self.classes], axis=0)
        strange: Floats = nearest - ((logs @ self.round_all - self.middle) ** 2).sum(axis=1)
        return strange

    def to_plain(self) -> dict[str, Any]:
        """Plain data for a model's card."""
        return {name: array.tolist() for name, array in asdict(self).items()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Usual:
        """Read what `to_plain` wrote."""
        return cls(**{name: np.array(values, np.float64) for name, values in plain.items()})


def _rounding(apart: Floats) -> Floats:
    """(C, C) what turns deviations into ones of variance 1 in every direction."""
    spread = apart.T @ apart / len(apart)
    spread += (RIDGE * np.trace(spread) / len(spread) + 1e-9) * np.eye(len(spread))
    made: Floats = np.linalg.cholesky(np.linalg.inv(spread))
    return made
