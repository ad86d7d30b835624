"""Which sequences have given a promise: another one on the same is not covered by the confidence.

The very same may be repeated: of the same wish, which names the model too, on the same sequences, no more and no fewer.
Of each calibration the least marks of its sequences are kept. Marks are hashes, so those are as good as drawn at
random, and a few of them tell how much two calibrations share.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Marks = npt.NDArray[np.uint64]
KEPT = 16_384  # marks of a calibration
SOME = 0.05  # of the sequences are the same, and it is the same data; fewer may be alike by chance


def spent(before: Sequence[Mapping[str, Any]], wish: Mapping[str, Any], marks: Marks) -> Mapping[str, Any] | None:
    """The newest other promise that these sequences have given, if there is one."""
    text = _text(marks)
    return gave([each for each in before if not _is_same(each, wish, text)], marks)


def gave(before: Sequence[Mapping[str, Any]], marks: Marks) -> Mapping[str, Any] | None:
    """The newest calibration that a good part of these sequences was, if there is one."""
    return next((each for each in reversed(before) if _is_shared(_marks_of(each), marks)), None)


def noted(
    before: Sequence[Mapping[str, Any]], wish: Mapping[str, Any], marks: Marks, made: str
) -> list[dict[str, Any]]:  # fmt: skip
    """The calibrations with a new one, which stands for itself when it is repeated."""
    text = _text(marks)
    new = {"wish": dict(wish), "made": made, "marks": text}
    return [*(dict(each) for each in before if not _is_same(each, wish, text)), new]


def _is_same(given: Mapping[str, Any], wish: Mapping[str, Any], text: str) -> bool:
    """Whether a calibration is this one; what an older folder does not say, such as the model, is no difference."""
    return {**wish, **given["wish"]} == dict(wish) and given["marks"] == text


def _text(marks: Marks) -> str:
    return base64.b64encode(np.sort(marks)[:KEPT].astype("<u8").tobytes()).decode()


def _marks_of(given: Mapping[str, Any]) -> Marks:
    return np.frombuffer(base64.b64decode(given["marks"]), "<u8").astype(np.uint64)


def _is_shared(kept: Marks, marks: Marks) -> bool:
    """Whether a good part of the one or the other is the same."""
    if not kept.size:
        return False
    comparable = marks[marks <= kept[-1]] if len(kept) == KEPT else marks
    n_same = len(np.intersect1d(kept, comparable))
    return n_same > SOME * min(len(kept), len(comparable))
