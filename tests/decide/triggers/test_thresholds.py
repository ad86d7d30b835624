"""Fixed, confidence and sprt on cases made for them: each reaches what its idea allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.decide.triggers.made import (
    accuracy,
    best_coin_cost,
    coins,
    costs_of,
    lowest_cost,
    prefixes,
    softmax,
    walks,
)

from kvec.decide.triggers.base import Prefixes
from kvec.decide.triggers.thresholds import Confidence, Fixed, Sprt, spread_thresholds
from kvec.learn.choosing import best_setting


def signal_at(item: int, n: int, seed: int) -> Prefixes:
    """Loud noise until one item of each sequence, the truth from there on, in a voice no louder."""
    rng = np.random.default_rng(seed)
    found, truth = [], rng.integers(0, 3, n)
    for own, length in zip(truth, rng.integers(20, 60, n), strict=True):
        guess = np.where(np.arange(1, length + 1) < item, rng.integers(0, 3, length), own)
        found.append(softmax(np.eye(3)[guess] * rng.uniform(1, 8, (length, 1))))
    return prefixes(found, truth.tolist())


@pytest.mark.parametrize("item", [1, 4, 7])
def test_fixed_is_best_when_all_signals_sit_at_one_place(item: int) -> None:
    known, others = signal_at(item, 300, seed=0), signal_at(item, 300, seed=1)
    fixed, confidence = Fixed().fit(known), Confidence().fit(known)
    assert best_setting(fixed, known)[0] == item
    assert accuracy(others, fixed.stops(others, item)) == 1.0
    items = fixed.stops(others, item).mean()
    for stopped in confidence.sweep(others, confidence.settings()):
        if item > 1 and stopped.mean() <= items:
            assert accuracy(others, stopped) < 0.8


def test_fixed_settings_are_all_small_numbers_and_reach_the_longest() -> None:
    chosen = Fixed().fit(walks(100, seed=0)).settings().tolist()
    assert chosen[:6] == [1, 2, 3, 4, 5, 6] and chosen[-1] == 40


@pytest.mark.parametrize("per_item", [0.003, 0.01, 0.03])
def test_confidence_is_best_when_it_is_the_exact_posterior(per_item: float) -> None:
    known, others = coins(1000, 0, bias=0.65, length=200), coins(4000, 1, bias=0.65, length=200)
    optimum = best_coin_cost(0.65, 200, per_item)
    confidence, fixed = Confidence().fit(known), Fixed().fit(known)
    reached = lowest_cost(others, confidence.sweep(others, confidence.settings()), per_item)
    assert reached == pytest.approx(optimum, rel=0.02)
    assert lowest_cost(others, fixed.sweep(others, fixed.settings()), per_item) > 1.1 * optimum


@pytest.mark.parametrize("error", [0.05, 0.01])
def test_sprt_keeps_the_error_that_its_margin_promises_with_fewer_items_than_fixed(error: float) -> None:
    known, others = coins(1000, 0, bias=0.65, length=200), coins(4000, 1, bias=0.65, length=200)
    stopped = Sprt().fit(known).stops(others, np.log((1 - error) / error))
    reached = 1 - accuracy(others, stopped)
    assert reached <= error
    fixed = Fixed().fit(known)
    enough = min(n for n in range(1, 200) if 1 - accuracy(others, fixed.stops(others, n)) <= reached)
    assert stopped.mean() < 0.7 * enough


def test_sprt_keeps_its_promise_to_a_rare_class_too() -> None:
    """One in ten is of class 1: a threshold on the posterior alone would sell the few for the many."""
    known, others = (coins(4000, seed, bias=0.65, length=200, share=0.1) for seed in (0, 1))
    rare = others.truth == 1
    by_sprt = Sprt().fit(known).stops(others, np.log(19))
    assert 1 - np.mean(others.predicted(by_sprt)[rare] == 1) <= 0.05
    by_confidence = Confidence().fit(known).stops(others, 0.95)
    assert 1 - np.mean(others.predicted(by_confidence)[rare] == 1) > 0.2


def test_the_margin_is_between_the_class_to_be_decided_and_its_strongest_rival() -> None:
    known = prefixes([np.full((1, 3), 1 / 3)] * 7, [0, 0, 0, 0, 0, 1, 2])  # shares with one more each: 6, 2, 2 of 10
    sprt = Sprt().fit(known)
    shares = [np.array([[0.5, 0.3, 0.2], [0.9, 0.1, 0.0], [0.1, 0.6, 0.3]])]
    ratio = np.exp(sprt.score(prefixes(shares, [0])))
    assert ratio[0] == pytest.approx((0.5 / 0.6) / (0.3 / 0.2))  # class 0 would be decided, yet class 1 leads
    assert ratio[1] == pytest.approx((0.9 / 0.6) / (0.1 / 0.2))
    assert ratio[2] == pytest.approx((0.6 / 0.2) / (0.3 / 0.2))


@given(n=st.integers(1, 30), seed=st.integers(0, 1000), most=st.integers(2, 12), digits=st.integers(1, 6))
def test_thresholds_spread_over_the_reachable_earliness(n: int, seed: int, most: int, digits: int) -> None:
    known = walks(n, seed, longest=12)
    score = known.probabilities.max(axis=1).astype(np.float64).round(digits)
    chosen = spread_thresholds(known.offsets, score, most)
    late = []
    for threshold in np.unique(score):
        first = [
            next((i for i, s in enumerate(part, 1) if s >= threshold), len(part))
            for part in np.split(score, known.offsets[1:-1])
        ]
        late.append(float(np.mean(first / known.length)))
    reached = np.array(late)[np.searchsorted(np.unique(score), chosen)]
    assert reached[0] == late[0] and reached[-1] == pytest.approx(late[-1])
    wanted = np.geomspace(late[0], late[-1], most)
    nearest = [min(e for e in late if e >= w - 1e-9) for w in wanted]
    assert np.unique(np.round(reached, 9)).tolist() == np.unique(np.round(nearest, 9)).tolist()


def test_costs_count_items_and_risk() -> None:
    given = prefixes([np.array([[0.6, 0.4], [0.9, 0.1]])], [0])
    assert costs_of(given, np.array([2]), 0.25).tolist() == pytest.approx([0.1 + 0.5])
