"""Linear regression with a penalty whose strength is chosen by leaving each row out in turn.

Letters: N rows, F features, M targets, P penalties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvec.decide.triggers.base import Floats

PENALTIES = np.geomspace(1e-3, 1e3, 7)  # times the number of rows, on features of mean 0 and variance 1


@dataclass(frozen=True)
class Ridge:
    """Rows prepared once for many targets."""

    mean: Floats  # (F,)
    scale: Floats  # (F,)
    axes: Floats  # (F, F) directions in which the features do not correlate
    rotated: Floats  # (N, F) rows along these
    spread: Floats  # (F,) their sums of squares
    left_out: Floats  # (P, N) 1 minus the weight of each row in its own prediction

    @classmethod
    def of(cls, features: Floats) -> Ridge:
        """Prepare (N, F) features; those that never vary are left without weight."""
        mean, scale = features.mean(axis=0), features.std(axis=0)
        scale = np.where(scale > 1e-9, scale, np.inf)
        rows = (features - mean) / scale
        spread, axes = np.linalg.eigh(rows.T @ rows)
        rotated = rows @ axes
        penalty = PENALTIES[:, None] * len(rows)
        own = rotated**2 @ (1 / (np.maximum(spread, 0) + penalty)).T  # (N, P)
        return cls(mean, scale, axes, rotated, np.maximum(spread, 0), 1 - own.T - 1 / len(rows))

    def solve(self, targets: Floats) -> Weights:
        """The weights for each column of (N, M) targets."""
        n = len(targets)
        level = targets.mean(axis=0)
        pull = self.rotated.T @ (targets - level)  # (F, M)
        errors, found = [], []
        for penalty, left_out in zip(PENALTIES * n, self.left_out, strict=True):
            weights = pull / (self.spread + penalty)[:, None]
            residual = targets - level - self.rotated @ weights
            errors.append(np.mean((residual / np.maximum(left_out, 1e-9)[:, None]) ** 2, axis=0))
            found.append(weights)
        best = np.argmin(errors, axis=0)  # (M,)
        weights = self.axes @ np.stack(found)[best, :, np.arange(len(best))].T / self.scale[:, None]
        return Weights(weights, level - self.mean @ weights)


@dataclass(frozen=True)
class Weights:
    """A linear function for each of M targets."""

    slope: Floats  # (F, M)
    level: Floats  # (M,)

    def predict(self, features: Floats) -> Floats:
        """(N, M) for (N, F) features."""
        return features @ self.slope + self.level
