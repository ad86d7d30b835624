"""Prefixes say when their arrays do not fit together, and what deciding would give."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.triggers.made import prefixes

from kvec.decide.triggers.base import Prefixes


@pytest.mark.parametrize(
    ("offsets", "truth", "message"),
    [
        ([0, 2], [0, 1], "offsets must be 3 numbers from 0 to 3"),
        ([0, 2, 4], [0, 1], "offsets must be 3 numbers from 0 to 3"),
        ([0, 3, 3], [0, 1], "sequence 1 is empty"),
        ([0, 1, 3], [0, 2], "between 0 and 1; leave out unlabelled"),
        ([0, 1, 3], [-1, 1], "between 0 and 1; leave out unlabelled"),
    ],
)
def test_what_does_not_fit_is_refused(offsets: list[int], truth: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Prefixes(np.array(offsets), np.full((3, 2), 0.5), np.array(truth))


def test_what_deciding_gives() -> None:
    given = prefixes([np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.3, 0.7]])], [1, 0])
    assert given.length.tolist() == [2, 1]
    assert given.place.tolist() == [1, 2, 1]
    assert given.predicted(np.array([1, 1])).tolist() == [0, 1]
    assert given.predicted(np.array([2, 1])).tolist() == [1, 1]
    assert given.is_wrong().tolist() == [True, False, True]
