"""How what the heads say becomes class probabilities, and a score to halt by: the learned hazard, or a trigger's.

- `hazard`: the halting score that was learned.
- `calibrated`: the largest class probability, calibrated for the number of items seen.
- `induction`: what waiting is expected to lose at a cost of waiting λ, by backward induction; from 0.5 on it loses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.dial import LEAST, halting_scores
from kvec.decide.held import Arrays, scores_of
from kvec.decide.scores import Scores
from kvec.decide.triggers.calibrated import Temperatures
from kvec.decide.triggers.waiting import Waiting
from kvec.words.errors import ModelError
from kvec.words.plain import require_choice

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
TRIGGERS = ("hazard", "calibrated", "induction")


@dataclass(frozen=True)
class Readiness:
    """Temperatures of each label column (none: the network is believed), and the trigger of the first one."""

    temperatures: tuple[Temperatures, ...] = ()
    trigger: str = "hazard"
    waiting: Waiting | None = None  # of `induction`

    def __post_init__(self) -> None:
        """Check the trigger."""
        require_choice(self.trigger, TRIGGERS, "trigger")
        if (self.trigger == "induction") != (self.waiting is not None):
            raise ValueError("induction, and nothing else, goes with what waiting loses")

    def is_for(self, n_classes: int) -> bool:
        """Whether its arrays have the sizes that so many classes of the first label column need."""
        return all(t.sharpness.ndim == 2 and t.sharpness.shape[1] == 2 for t in self.temperatures) and (
            self.waiting is None or self.waiting.is_for(n_classes)
        )

    def probabilities(self, column: int, logits: npt.NDArray[Any], place: Ints) -> Floats:
        """(N, classes) calibrated probabilities of a label column, of items at a place of their sequences."""
        shares = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return self.temperatures[column].apply(shares, place) if self.temperatures else shares

    def applied(self, scores: Scores, delay_cost: float | None = None) -> Scores:
        """The scores of whole sequences with calibrated probabilities and this trigger's score."""
        length = np.diff(scores.offsets)
        place = np.arange(1, len(scores.halt) + 1) - np.repeat(scores.offsets[:-1], length)
        classes = untempered = scores.classes
        if self.temperatures:
            classes = tuple(
                t.apply(c, place).astype(np.float32) for t, c in zip(self.temperatures, classes, strict=True)
            )
        scores = replace(scores, classes=classes, untempered=untempered)
        if self.trigger == "hazard":
            return scores
        if self.waiting is None:
            return replace(scores, halt=classes[0].max(axis=1), knots=None)
        knots = self.waiting.knots(classes[0], place)
        return replace(scores, knots=knots, halt=halting_scores(knots, LEAST if delay_cost is None else delay_cost))

    def to_plain(self) -> dict[str, Any]:
        """Plain data for a model's card, without what `to_arrays` holds."""
        return {
            "temperatures": [t.sharpness.tolist() for t in self.temperatures], "trigger": self.trigger,
            "gains": {},  # older versions read them, and hashes of models hold them
        }  # fmt: skip

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What is kept beside the weights of the network."""
        return {} if self.waiting is None else self.waiting.to_arrays()

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any] | None, arrays: Mapping[str, npt.NDArray[Any]]) -> Readiness:
        """Read what `to_plain` and `to_arrays` gave; models of before have none."""
        if plain is None:
            return cls()
        is_induction = plain["trigger"] == "induction"
        if is_induction and "waiting.weights" not in arrays:
            raise ModelError(
                "this model halts by backward induction as an older kvec kept it, at one cost alone; run kvec tune "
                "again on the model that it came from"
            )
        temperatures = tuple(Temperatures(np.array(t, np.float64)) for t in plain["temperatures"])
        return cls(temperatures, plain["trigger"], Waiting.from_arrays(arrays) if is_induction else None)


def heard(readiness: Readiness, held: Arrays, delay_cost: float | None = None) -> Arrays:
    """Held-out sequences with the scores of a trigger; a dial of the policy turns the learned one alone."""
    if readiness.trigger == "hazard":
        return held
    scores = readiness.applied(scores_of(held), delay_cost)
    kept = {name: array for name, array in held.items() if name != "knots"} | {"halt": scores.halt}
    return kept if scores.knots is None else kept | {"knots": scores.knots}
