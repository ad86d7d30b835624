"""A promise says what it is about, and reads what it wrote."""

from __future__ import annotations

import pytest
from tests.decide.made_promise import promise

from kvec.decide.promise import Promise
from kvec.words.errors import ModelError


def test_one_line() -> None:
    assert promise().line() == (
        "promised: at most 10% of sequences are wrong (95% confidence, from 200 tangles, 2024-05-01)"
    )


def test_it_is_about_one_operating_point_of_one_model() -> None:
    made = promise()
    assert made.is_about({"threshold": 0.5}, "hash")
    assert not made.is_about({"threshold": 0.6}, "hash")
    assert not made.is_about({"threshold": 0.5, "delay_cost": 1.0}, "hash")
    assert not made.is_about({"threshold": 0.5}, "other")


def test_a_newer_promise_is_refused() -> None:
    with pytest.raises(ModelError, match="an entry 'colour' that this kvec does not know: upgrade kvec"):
        Promise.from_dict(promise().to_dict() | {"colour": "blue"})
