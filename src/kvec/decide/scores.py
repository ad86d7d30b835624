"""What a network says of whole sequences, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kvec.decide.dial import halting_scores


@dataclass(frozen=True)
class Scores:
    """Halting score and class probabilities after each item, sequence by sequence (see `Tangles.offsets`)."""

    offsets: npt.NDArray[np.int64]  # (S + 1,)
    halt: npt.NDArray[np.float32]  # (N,) probability of Halt
    classes: tuple[npt.NDArray[np.float32], ...]  # of each label column, (N, classes)
    knots: npt.NDArray[np.float32] | None = None  # (N, P) logits of Halt at each knot of the dial
    untempered: tuple[npt.NDArray[np.float32], ...] | None = None  # `classes` before they were calibrated

    def turned(self, delay_cost: float | None) -> Scores:
        """The same with the halting scores of another delay cost; None: as they are."""
        if delay_cost is None or self.knots is None:
            return self
        return replace(self, halt=halting_scores(self.knots, delay_cost))
