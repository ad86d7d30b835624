"""The bounds beside their plain definitions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.paper.slow_promise import slow_betting, slow_binomial, slow_choice, slow_hoeffding_bentkus

from kvec.decide.bounds import betting, binomial, hoeffding_bentkus, mapped
from kvec.decide.guarantee import Calibration
from kvec.decide.risk import Sample, units_needed


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9])
def test_binomial(alpha: float) -> None:
    for n in (1, 7, 60):
        real = binomial(np.arange(n + 1), n, alpha)
        assert real == pytest.approx([float(slow_binomial(k, n, Fraction(alpha))) for k in range(n + 1)], rel=1e-9)


@pytest.mark.parametrize("alpha", [0.02, 0.2, 0.6])
def test_hoeffding_bentkus(alpha: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.beta(0.3, 0.3 / alpha, (20, 40)).clip(0, 1)
    x[0] = 0
    assert hoeffding_bentkus(x, alpha) == pytest.approx([slow_hoeffding_bentkus(row.tolist(), alpha) for row in x])


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.4])
def test_betting(alpha: float) -> None:
    rng = np.random.default_rng(1)
    keys = rng.integers(1, 6, 120)
    losses = rng.binomial(keys, [[0.0], [alpha / 3], [alpha], [2 * alpha]])
    for delta in (0.05, 0.001):
        slow = [slow_betting(row.tolist(), keys.tolist(), 5, alpha, delta) for row in losses]
        assert betting(losses / 5, keys / 5, alpha, delta) == pytest.approx(slow, rel=2e-3)


def test_rows_may_have_their_own_alpha() -> None:
    lost = np.zeros((3, 50))
    alphas = np.array([0.01, 0.05, 0.2])
    held = np.ones(50)
    one_by_one = [betting(lost[:1], held, alpha, 0.05)[0] for alpha in alphas]
    assert betting(lost, held, alphas, 0.05) == pytest.approx(one_by_one)
    assert hoeffding_bentkus(mapped(lost, held, alphas), alphas) == pytest.approx((1 - alphas) ** 50)


def test_points_are_tested_in_their_order() -> None:
    rng = np.random.default_rng(2)
    losses = rng.binomial(1, np.linspace(0, 0.3, 100)[:, None], (100, 80))
    sample = Sample(losses, np.ones(80, np.int64), 1)
    p = [float(slow_binomial(int(row.sum()), 80, Fraction(1, 10))) for row in losses]
    assert sample.n_passed("binomial", 0.1, 0.05) == slow_choice(p, 0.05) > 1


def test_the_fewest_units_without_a_loss() -> None:
    for alpha, delta in ((0.02, 0.05), (0.1, 0.05), (0.1, 0.01), (0.5, 0.3)):
        fewest = next(n for n in range(1, 1000) if (1 - alpha) ** n <= delta)
        for bound in ("betting", "hoeffding-bentkus", "binomial"):
            assert units_needed(bound, np.ones(1, np.int64), alpha, delta, 1) == fewest


def test_losses_are_counted_by_unit() -> None:
    """What a loss is, and how units are made of sequences, by hand."""
    rng = np.random.default_rng(3)
    n_points, n = 4, 30
    length = rng.integers(1, 9, n)
    stops = np.minimum(rng.integers(1, 9, (n_points, n)), length)
    is_right = rng.random((n_points, n)) < 0.5
    at_end = rng.random(n) < 0.7
    is_right = np.where(stops == length, at_end, is_right)
    unit = rng.integers(10, 16, n)
    points = [{"threshold": 1 - p / 10} for p in range(n_points)]
    made = Calibration(points, stops, is_right, length, at_end, np.zeros(n, np.int64), unit)
    for kind in ("error", "early error"):
        sample = made.sample(kind, 30)
        found = sorted(zip(sample.keys.tolist(), *sample.losses.tolist(), strict=True))
        plain = []
        for name in sorted(set(unit.tolist())):
            members = [s for s in range(n) if unit[s] == name]
            lost = [
                sum(
                    not is_right[p, s] and (kind == "error" or (at_end[s] and stops[p, s] < length[s])) for s in members
                )
                for p in range(n_points)
            ]
            plain.append((len(members), *lost))
        assert found == sorted(plain)
