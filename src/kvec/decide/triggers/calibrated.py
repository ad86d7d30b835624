"""Probabilities calibrated by temperatures for each number of items seen, and a threshold on the largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.triggers.base import SMALLEST, Floats, Ints, Prefixes, logs_of
from kvec.decide.triggers.grid import alive, log_steps
from kvec.decide.triggers.thresholds import Threshold

MOST = 20.0  # a temperature lies between 1/20 and 20


@dataclass(frozen=True)
class Temperatures:
    """Probabilities p become p^β / Σ p^β, with one sharpness β (1 / temperature) per octave of items seen."""

    sharpness: Floats  # for 1, 2–3, 4–7, 8–15 … items; the last one for all longer prefixes too

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
            fitted.append(sharpness(logs, known.truth[np.concatenate(owners)], doubt))
        return cls(np.array(fitted))

    def apply(self, probabilities: npt.NDArray[np.floating[Any]], place: Ints) -> Floats:
        """(N, C) calibrated probabilities of items that are the `place`-th of their sequences."""
        beta = self.sharpness[np.minimum(_octave(place), len(self.sharpness) - 1)]
        return _shares(logs_of(probabilities) * beta[:, None])


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


def sharpness(logs: Floats, truth: Ints, doubt: float = 0.0) -> float:
    """The β of largest likelihood Π p_truth^β / Σ p^β, by Newton's method; it is concave in β, so there is one.

    A step that leaves the interval known to hold β halves that interval instead.
    """
    own = logs[np.arange(len(truth)), truth]
    low, high, beta = 1 / MOST, MOST, 1.0
    gain = np.inf
    while gain > 1e-12:
        shares = _shares(logs * beta)
        mean = (shares * logs).sum(axis=1)
        slope = float(np.mean(own - mean)) - doubt / len(truth) * (beta - 1)  # of the log-likelihood
        bend = float(np.mean((shares * logs**2).sum(axis=1) - mean**2)) + doubt / len(truth)
        low, high = (beta, high) if slope > 0 else (low, beta)
        step = beta + slope / max(bend, SMALLEST)
        step = step if low < step < high else (low + high) / 2
        gain = slope * (step - beta)  # in log-likelihood, at most
        beta = step
    return beta


def _shares(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _octave(place: Ints) -> npt.NDArray[np.int32]:
    """0 for 1 item, 1 for 2 and 3, 2 for 4 to 7, and so on."""
    exponent: npt.NDArray[np.int32] = np.frexp(place.astype(np.float64))[1]
    return exponent - np.int32(1)
