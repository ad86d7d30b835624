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
KEPT_BEFORE = 1024  # by an older kvec
SOME = 0.05  # of the sequences are the same, and it is the same data; fewer may be alike by chance


def spent(before: Sequence[Mapping[str, Any]], wish: Mapping[str, Any], marks: Marks) -> Mapping[str, Any] | None:
    """The newest other promise that these sequences have given, if there is one."""
    return gave([each for each in before if not _is_same(each, wish, marks)], marks)


def gave(before: Sequence[Mapping[str, Any]], marks: Marks) -> Mapping[str, Any] | None:
    """The newest calibration that a good part of these sequences was, if there is one."""
    return next((each for each in reversed(before) if _is_shared(_marks_of(each), marks)), None)


def noted(
    before: Sequence[Mapping[str, Any]], wish: Mapping[str, Any], marks: Marks, made: str
) -> list[dict[str, Any]]:  # fmt: skip
    """The calibrations with a new one, which stands for itself when it is repeated."""
    new = {"wish": dict(wish), "made": made, "marks": _text(marks, KEPT)}
    return [*(dict(each) for each in before if not _is_same(each, wish, marks)), new]


def _is_same(given: Mapping[str, Any], wish: Mapping[str, Any], marks: Marks) -> bool:
    """Whether a calibration is this one; what an older folder does not say, such as the model, is no difference."""
    is_same_wish = {**wish, **given["wish"]} == dict(wish)
    return is_same_wish and given["marks"] in (_text(marks, KEPT), _text(marks, KEPT_BEFORE))


def _text(marks: Marks, most: int) -> str:
    return base64.b64encode(np.sort(marks)[:most].astype("<u8").tobytes()).decode()


def _marks_of(given: Mapping[str, Any]) -> Marks:
    return np.frombuffer(base64.b64decode(given["marks"]), "<u8").astype(np.uint64)


def _is_shared(kept: Marks, marks: Marks) -> bool:
    """Whether a good part of the one or the other is the same."""
    if not kept.size:
        return False
    comparable = marks[marks <= kept[-1]] if len(kept) in (KEPT_BEFORE, KEPT) else marks
    n_same = len(np.intersect1d(kept, comparable))
    return n_same > SOME * min(len(kept), len(comparable))
