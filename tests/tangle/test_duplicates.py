"""Which items are the same: by value and time, whatever else differs in how they are written."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

from kvec.tangle.duplicates import DIGEST, fingerprint
from kvec.words.items import Item


def of(value: dict[Any, Any], time: float = 1.0) -> bytes:
    return fingerprint(Item("t", "k", value, time))


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ({"a": 1, "b": "x"}, {"b": "x", "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": math.nan}, {"a": float("nan")}),
        ({"a": 10**20}, {"a": 1e20}),
        ({"a": 10**5000}, {"a": 10**5000}),
        ({5: "x", "a": None}, {"a": None, 5: "x"}),
        ({"a": "\udc80"}, {"a": "\udc80"}),
    ],
)
def test_the_same_values(one: dict[Any, Any], same: dict[Any, Any]) -> None:
    assert of(one) == of(same)
    assert len(of(one)) == DIGEST


def test_other_values_and_times() -> None:
    values: list[dict[Any, Any]] = [
        {}, {"a": None}, {"a": ""}, {"a": 1}, {"a": -1}, {"a": -2}, {"a": "1"}, {"a": 1.5}, {"a": math.nan},
        {"a": math.inf}, {"a": -math.inf}, {"b": 1}, {"a": 1, "b": 1}, {"a": "1\n'b': 1"}, {"a": "None"}, {"a": 1e-5},
        {"a": 2**61}, {"a": 1 + 2**61}, {1: 1},
    ]  # fmt: skip
    times = [0.0, 1.0, 1.0000000000000002, -1.0, 1e-300]
    assert len({of(value, time) for value in values for time in times}) == len(values) * len(times)


def test_another_process_finds_the_same() -> None:
    code = "from kvec.tangle.duplicates import *; from kvec.words.items import Item; "
    code += "print(fingerprint(Item('t', 'k', {'way': 'in', 'size': 40}, 2.5)).hex())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == of({"size": 40, "way": "in"}, 2.5).hex()
