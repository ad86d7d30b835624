"""Hindsight against the plain definition, sequence by sequence."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.triggers.made import apart, walks

from kvec.decide.triggers.base import Prefixes
from kvec.reproduce.oracle import hindsight


@pytest.mark.parametrize("seed", range(3))
def test_it_stops_where_it_is_first_right_if_that_is_worth_it(seed: int) -> None:
    test = walks(60, seed, n_classes=3, longest=12)
    costs, stops = hindsight(test)
    for cost, row in zip(costs, stops, strict=True):
        for s, shares in enumerate(apart(test)):
            right = [n for n, each in enumerate(shares, 1) if each.argmax() == test.truth[s]]
            pays = right and cost * (right[0] - 1) / len(shares) < 1
            assert row[s] == (right[0] if pays else 1)


def test_no_rule_does_better_at_any_cost() -> None:
    test = walks(200, 5, longest=20)
    costs, stops = hindsight(test)
    rng = np.random.default_rng(0)
    for cost, row in zip(costs, stops, strict=True):
        for other in (test.length, np.ones_like(test.length), rng.integers(1, test.length + 1)):
            ours, theirs = (_cost(test, each, float(cost)) for each in (row, other))
            assert ours <= theirs + 1e-12


def test_nothing_to_decide() -> None:
    costs, stops = hindsight(Prefixes(np.zeros(1, np.int64), np.zeros((0, 3)), np.zeros(0, np.int64)))
    assert stops.shape == (len(costs), 0)


def _cost(test: Prefixes, stops: np.ndarray, per_sequence: float) -> float:
    return float(np.mean((test.predicted(stops) != test.truth) + per_sequence * stops / test.length))
