"""CALIMERA on cases whose optimal cost is known by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.triggers.made import best_coin_cost, best_two_kinds_cost, coins, costs_of, lowest_cost, two_kinds

from kvec.decide.triggers.calimera import Calimera, features
from kvec.decide.triggers.economy import Economy
from kvec.decide.triggers.thresholds import Confidence

PER_ITEM = 0.02


@pytest.mark.parametrize("sure", [0.55, 0.7])
def test_it_waits_for_those_whom_waiting_serves(sure: float) -> None:
    """Whom it serves is told by confidence, or, where both kinds are equally sure, by the classes in question."""
    known, others = two_kinds(1500, 0, sure), two_kinds(1500, 1, sure)
    calimera, confidence = Calimera().fit(known), Confidence().fit(known)
    stopped = calimera.stops(others, PER_ITEM * calimera.typical)
    optimum = best_two_kinds_cost(others, PER_ITEM)
    assert costs_of(others, stopped, PER_ITEM).mean() == pytest.approx(optimum, rel=0.03)
    assert lowest_cost(others, confidence.sweep(others, confidence.settings()), PER_ITEM) > 1.2 * optimum


def test_it_sees_classes_where_economy_sees_confidence_alone() -> None:
    known, others = two_kinds(1500, 0, sure=0.7), two_kinds(1500, 1, sure=0.7)
    reached = {
        trigger.name: costs_of(others, trigger.stops(others, PER_ITEM * trigger.typical), PER_ITEM).mean()
        for trigger in (Calimera().fit(known), Economy().fit(known))
    }
    assert reached["calimera"] < 0.9 * reached["economy"]


@pytest.mark.parametrize("per_item", [0.003, 0.01, 0.03])
def test_it_comes_close_to_the_best_rule_on_coins(per_item: float) -> None:
    known, others = coins(3000, 0, bias=0.65, length=40), coins(4000, 1, bias=0.65, length=40)
    calimera = Calimera().fit(known)
    reached = costs_of(others, calimera.stops(others, per_item * 40), per_item).mean()
    assert reached == pytest.approx(best_coin_cost(0.65, 40, per_item), rel=0.02)


def test_where_delay_is_dear() -> None:
    known = two_kinds(500, 2, sure=0.55)
    assert (Calimera().fit(known).stops(known, 1000.0) == 1).all()


def test_features_are_those_of_one_row() -> None:
    row = np.array([0.2, 0.5, 0.3])
    doubt = -(row * np.log(row)).sum()
    expected = [*row, *row**2, 0.5, 0.125, 0.2, 0.04, 0.008, doubt]
    assert features(row[None]).tolist() == [pytest.approx(expected)]
