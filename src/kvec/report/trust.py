"""How far probabilities can be trusted: how often decisions of each are right, and what is won by leaving some out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kvec.report.curves import Traces, stop_at_threshold
from kvec.report.metrics import Floats, Ints, ratio

WIDE = 1.959963984540054  # standard deviations that hold 95 %


@dataclass(frozen=True)
class Reliability:
    """Decisions in bins of equal width of their probability; empty bins are left out."""

    confidence: Floats  # mean probability in the bin
    accuracy: Floats
    count: Ints
    low: Floats  # 95 % interval of the accuracy (Wilson's), as if the decisions of a bin were independent
    high: Floats
    error: float  # expected calibration error: mean distance of probability and accuracy, weighted by count
    brier: float  # mean square of probability − 1 for decisions that are right, of the probability for others


@dataclass(frozen=True)
class Coverage:
    """What decisions are worth if only the surest are taken, from few to all."""

    share: Floats  # of the decisions that are taken
    accuracy: Floats  # of these
    confidence: Floats  # the least probability among them


@dataclass(frozen=True)
class Trust:
    """How far the probabilities of a model's decisions can be trusted."""

    is_of_halts: bool  # of decisions by halting alone; else of all, as none halted
    after: Reliability  # with calibrated probabilities
    before: Reliability | None  # with the network's own, where they are known
    coverage: Coverage  # over all decisions

    def line(self) -> str:
        """On one line."""
        of = "decisions by halting" if self.is_of_halts else "decisions, none of them by halting"
        text = f"probabilities of {int(self.after.count.sum()):,} {of}: ECE {self.after.error:.4f}, "
        text += f"Brier {self.after.brier:.4f}"
        if self.before is None:
            return text
        return text + f" (before calibration: {self.before.error:.4f}, {self.before.brier:.4f})"

    def to_dict(self) -> dict[str, float | int]:
        """Plain data for JSON."""
        plain: dict[str, float | int] = {
            "n": int(self.after.count.sum()), "is_of_halts": self.is_of_halts, "ece": self.after.error,
            "brier": self.after.brier,
        }  # fmt: skip
        if self.before is not None:
            plain |= {"ece_before": self.before.error, "brier_before": self.before.brier}
        return plain


def trust(traces: Traces, theta: float) -> Trust:
    """What the probabilities of sequences that halt at θ, or are decided at their end, are worth."""
    n_observed = stop_at_threshold(traces, theta)
    predicted, confidence = traces.decided(n_observed)
    is_right = predicted == traces.truth
    halted = traces.is_halted(theta)
    chosen = halted if halted.any() else np.ones(len(halted), bool)
    before = None
    if traces.untempered is not None:
        before = reliability(traces.untempered[traces.offsets[:-1] + n_observed - 1][chosen], is_right[chosen])
    after = reliability(confidence[chosen], is_right[chosen])
    return Trust(bool(halted.any()), after, before, coverage_curve(confidence, is_right))


def reliability(confidence: ArrayLike, is_correct: ArrayLike, bins: int = 10) -> Reliability:
    """How often decisions of each probability were right."""
    sure, right = np.asarray(confidence, np.float64), np.asarray(is_correct, np.float64)
    place = np.clip((sure * bins).astype(np.int64), 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    held = count > 0
    mean_sure = ratio(np.bincount(place, sure, bins), count)[held]
    mean_right = ratio(np.bincount(place, right, bins), count)[held]
    error = float(np.sum(np.abs(mean_sure - mean_right) * count[held]) / max(count.sum(), 1))
    brier = float(np.mean((sure - right) ** 2)) if sure.size else 0.0
    return Reliability(mean_sure, mean_right, count[held], *wilson(mean_right, count[held]), error, brier)


def wilson(share: Floats, count: Ints) -> tuple[Floats, Floats]:
    """The 95 % interval of Wilson for shares of so many; it never leaves [0, 1], and never has no width.

    >>> low, high = wilson(np.array([1.0]), np.array([10]))
    >>> round(float(low[0]), 3), float(high[0])
    (0.722, 1.0)
    """
    spread = WIDE**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = WIDE * np.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    return np.clip(middle - half, 0, share), np.clip(middle + half, share, 1)


def coverage_curve(confidence: ArrayLike, is_correct: ArrayLike) -> Coverage:
    """The accuracy of the decisions of at least each probability that occurs; equally sure ones are taken together.

    >>> coverage_curve([0.9, 0.5, 0.5, 0.3], [True, True, False, False]).accuracy.round(3).tolist()
    [1.0, 0.667, 0.5]
    """
    sure, right = np.asarray(confidence, np.float64), np.asarray(is_correct, np.float64)
    order = np.argsort(-sure, kind="stable")
    taken = np.arange(1, sure.size + 1)
    is_last = np.append(sure[order][1:] < sure[order][:-1], True)[: sure.size]
    return Coverage(
        taken[is_last] / max(sure.size, 1), (np.cumsum(right[order]) / taken)[is_last], sure[order][is_last]
    )
