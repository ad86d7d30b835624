"""Probabilities calibrated by temperatures for how much was seen and how sure it is, and a threshold on the largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.triggers.base import SMALLEST, Floats, Ints, Prefixes, logs_of
from kvec.decide.triggers.grid import alive, log_steps
from kvec.decide.triggers.thresholds import Threshold

MOST = 20.0  # a temperature lies between 1/20 and 20
ENOUGH = 1e-12  # in log-likelihood of an item: what a further step must promise


@dataclass(frozen=True)
class Temperatures:
    """Probabilities p become p^β / Σ p^β; the sharpness β (1 / temperature) is (1 − q) β₀ + q β₁ of an octave of items.

    q tells how sure the network is: 0 where all classes are alike, 1 where one has all. Trained where it halts, it may
    boast where it does not, and be right where it is sure: one β for both would spoil the one to mend the other.
    """

    sharpness: Floats  # (octaves, 2): β₀, β₁ for 1, 2–3, 4–7, 8–15 … items; the last for all longer prefixes too

    @classmethod
    def fit(cls, known: Prefixes, doubt: float = 0.0) -> Temperatures:
        """Maximum likelihood of the true classes, on a prefix or two of each sequence per octave.

        `doubt` counts as so many sequences that speak for β = 1, lest a few that are all right make it certain.

        Octaves that too few held-out sequences reach share the temperature of the one before.
        """
        steps = log_steps(known.length)
        octave = _octave(steps)
        fitted = []
        for each in np.unique(octave):
            rows, owners = zip(*(alive(known, int(step)) for step in steps[octave == each][::4]), strict=True)
            logs = logs_of(known.probabilities[np.concatenate(rows)])
            fitted.append(fit_sharpness(logs, known.truth[np.concatenate(owners)], doubt))
        return cls(np.array(fitted))

    def apply(self, probabilities: npt.NDArray[np.floating[Any]], place: Ints) -> Floats:
        """(N, C) calibrated probabilities of items that are the `place`-th of their sequences."""
        logs, pair = logs_of(probabilities), self.sharpness[np.minimum(_octave(place), len(self.sharpness) - 1)]
        beta = pair[:, 0] + _sure(logs) * (pair[:, 1] - pair[:, 0])
        return _shares(logs * beta[:, None])


class Calibrated(Threshold):
    """Halts once the largest class probability, calibrated for the number of items seen, reaches the setting."""

    name = "calibrated"
    temperatures: Temperatures

    def learn(self, known: Prefixes) -> None:
        """Learn the temperatures."""
        self.temperatures = Temperatures.fit(known)

    def readiness(self, probabilities: npt.NDArray[np.floating[Any]], place: Ints) -> Floats:
        """The largest calibrated probability."""
        largest: Floats = self.temperatures.apply(probabilities, place).max(axis=1)
        return largest


def fit_sharpness(logs: Floats, truth: Ints, doubt: float = 0.0) -> Floats:
    """The β₀ and β₁ of largest likelihood Π p_truth^β / Σ p^β, by Newton's method within their bounds.

    The logarithm is concave in both, so there is one maximum. A step that does not climb as it promised is halved.
    """
    n, own, sure = len(truth), logs[np.arange(len(truth)), truth], _sure(logs)
    weights = np.stack([1 - sure, sure], axis=1)  # of β₀ and β₁ in each β

    def height(pair: Floats) -> float:
        powers = logs * (weights @ pair)[:, None]
        top = powers.max(axis=1)
        total = top + np.log(np.exp(powers - top[:, None]).sum(axis=1))
        return float(np.mean((weights @ pair) * own - total) - doubt / n * ((pair - 1) ** 2).sum() / 2)

    pair, now = np.ones(2), height(np.ones(2))
    while True:
        shares = _shares(logs * (weights @ pair)[:, None])
        mean = (shares * logs).sum(axis=1)
        spread = (shares * logs**2).sum(axis=1) - mean**2
        slope = weights.T @ (own - mean) / n - doubt / n * (pair - 1)
        bend = (weights * spread[:, None]).T @ weights / n + (doubt / n + SMALLEST) * np.eye(2)
        step = _best_step(slope, bend, 1 / MOST - pair, MOST - pair)
        promised = float(slope @ step)
        if promised <= ENOUGH:
            return pair
        while (then := height(pair + step)) - now < promised / 4:
            step, promised = step / 2, promised / 2
        pair, now = pair + step, then


def _best_step(slope: Floats, bend: Floats, low: Floats, high: Floats) -> Floats:
    """The largest slope · d − d · bend · d / 2 among steps d of a rectangle: inside, or else on an edge."""
    inside = np.asarray(np.linalg.solve(bend, slope), np.float64)
    if ((inside >= low) & (inside <= high)).all():
        return inside
    edges = []
    for one, other in ((0, 1), (1, 0)):
        for bound in (low[one], high[one]):
            step = np.empty(2)
            step[one] = bound
            step[other] = np.clip(
                (slope[other] - bend[other, one] * bound) / bend[other, other], low[other], high[other]
            )
            edges.append(step)
    return max(edges, key=lambda d: float(slope @ d - d @ bend @ d / 2))


def _sure(logs: Floats) -> Floats:
    """(N,) q: 0 where all classes are alike, 1 where one has all."""
    least = 1 / logs.shape[1]
    sure: Floats = (np.exp(logs.max(axis=1)) - least) / max(1 - least, SMALLEST)
    return sure


def _shares(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _octave(place: Ints) -> npt.NDArray[np.int32]:
    """0 for 1 item, 1 for 2 and 3, 2 for 4 to 7, and so on."""
    exponent: npt.NDArray[np.int32] = np.frexp(place.astype(np.float64))[1]
    return exponent - np.int32(1)
