"""Bounds beside SciPy's binomial, and how often they are wrong where the risk is exactly α."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kvec.decide.bounds import binomial, p_values
from kvec.words.errors import SettingError

MOST = 129  # of 2,000 draws at δ = 0.05: three standard deviations above 100


@pytest.mark.parametrize("n", [1, 40, 3000])
def test_binomial_is_scipys(n: int) -> None:
    losses = np.unique(np.linspace(0, n, 50).astype(int))
    for alpha in (1e-4, 0.02, 0.5, 0.99):
        assert binomial(losses, n, alpha) == pytest.approx(stats.binom.cdf(losses, n, alpha), rel=1e-7, abs=1e-300)


@pytest.mark.parametrize("alpha", [0.03, 0.2])
@pytest.mark.parametrize("bound", ["betting", "hoeffding-bentkus", "binomial"])
def test_one_sequence_per_unit(bound: str, alpha: float) -> None:
    rng = np.random.default_rng(4)
    lost = (rng.random((2000, 200)) < alpha).astype(float)
    n_wrong = int((p_values(bound, lost, np.ones(200), alpha, 0.05) <= 0.05).sum())
    assert n_wrong <= MOST


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("bound", ["betting", "hoeffding-bentkus"])
def test_many_sequences_per_unit(bound: str, together: bool) -> None:
    rng = np.random.default_rng(5)
    keys = rng.integers(1, 9, (2000, 200))
    chance = 0.1 * keys * 4.5 / 25.5  # larger units are riskier: E[L] / E[K] is 0.1 all the same
    losses = np.where(rng.random(keys.shape) < chance, keys, 0) if together else rng.binomial(keys, chance)
    n_wrong = int((p_values(bound, losses / 8, keys / 8, 0.1, 0.05) <= 0.05).sum())
    assert n_wrong <= MOST


def test_betting_is_nearly_as_sharp_as_the_exact_bound_and_sharper_than_the_other() -> None:
    rng = np.random.default_rng(6)
    lost, held = (rng.random((2000, 116)) < 0.05).astype(float), np.ones(116)
    exact, bets, other = (
        np.mean(p_values(bound, lost, held, 0.1, 0.05) <= 0.05)
        for bound in ("binomial", "betting", "hoeffding-bentkus")
    )
    assert exact - 0.1 < bets < exact + 0.01
    assert other < bets - 0.1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match="exactly one sequence in every unit; use betting"):
        p_values("binomial", np.zeros((1, 3)), np.array([1, 0.5, 1]), 0.1, 0.05)
    with pytest.raises(SettingError, match="'guess'; it can be betting, hoeffding-bentkus, binomial"):
        p_values("guess", np.zeros((1, 3)), np.ones(3), 0.1, 0.05)
