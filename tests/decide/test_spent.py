"""Which sequences have given a promise, by the least of their marks."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from kvec.decide.spent import KEPT, Marks, noted, spent

WISH, OTHER = {"kind": "error", "alpha": 0.1}, {"kind": "error", "alpha": 0.2}


def marks_of(first: int, last: int) -> Marks:
    """Marks of sequences with these numbers."""
    every = np.random.default_rng(0).integers(0, 1 << 63, 20_000, dtype=np.uint64)
    return np.unique(every[first:last])


@pytest.mark.parametrize("n", [1, 40, KEPT, 10_000])
def test_the_same_sequences_are_known_again(n: int) -> None:
    before = json.loads(json.dumps(noted([], WISH, marks_of(0, n), "today")))
    assert spent(before, WISH, marks_of(0, n)) is None, "the very same"
    assert spent(before, OTHER, marks_of(0, n)) == before[0]
    assert spent(before, OTHER, marks_of(0, max(n // 2, 1))) == before[0], "a part of them"
    assert spent(before, OTHER, marks_of(0, 2 * n)) == before[0], "among others"
    assert spent(before, OTHER, marks_of(n, 2 * n)) is None, "others"
    assert spent(before, WISH, marks_of(0, 2 * n)) == before[0], "the same wish, and others besides"
    if n > 1:
        assert spent(before, WISH, marks_of(0, n // 2)) == before[0], "the same wish on a part of them"
    assert len(before[0]["marks"]) <= 11 * KEPT


def test_another_model_is_another_wish_and_older_folders_do_not_name_it() -> None:
    marks = marks_of(0, 99)
    before = noted([], WISH | {"model": "first"}, marks, "today")
    assert spent(before, WISH | {"model": "first"}, marks) is None
    assert spent(before, WISH | {"model": "second"}, marks) == before[0]
    assert len(noted(before, WISH | {"model": "second"}, marks, "later")) == 2
    older = noted([], WISH, marks, "then")
    assert spent(older, WISH | {"model": "first"}, marks) is None
    assert spent(older, OTHER | {"model": "first"}, marks) == older[0]
    assert noted(older, WISH | {"model": "first"}, marks, "today") == before, "it is named from then on"


def test_a_few_that_are_alike_by_chance_are_nothing() -> None:
    before = noted([], WISH, marks_of(0, 1000), "today")
    assert spent(before, OTHER, marks_of(980, 1980)) is None
    assert spent(before, OTHER, marks_of(900, 1900)) is not None


def test_a_repeated_wish_is_kept_once_and_the_newest_is_named() -> None:
    before = noted(noted([], WISH, marks_of(0, 99), "first"), OTHER, marks_of(0, 99), "second")
    assert [each["made"] for each in noted(before, WISH, marks_of(0, 99), "third")] == ["second", "third"]
    found = spent(before, {"kind": "early error", "alpha": 0.1}, marks_of(0, 99))
    assert found is not None and found["made"] == "second"


def test_a_small_part_of_a_large_calibration_is_known_again() -> None:
    rng = np.random.default_rng(1)
    many = np.unique(rng.integers(0, 1 << 63, 100_000, dtype=np.uint64))
    before = noted([], WISH, many, "today")
    found = [spent(before, OTHER, np.sort(rng.choice(many, 60, replace=False))) for _ in range(100)]
    assert all(each is before[0] for each in found)


def test_folders_of_an_older_kvec_keep_fewer_marks() -> None:
    many = np.unique(np.random.default_rng(2).integers(0, 1 << 63, 100_000, dtype=np.uint64))
    (before,) = noted([], WISH, many, "then")
    before["marks"] = base64.b64encode(many[:1024].astype("<u8").tobytes()).decode()
    assert spent([before], WISH, many) is None, "the very same"
    assert spent([before], OTHER, np.random.default_rng(3).choice(many, 2000, replace=False)) == before
