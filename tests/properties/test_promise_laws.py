"""Laws of promises: p-values are p-values, worse samples never look better, no failed point is skipped."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvec.decide.bounds import BOUNDS, p_values
from kvec.decide.drift import Exchange, as_text, from_text
from kvec.decide.promise import ClassPromise, Promise
from kvec.decide.risk import Sample, first_failure

SHARES = st.floats(0.01, 0.6)
UNITS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=40)


def shares(units: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    keys = np.array([k for k, _ in units])
    return np.minimum([lost for _, lost in units], keys)[None] / 5, keys / 5


@given(UNITS, SHARES, SHARES)
def test_p_values_lie_between_0_and_1(units: list[tuple[int, int]], alpha: float, delta: float) -> None:
    lost, held = shares(units)
    for bound in ("betting", "hoeffding-bentkus"):
        (p,) = p_values(bound, lost, held, alpha, delta)
        assert 0 <= p <= 1


@given(UNITS, SHARES, SHARES)
def test_everything_lost_never_passes(units: list[tuple[int, int]], alpha: float, delta: float) -> None:
    _, held = shares(units)
    for bound in ("betting", "hoeffding-bentkus"):
        assert p_values(bound, held[None], held, alpha, delta)[0] == 1


@given(UNITS, SHARES, st.integers(0, 39))
def test_another_loss_never_makes_it_better(units: list[tuple[int, int]], alpha: float, where: int) -> None:
    lost, held = shares(units)
    worse = lost.copy()
    worse[0, where % len(units)] = held[where % len(units)]
    before, after = (p_values("hoeffding-bentkus", each, held, alpha, 0.05)[0] for each in (lost, worse))
    assert after >= before * (1 - 1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), SHARES)
def test_no_failed_point_is_skipped(p: list[float], delta: float) -> None:
    n = first_failure(np.array(p), delta)
    assert all(one <= delta for one in p[:n])
    assert n == len(p) or p[n] > delta


@given(st.integers(1, 60), st.integers(0, 2**32 - 1), st.sampled_from(BOUNDS))
def test_what_lies_behind_a_failure_does_not_matter(n_points: int, seed: int, bound: str) -> None:
    rng = np.random.default_rng(seed)
    losses = rng.binomial(1, rng.random((n_points, 1)) * 0.3, (n_points, 60))
    keys = np.ones(60, np.int64)
    n = Sample(losses, keys, 1).n_passed(bound, 0.15, 0.1)
    changed = losses.copy()
    changed[n + 1 :] = 0  # behind the first failure all is perfect
    assert Sample(changed, keys, 1).n_passed(bound, 0.15, 0.1) == n
    assert Sample(losses[:n], keys, 1).n_passed(bound, 0.15, 0.1) == n


@given(st.lists(st.floats(0, 1), max_size=60), st.integers(0, 60), st.integers(0, 1000))
def test_a_test_of_drift_survives_being_kept(values: list[float], cut: int, seed: int) -> None:
    chances = np.random.default_rng(seed).random(len(values))
    whole, kept = Exchange(np.arange(64)), Exchange(np.arange(64))
    for i, (value, chance) in enumerate(zip(values, chances, strict=True)):
        if i == cut:
            kept = Exchange.from_plain(json.loads(json.dumps(kept.to_plain())))
        assert whole.observe(value, chance) == kept.observe(value, chance)
    assert whole.to_plain() == kept.to_plain()


@given(st.lists(st.integers(0, 10**9), min_size=64, max_size=64))
def test_counts_come_back(counts: list[int]) -> None:
    assert from_text(as_text(np.array(counts))).tolist() == counts


@given(st.builds(ClassPromise, st.text(), st.booleans(), st.text(), *[st.integers(0)] * 3, SHARES, SHARES), SHARES)
def test_promises_come_back(one: ClassPromise, alpha: float) -> None:
    for block, classes in ((None, ()), (3600.0, (one, one))):
        promise = Promise(
            "error", "label", alpha, 0.95, "betting", {"threshold": 0.3}, 5, 2, 8, 100, 400, 0.01, 0.02, 0.3, block,
            "like before", classes, "2024-05-01", "ab", "cd", {"how": "1:2"},
        )  # fmt: skip
        assert Promise.from_dict(json.loads(json.dumps(promise.to_dict()))) == promise
