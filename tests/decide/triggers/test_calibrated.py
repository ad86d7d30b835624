"""Temperatures undo what a network overstates at short lengths, and the threshold on them gains by it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.triggers.made import accuracy, coins, lowest_cost, prefixes, walks

from kvec.decide.triggers.base import Ints, Prefixes, logs_of
from kvec.decide.triggers.calibrated import Calibrated, Temperatures, fit_sharpness
from kvec.decide.triggers.thresholds import Confidence

LENGTH, PER_ITEM = 120, 0.003


def boastful(given: Prefixes, before: int, times: float) -> Prefixes:
    """The same, but log-odds are so many times too large before an item of each sequence."""
    logs = logs_of(given.probabilities) * np.where(given.place < before, times, 1.0)[:, None]
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return Prefixes(given.offsets, shares / shares.sum(axis=1, keepdims=True), given.truth)


def test_calibrated_beats_raw_confidence_of_a_network_that_boasts_at_short_lengths() -> None:
    honest_known, honest = coins(2000, 0, 0.6, LENGTH), coins(2000, 1, 0.6, LENGTH)
    known, others = boastful(honest_known, 16, 5.0), boastful(honest, 16, 5.0)

    def reached(trigger: Confidence | Calibrated) -> tuple[float, Ints]:
        sweep = trigger.fit(known).sweep(others, trigger.settings())
        return lowest_cost(honest, sweep, PER_ITEM), sweep  # by the probabilities that are exact

    raw, _ = reached(Confidence())
    calibrated, _ = reached(Calibrated())
    exact = Confidence().fit(honest_known)
    assert calibrated < 0.93 * raw
    assert calibrated == pytest.approx(lowest_cost(honest, exact.sweep(honest, exact.settings()), PER_ITEM), rel=0.03)


def test_a_setting_is_the_chance_to_be_right_where_it_halts() -> None:
    known, others = (boastful(coins(4000, seed, 0.6, LENGTH), 16, 5.0) for seed in (0, 1))
    calibrated, confidence = Calibrated().fit(known), Confidence().fit(known)
    for setting in (0.8, 0.9):
        assert accuracy(others, calibrated.stops(others, setting)) == pytest.approx(setting + 0.02, abs=0.035)
        assert accuracy(others, confidence.stops(others, setting)) < setting - 0.1


def test_each_octave_gets_its_own_temperature() -> None:
    honest = coins(8000, 2, 0.6, 40)
    known = boastful(honest, before=8, times=4.0)
    calibrated = Temperatures.fit(known).apply(known.probabilities, known.place)
    for n_observed in (1, 2, 4, 8, 16, 32):
        here = known.place == n_observed
        assert np.abs(calibrated - honest.probabilities)[here].max() < 0.03


def test_who_boasts_only_where_it_is_unsure_is_believed_where_it_is_sure() -> None:
    """Of items that say 0.9 nine in ten are right, of those that say 0.6 half: one temperature fits neither."""
    sure, right = np.repeat([0.9, 0.6], 1000), np.concatenate([np.arange(1000) < 900, np.arange(1000) < 500])
    shares = np.stack([sure, 1 - sure], axis=1)
    known = Prefixes(np.arange(2001), shares, np.where(right, 0, 1))
    calibrated = Temperatures.fit(known).apply(shares, known.place)[:, 0]
    assert calibrated[[0, -1]] == pytest.approx([0.9, 0.5], abs=0.03)


def test_longer_prefixes_than_held_out_ones_take_the_last_temperature() -> None:
    fitted = Temperatures(np.array([[0.5, 0.5], [2.0, 2.0]]))
    shares = np.array([[0.8, 0.2]])
    assert fitted.apply(shares, np.array([1]))[0, 0] == pytest.approx(2 / 3)
    for place in (2, 3, 4, 1000):
        assert fitted.apply(shares, np.array([place]))[0, 0] == pytest.approx(16 / 17)


def test_sharpness_stays_within_its_bounds() -> None:
    logs = logs_of(np.array([[0.6, 0.4]] * 5))
    assert fit_sharpness(logs, np.zeros(5, np.int64)) == pytest.approx([20, 20], rel=1e-3)
    assert fit_sharpness(logs, np.ones(5, np.int64)) == pytest.approx([1 / 20, 1 / 20], abs=1e-3)


def test_calibration_keeps_the_class() -> None:
    known = walks(200, seed=3)
    shares = Temperatures.fit(known).apply(known.probabilities, known.place)
    assert np.array_equal(shares.argmax(axis=1), known.probabilities.argmax(axis=1))
    assert shares.sum(axis=1) == pytest.approx(1)


def test_a_probability_of_zero_for_the_truth_is_no_infinity() -> None:
    known = prefixes([np.array([[1.0, 0.0]], np.float32)] * 60, [0] * 30 + [1] * 30)
    assert Calibrated().fit(known).score(known) == pytest.approx(0.5, abs=0.31)
