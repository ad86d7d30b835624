"""Tests of exchangeability: even p-values, few false alarms for ever, and soon an alarm when something changes."""

from __future__ import annotations

import numpy as np

from kvec.decide.drift import CLASS, LATE, SURE, Exchange, from_text, lateness, reference, sureness


def observed(rng: np.random.Generator, new: np.ndarray, n_known: int = 100) -> tuple[Exchange, list[float]]:
    test = Exchange(np.bincount((rng.beta(2, 5, n_known) * 64).astype(int), minlength=64))
    return test, [test.observe(value, rng.random()) for value in new]


def test_p_values_are_even_where_nothing_changes() -> None:
    rng = np.random.default_rng(0)
    p = np.concatenate([observed(rng, rng.beta(2, 5, 50))[1] for _ in range(100)])
    found = np.histogram(p, 10, (0, 1))[0]
    assert abs(found - 500).max() < 90


def test_few_false_alarms_for_ever() -> None:
    rng = np.random.default_rng(1)
    n_false = sum(observed(rng, rng.beta(2, 5, 400), 60)[0].largest >= 20 for _ in range(400))
    assert n_false <= 33, "δ = 0.05: 20, and three standard deviations"


def test_values_that_are_all_alike_raise_none() -> None:
    test, _ = observed(np.random.default_rng(2), np.zeros(300))
    test = Exchange(np.array([300] + [0] * 63))
    for _ in range(300):
        test.observe(0.0, 0.5)
    assert test.largest < 20


def test_a_change_is_seen_early_or_late() -> None:
    rng = np.random.default_rng(3)
    for calm in (0, 300):
        values = np.append(rng.beta(2, 5, calm), rng.beta(5, 2, 100))
        assert observed(rng, values, 200)[0].largest > 1000


def test_scales() -> None:
    assert [sureness(p) for p in (0.0, 0.5, 0.75, 1.0)] == [0, 1 / 16, 2 / 16, 1]
    assert [lateness(n) for n in (1, 2, 256, 10**9)] == [0, 1 / 16, 0.5, 1]


def test_a_reference_counts_units() -> None:
    kept = reference(
        np.array([7, 7, 9]), np.array([0.5, 0.75, 1.0]), np.array([1, 4, 2]), np.array([0, 1, 1]), ("x", "y")
    )
    assert kept == {SURE: "6:1 63:1", LATE: "4:2", f"{CLASS}'x'": "0:1 32:1", f"{CLASS}'y'": "32:1 63:1"}
    assert from_text(kept[LATE]).sum() == 2
