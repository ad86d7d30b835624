"""ECONOMY-γ on cases whose optimal cost is known by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.triggers.made import best_coin_cost, best_two_kinds_cost, coins, costs_of, lowest_cost, two_kinds

from kvec.decide.triggers.economy import Economy, expected_costs, link_up
from kvec.decide.triggers.thresholds import Confidence

PER_ITEM = 0.02


def test_it_waits_for_those_whom_waiting_serves() -> None:
    """The less sure kind never learns more: a threshold must keep it waiting, or stop the other kind too early."""
    known, others = two_kinds(1500, 0, sure=0.55), two_kinds(1500, 1, sure=0.55)
    economy = Economy().fit(known)
    stopped = economy.stops(others, PER_ITEM * economy.typical)
    optimum = best_two_kinds_cost(others, PER_ITEM)
    assert costs_of(others, stopped, PER_ITEM).mean() == pytest.approx(optimum, rel=0.02)
    assert (stopped[others.truth >= 2] == 1).all()
    assert (stopped[others.truth < 2] == np.minimum(others.length, 5)[others.truth < 2]).all()
    confidence = Confidence().fit(known)
    assert lowest_cost(others, confidence.sweep(others, confidence.settings()), PER_ITEM) > 1.2 * optimum


@pytest.mark.parametrize("per_item", [0.003, 0.01, 0.03])
def test_one_of_its_settings_comes_close_to_the_best_rule_on_coins(per_item: float) -> None:
    """Not that of the cost itself: its horizons are fixed, while the best rule may change its mind, and so waits on."""
    known, others = coins(3000, 0, bias=0.65, length=40), coins(4000, 1, bias=0.65, length=40)
    economy = Economy().fit(known)
    reached = lowest_cost(others, economy.sweep(others, economy.settings()), per_item)
    assert reached == pytest.approx(best_coin_cost(0.65, 40, per_item), rel=0.03)


def test_where_delay_is_dear_or_free() -> None:
    known = two_kinds(1500, 2, sure=0.55)
    economy = Economy().fit(known)
    assert (economy.stops(known, 1000.0) == 1).all()
    telling = known.truth < 2
    assert (economy.stops(known, 1e-6)[telling] == np.minimum(known.length, 5)[telling]).all()


def test_the_chance_to_end_is_part_of_the_cost_of_waiting() -> None:
    """At three items one in ten ends: it is decided there, and does not pay for the wait until five."""
    known = two_kinds(4000, 3, sure=0.55)
    telling = known.truth < 2
    short = np.mean(known.length[telling] == 3)
    costs = expected_costs(link_up(known, 8), PER_ITEM)[0][-1]  # of the surer group at the first item
    at_five = (1 - short) * 5 * PER_ITEM + short * (3 * PER_ITEM + 0.3)
    assert costs[4] == pytest.approx(at_five, abs=0.01)
    assert costs[-1] == pytest.approx(PER_ITEM * known.length[telling].mean() + short * 0.3, abs=0.01)


def test_groups_are_of_like_size_and_ties_stay_together() -> None:
    chain = link_up(coins(2000, 4, bias=0.65, length=30), 8)
    assert len(chain[0].edges) == 0  # after one toss all are equally sure
    for link in chain:
        assert len(link.edges) <= 7 and (np.diff(link.edges) > 0).all()
        assert np.isfinite(link.error).all()
        assert link.moves.sum(axis=1) + (link.end_items > 0) == pytest.approx(1)
