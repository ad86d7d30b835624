"""How what the heads say becomes class probabilities, and a score to halt by: the learned hazard, or a trigger's.

- `hazard`: the halting score that was learned.
- `calibrated`: the largest class probability, calibrated for the number of items seen.
- `induction`: 1 where backward induction sees no gain in waiting, at a cost of waiting that is settled; else 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.scores import Scores
from kvec.decide.triggers.calibrated import Temperatures
from kvec.decide.triggers.calimera import features
from kvec.words.plain import require_choice

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
TRIGGERS = ("hazard", "calibrated", "induction")


@dataclass(frozen=True)
class Readiness:
    """Temperatures of each label column (none: the network is believed), and the trigger of the first one."""

    temperatures: tuple[Temperatures, ...] = ()
    trigger: str = "hazard"
    gains: Mapping[int, tuple[Floats, float]] = field(default_factory=dict)  # number of items: weights, constant

    def __post_init__(self) -> None:
        """Check the trigger."""
        require_choice(self.trigger, TRIGGERS, "trigger")

    def after(self, said: npt.NDArray[Any], n_observed: int, n_classes: int) -> float:
        """How ready a sequence is after so many items, by one row of outputs."""
        if self.trigger == "hazard":
            return halt_probability(said[0])
        if self.trigger == "induction" and n_observed not in self.gains:
            return 0.0
        shares = self.probabilities(0, said[None, 1 : 1 + n_classes], np.array([n_observed]))
        rounded = shares.astype(np.float32)  # as batch evaluation rounds them
        return float(rounded.max() if self.trigger == "calibrated" else self._is_no_gain(rounded, n_observed)[0])

    def probabilities(self, column: int, logits: npt.NDArray[Any], place: Ints) -> Floats:
        """(N, classes) calibrated probabilities of a label column, of items at a place of their sequences."""
        shares = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return self.temperatures[column].apply(shares, place) if self.temperatures else shares

    def applied(self, scores: Scores) -> Scores:
        """The scores of whole sequences with calibrated probabilities and this trigger's score."""
        length = np.diff(scores.offsets)
        place = np.arange(1, len(scores.halt) + 1) - np.repeat(scores.offsets[:-1], length)
        classes = untempered = scores.classes
        if self.temperatures:
            classes = tuple(
                t.apply(c, place).astype(np.float32) for t, c in zip(self.temperatures, classes, strict=True)
            )
        if self.trigger == "hazard":
            return replace(scores, classes=classes, untempered=untempered)
        if self.trigger == "calibrated":
            return replace(scores, classes=classes, halt=classes[0].max(axis=1), untempered=untempered)
        halt = np.zeros(len(place), np.float32)
        for n in self.gains:
            rows = np.flatnonzero(place == n)
            halt[rows] = self._is_no_gain(classes[0][rows], n)
        return replace(scores, classes=classes, halt=halt, untempered=untempered)

    def _is_no_gain(self, shares: npt.NDArray[np.float32], n_observed: int) -> npt.NDArray[np.bool_]:
        weights, constant = self.gains[n_observed]
        is_none: npt.NDArray[np.bool_] = features(shares.astype(np.float64)) @ weights + constant >= 0
        return is_none

    def to_plain(self) -> dict[str, Any]:
        """Plain data for a model's card."""
        return {
            "temperatures": [t.sharpness.tolist() for t in self.temperatures], "trigger": self.trigger,
            "gains": {str(n): [*map(float, weights), constant] for n, (weights, constant) in self.gains.items()},
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any] | None) -> Readiness:
        """Read what `to_plain` wrote; models of before have none."""
        if plain is None:
            return cls()
        gains = {int(n): (np.array(w[:-1]), float(w[-1])) for n, w in plain["gains"].items()}
        return cls(tuple(Temperatures(np.array(t, np.float64)) for t in plain["temperatures"]), plain["trigger"], gains)


def halt_probability(logit: np.floating[Any]) -> float:
    """The halting score of a logit, rounded as batch evaluation rounds it."""
    return float(1 / (1 + np.exp(-logit))) if logit > -80 else 0.0  # lest e^x be too large for single precision
