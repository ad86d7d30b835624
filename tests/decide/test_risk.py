"""Samples of units: how many are needed, upper bounds, and that one point's bound holds."""

from __future__ import annotations

import numpy as np
import pytest

from kvec.decide.risk import Sample, units_needed


def sample(losses: list[list[int]], n: int, most_keys: int = 1) -> Sample:
    """Units of `most_keys` sequences, the first few of which are lost."""
    found = np.zeros((len(losses), n), np.int64)
    for row, some in zip(found, losses, strict=True):
        row[: len(some)] = some
    return Sample(found, np.full(n, most_keys, np.int64), most_keys)


def test_how_many_are_missing() -> None:
    few = sample([[0]], 148)
    assert few.n_needed("betting", 0.02, 0.05) == 149
    assert sample([[0]], 149).n_needed("betting", 0.02, 0.05) == 0
    assert Sample(np.zeros((1, 0), np.int64), np.zeros(0, np.int64), 4).n_needed("betting", 0.1, 0.05) > 29


def test_smaller_units_say_less() -> None:
    """With half of K_max in every unit, about twice as many are needed."""
    half = units_needed("betting", np.array([4]), 0.05, 0.05, 8)
    assert 2 * 59 - 4 <= half <= 2 * 59 + 4
    assert units_needed("hoeffding-bentkus", np.array([4]), 0.05, 0.05, 8) > half


@pytest.mark.parametrize("bound", ["betting", "hoeffding-bentkus", "binomial"])
def test_upper_bounds(bound: str) -> None:
    none, some, all_of_them = (sample([[1] * n], 200).upper(0, bound, 0.05) for n in (0, 10, 200))
    assert none == pytest.approx(1 - 0.05 ** (1 / 200), rel=0.05)
    assert 0.05 < some < 0.12
    assert all_of_them == 1


def test_an_upper_bound_holds() -> None:
    rng = np.random.default_rng(7)
    n_wrong = 0
    for _ in range(200):
        keys = rng.integers(1, 5, 120)
        losses = np.where(rng.random(120) < 0.07, keys, 0)
        n_wrong += Sample(losses[None], keys, 4).upper(0, "betting", 0.05) < 0.07
    assert n_wrong <= 19


def test_many_points_are_tested_in_parts() -> None:
    perfect = sample([[0]] * 100, 60)
    assert perfect.n_passed("betting", 0.1, 0.05) == 100
    spoiled = Sample(perfect.losses.copy(), perfect.keys, 1)
    spoiled.losses[70] = 1
    assert spoiled.n_passed("betting", 0.1, 0.05) == 70


def test_very_many_units_are_not_counted_out() -> None:
    """Where K_max is said to be far above what occurs, a number is told that none below is enough."""
    keys = np.array([6, 4, 8])
    assert 2**12 <= (least := units_needed("betting", keys, 0.1, 0.05, 1_000_000)) < 10**7
    few = units_needed("betting", keys, 0.1, 0.05, 600)
    assert least == pytest.approx(few * 1_000_000 / 600, rel=0.25)
