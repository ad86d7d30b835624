"""Laws of every trigger: one decision per sequence, from what was seen so far, later for later settings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decide.triggers.made import apart, cut, prefixes, taken, walks

from kvec.decide.triggers.base import Prefixes, Trigger
from kvec.decide.triggers.catalogue import TRIGGERS
from kvec.words.errors import DataError

KNOWN = walks(300, seed=0)
FITTED = {name: trigger().fit(KNOWN) for name, trigger in TRIGGERS.items()}
SEEDS = st.integers(0, 10_000)

every_trigger = pytest.mark.parametrize("trigger", FITTED.values(), ids=FITTED)


def some(seed: int) -> Prefixes:
    """Some sequences; a few are longer than any held-out one."""
    return walks(25, seed, longest=60)


def some_settings(trigger: Trigger) -> list[float]:
    chosen = trigger.settings()
    return [float(s) for s in chosen[:: max(len(chosen) // 6, 1)]]


def test_all_six_are_there() -> None:
    assert list(TRIGGERS) == ["fixed", "confidence", "calibrated", "economy", "calimera", "sprt", "induction"]
    assert all(trigger.name == name for name, trigger in TRIGGERS.items())


@every_trigger
@given(seed=SEEDS)
@settings(max_examples=6)
def test_every_sequence_is_decided_once(trigger: Trigger, seed: int) -> None:
    others = some(seed)
    stopped = trigger.sweep(others, trigger.settings())
    assert stopped.shape == (len(trigger.settings()), 25) and stopped.dtype == np.int64
    assert (stopped >= 1).all() and (stopped <= others.length).all()


@every_trigger
@given(seed=SEEDS)
@settings(max_examples=6)
def test_the_future_never_edits_the_past(trigger: Trigger, seed: int) -> None:
    others, rng = some(seed), np.random.default_rng(seed)
    for setting in some_settings(trigger):
        stopped = trigger.stops(others, setting)
        changed = [p.copy() for p in apart(others)]
        for probabilities, n in zip(changed, stopped, strict=True):
            probabilities[n:] = rng.dirichlet(np.full(4, 0.3), len(probabilities) - n)
        assert np.array_equal(trigger.stops(prefixes(changed, others.truth.tolist()), setting), stopped)
        assert np.array_equal(trigger.stops(cut(others, stopped), setting), stopped)


@every_trigger
@given(seed=SEEDS)
@settings(max_examples=6)
def test_a_sequence_that_ends_before_its_stop_is_decided_at_its_end(trigger: Trigger, seed: int) -> None:
    others = some(seed)
    for setting in some_settings(trigger):
        stopped = trigger.stops(others, setting)
        sooner = np.maximum(stopped - 1, 1)
        assert np.array_equal(trigger.stops(cut(others, sooner), setting), sooner)


@every_trigger
@given(seed=SEEDS)
@settings(max_examples=6)
def test_neither_order_nor_company_nor_truth_matters(trigger: Trigger, seed: int) -> None:
    others, rng = some(seed), np.random.default_rng(seed)
    order = rng.permutation(25)[:15]
    blind = Prefixes(others.offsets, others.probabilities, rng.integers(0, 4, 25))
    for setting in some_settings(trigger):
        stopped = trigger.stops(others, setting)
        assert np.array_equal(trigger.stops(taken(others, order), setting), stopped[order])
        assert np.array_equal(trigger.stops(blind, setting), stopped)


@every_trigger
def test_settings_run_from_early_to_late(trigger: Trigger) -> None:
    others = walks(300, seed=1)
    stopped = trigger.sweep(others, trigger.settings())
    late = np.mean(stopped / others.length, axis=1)
    assert (stopped[0] == 1).all()
    assert (np.diff(late) > -0.005).all()
    assert late[-1] > 0.5
    assert np.unique(late).size >= 15


@every_trigger
def test_a_sweep_is_its_stops(trigger: Trigger) -> None:
    others = some(2)
    chosen = np.array(some_settings(trigger))
    each = [trigger.stops(others, float(setting)) for setting in chosen]
    assert np.array_equal(trigger.sweep(others, chosen), each)


@pytest.mark.parametrize("name", TRIGGERS)
def test_the_order_of_held_out_sequences_does_not_matter(name: str) -> None:
    again = TRIGGERS[name]().fit(taken(KNOWN, np.random.default_rng(3).permutation(300)))
    others = walks(300, seed=4)
    assert again.settings() == pytest.approx(FITTED[name].settings())
    same = again.sweep(others, FITTED[name].settings()) == FITTED[name].sweep(others, FITTED[name].settings())
    assert same.mean() > 0.999  # sums in another order differ by rounding


@pytest.mark.parametrize("name", TRIGGERS)
def test_fitting_twice_forgets_the_first(name: str) -> None:
    trigger = TRIGGERS[name]().fit(walks(50, seed=5)).fit(KNOWN)
    assert np.array_equal(trigger.settings(), FITTED[name].settings())
    others = some(6)
    assert np.array_equal(trigger.sweep(others, trigger.settings()), FITTED[name].sweep(others, trigger.settings()))


@pytest.mark.parametrize("name", TRIGGERS)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_few_held_out_sequences_are_enough_to_go_on(name: str, n: int) -> None:
    trigger = TRIGGERS[name]().fit(walks(n, seed=7))
    others = some(8)
    stopped = trigger.sweep(others, trigger.settings())
    assert (stopped >= 1).all() and (stopped <= others.length).all()


@pytest.mark.parametrize("name", TRIGGERS)
def test_one_class_and_certain_probabilities(name: str) -> None:
    ones = prefixes([np.ones((5, 1), np.float32)] * 30, [0] * 30)
    certain = prefixes([np.eye(3, dtype=np.float32)[[i % 3] * 4] for i in range(30)], [i % 3 for i in range(30)])
    for known in (ones, certain):
        trigger = TRIGGERS[name]().fit(known)
        assert np.isfinite(trigger.settings()).all()
        assert (trigger.stops(known, float(trigger.settings()[0])) == 1).all()


@every_trigger
def test_nothing_to_decide(trigger: Trigger) -> None:
    none = Prefixes(np.zeros(1, np.int64), np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    assert trigger.sweep(none, trigger.settings()).shape == (len(trigger.settings()), 0)
    with pytest.raises(DataError, match="no held-out sequence"):
        type(trigger)().fit(none)
