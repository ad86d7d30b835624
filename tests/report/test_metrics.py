import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvec.report import metrics
from kvec.words.errors import DataError

shares = st.floats(0, 1)


@given(shares, shares)
def test_hm_lies_between_0_and_1_and_below_its_larger_part(accuracy: float, earliness: float) -> None:
    hm = metrics.harmonic_mean(accuracy, earliness)
    assert 0 <= hm <= max(accuracy, 1 - earliness) + 1e-12
    assert metrics.harmonic_means(np.array([accuracy]), np.array([earliness]))[0] == hm


def test_known_cases() -> None:
    assert metrics.harmonic_mean(0.0, 1.0) == 0.0
    assert metrics.harmonic_mean(1.0, 0.0) == 1.0
    # class 0: one hit, one false alarm; class 1: missed; class 2: hit; class 3 does not occur
    assert metrics.macro_scores([0, 1, 2], [0, 0, 2], 4) == pytest.approx((0.5, 2 / 3, 5 / 9))
    assert metrics.earliness([1, 10], [2, 10]) == 0.75  # mean of ratios, not ratio of means


@st.composite
def decisions(draw: st.DrawFn) -> dict[str, list[int]]:
    n = draw(st.integers(1, 30))
    length = draw(st.lists(st.integers(1, 50), min_size=n, max_size=n))
    some_class = st.lists(st.integers(0, 5), min_size=n, max_size=n)
    return {
        "truth": draw(some_class),
        "predicted": draw(some_class),
        "n_observed": [draw(st.integers(1, k)) for k in length],
        "length": length,
        "tangle": draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)),
    }


@given(decisions(), st.integers(0, 5))
def test_intervals_hold_the_point(given_decisions: dict[str, list[int]], seed: int) -> None:
    summary = metrics.summarise(**given_decisions, n_classes=6, draws=50, seed=seed)
    assert set(summary.intervals) == (set(metrics.MEASURES) if summary.n_tangles > 1 else set())
    for name, (low, high) in summary.intervals.items():
        assert 0 <= low <= getattr(summary, name) <= high <= 1 + 1e-12


@given(decisions(), st.randoms())
def test_order_of_sequences_and_names_of_tangles_do_not_matter(given_decisions, random) -> None:
    order = list(range(len(given_decisions["truth"])))
    random.shuffle(order)
    mixed = {name: [values[i] for i in order] for name, values in given_decisions.items()}
    mixed["tangle"] = [100 + t for t in mixed["tangle"]]
    first = metrics.summarise(**given_decisions, n_classes=6, draws=20).to_dict()
    second = metrics.summarise(**mixed, n_classes=6, draws=20).to_dict()
    for name, ends in first.pop("intervals").items():
        assert second["intervals"][name] == pytest.approx(ends)
    second.pop("intervals")
    assert second == pytest.approx(first)


def test_one_tangle_has_no_spread_and_more_tangles_have_less() -> None:
    rng = np.random.default_rng(1)
    widths = []
    assert not metrics.summarise([1], [1], [1], [2], [0], 2, draws=400).intervals, "nothing is known of its spread"
    for n in (20, 2000):
        right = (rng.random(n) < 0.7).astype(int)
        ones = np.ones(n, int)
        summary = metrics.summarise(ones, right, ones, 2 * ones, np.arange(n), 2, draws=400)
        low, high = summary.intervals["accuracy"]
        widths.append(high - low)
    assert widths[0] > widths[1] > 0
    assert widths[1] == pytest.approx(2 * 1.96 * (0.7 * 0.3 / 2000) ** 0.5, rel=0.2)  # the binomial interval


def test_sequences_of_one_tangle_are_drawn_together() -> None:
    truth = np.ones(200, int)
    predicted = np.repeat(np.arange(20) % 2, 10)  # all ten sequences of a tangle share their fate
    ones = np.ones(200, int)
    spread = [
        np.std(metrics.bootstrap(truth, predicted, ones, ones, tangle, 2, draws=400)["accuracy"])
        for tangle in (np.repeat(np.arange(20), 10), np.arange(200))
    ]
    assert spread[0] == pytest.approx(spread[1] * 10**0.5, rel=0.2)


def test_draws_in_chunks_are_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    truth, predicted, tangle = rng.integers(0, 3, (3, 50))
    ones = np.ones(50, int)
    whole = metrics.bootstrap(truth, predicted, ones, 2 * ones, tangle, 3, draws=30)
    monkeypatch.setattr(metrics, "_CHUNK", 10)
    for name, values in metrics.bootstrap(truth, predicted, ones, 2 * ones, tangle, 3, draws=30).items():
        np.testing.assert_array_equal(values, whole[name])


def test_summary_as_json() -> None:
    summary = metrics.summarise([0, 1], [0, 1], [1, 2], [2, 2], [0, 1], 2, draws=10)
    plain = json.loads(json.dumps(summary.to_dict()))
    assert list(plain) == [
        "accuracy", "precision", "recall", "f1", "earliness", "hm", "coverage", "known_accuracy",
        "n_keys", "n_tangles", "mean_n_observed", "intervals",
    ]  # fmt: skip
    assert plain["intervals"]["accuracy"] == [1.0, 1.0]
    assert metrics.summarise([0], [0], [1], [1], [0], 1, draws=0).intervals == {}


def test_nothing_to_measure_and_unknown_classes_are_refused() -> None:
    with pytest.raises(DataError, match="no sequence"):
        metrics.summarise([], [], [], [], [], 2)
    with pytest.raises(ValueError, match="from 0 to 1; found 0 to 2"):
        metrics.macro_scores([0, 2], [0, 1], 2)


def test_an_interval_is_widened_to_hold_its_point() -> None:
    drawn = np.linspace(0.2, 0.4, 1001)
    assert metrics.interval(drawn, 0.3) == pytest.approx((0.205, 0.395))
    assert metrics.interval(drawn, 0.5) == pytest.approx((0.205, 0.5))
    assert metrics.interval(drawn, 0.1) == pytest.approx((0.1, 0.395))
