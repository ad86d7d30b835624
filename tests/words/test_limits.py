"""What a stream may hold: every bound is checked where it is given."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pytest

from kvec.words.errors import SettingError
from kvec.words.limits import Limits

WHOLE = ("max_live_keys", "max_tangles", "max_cached_items", "max_returning_keys")
SECONDS = ("expiry", "idle", "reorder")
WORDS = ("late", "duplicates")


def test_every_limit_is_of_one_of_these_kinds() -> None:
    assert {field.name for field in fields(Limits)} == {*WHOLE, *SECONDS, *WORDS}


@pytest.mark.parametrize("name", WHOLE)
def test_counts_are_whole_and_at_least_one(name: str) -> None:
    for fine in (1, 10**12, np.int64(3)):
        assert getattr(Limits(**{name: fine}), name) == fine
    for bad in (0, -1, 1.0, 2.5, "3", None, True, math.nan):
        with pytest.raises(SettingError, match=f"^{name} is .*; it must be a whole number of at least 1$"):
            Limits(**{name: bad})


@pytest.mark.parametrize("name", SECONDS)
def test_seconds_are_numbers_of_at_least_zero(name: str) -> None:
    for fine in (0, 0.0, 1e-9, 3600, np.float32(2.5)):
        assert getattr(Limits(**{name: fine}), name) == fine
    for bad in (-1e-9, math.nan, -math.inf, "5", True, [1]):
        with pytest.raises(SettingError, match=f"^{name} is .*; it must be at least 0 seconds"):
            Limits(**{name: bad})


def test_a_sequence_may_live_for_ever_but_no_item_is_held_back_for_ever() -> None:
    assert Limits(expiry=math.inf, idle=None).expiry == math.inf
    assert Limits(expiry=None).expiry is None
    for bad in (math.inf, None):
        with pytest.raises(SettingError, match=r"^reorder is .*not for ever$"):
            Limits(reorder=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WORDS)
def test_words_are_among_the_known(name: str) -> None:
    assert [getattr(Limits(**{name: word}), name) for word in ("take", "drop")] == ["take", "drop"]
    for bad in ("keep", "", None, 1):
        with pytest.raises(SettingError, match=f"^{name} is .*; it can be take or drop$"):
            Limits(**{name: bad})


def test_limits_by_name() -> None:
    given: dict[str, Any] = {"max_tangles": 3, "late": "drop"}
    assert asdict(Limits.of(given)) == asdict(Limits()) | given
    assert Limits.of({}) == Limits()
    with pytest.raises(
        SettingError,
        match=r"^unknown limit 'max_keys' in Limits; known: duplicates, .*reorder; did you mean 'max_live_keys'\?$",
    ):
        Limits.of({"max_tangles": 3, "max_keys": 4})
    with pytest.raises(SettingError, match=r"^max_tangles is 0"):
        Limits.of({"max_tangles": 0})
