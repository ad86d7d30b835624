"""Labelled sequences at operating points, as promises are reckoned from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvec.decide.guarantee import Calibration
from kvec.decide.halting import first_halts
from kvec.decide.operating import OperatingPoint
from kvec.decide.scores import Scores
from kvec.tangle.tangles import Tangles


def calibration(
    tangles: Tangles, scores: Scores, known: npt.NDArray[np.bool_], unit: npt.NDArray[np.int64],
    points: Sequence[OperatingPoint], block: float | None = None,
) -> Calibration:  # fmt: skip
    """The known sequences at these operating points, which go from the latest to the earliest."""
    length = tangles.sequences.length.astype(np.int64)[known]
    start = scores.offsets[:-1][known]
    truth = tangles.labels[known, 0].astype(np.int64)
    predicted = scores.classes[0].argmax(axis=1)
    halts = np.stack([halts_at(scores, point)[known] for point in points])
    stops = np.where(halts > 0, halts, length)
    return Calibration(
        [point.to_dict() for point in points], stops, predicted[start + stops - 1] == truth, length,
        predicted[start + length - 1] == truth, truth, unit[known], block,
    )  # fmt: skip


def halts_at(scores: Scores, point: OperatingPoint) -> npt.NDArray[np.int64]:
    """(S,) items seen of each sequence up to its halt at an operating point; 0 where there is none."""
    return first_halts(scores.turned(point.delay_cost), point.threshold)
