import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report import made

from kvec.report import curves
from kvec.report.curves import Curve, Traces
from kvec.words.errors import DataError

TRACES = st.builds(made.traces, n_sequences=st.integers(1, 80), seed=st.integers(0, 1000))


@given(TRACES, st.floats(0, 1), st.integers(1, 60))
def test_every_sequence_is_seen_in_part_or_whole(traces: Traces, theta: float, n: int) -> None:
    for n_observed in (curves.stop_at_threshold(traces, theta), curves.stop_at_fixed(traces, n)):
        assert n_observed.shape == traces.truth.shape
        assert np.all((n_observed >= 1) & (n_observed <= traces.length))


@given(TRACES, st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_a_higher_threshold_never_stops_earlier(traces: Traces, thetas: list[float]) -> None:
    curve = curves.threshold_curve(traces, sorted(thetas))
    assert np.all(np.diff(curve.earliness) >= 0)
    assert np.all((curve.hm >= 0) & (curve.hm <= 1))


@given(TRACES)
def test_own_choice_of_thresholds_covers_the_range(traces: Traces) -> None:
    curve = curves.threshold_curve(traces)
    assert 1 <= curve.setting.size <= curves.MOST_POINTS
    assert np.all(np.diff(curve.setting) > 0)
    assert curve.earliness[0] == pytest.approx(np.mean(1 / traces.length))  # everything is decided at once
    assert curve.earliness[-1] == pytest.approx(1)  # everything is read to its end
    assert curve.accuracy[-1] == pytest.approx(curves.accuracy_at_end(traces))
    steps = np.diff(curve.earliness)
    assert steps.size == 0 or steps.max() <= 0.02 + 2 / traces.truth.size


def one(halt: list[float], predicted: list[int], truth: int = 1) -> Traces:
    n = len(halt)
    return Traces(np.array([0, n]), np.array(halt), np.array(predicted), np.ones(n), np.array([truth]), np.array([0]))


def test_best_threshold_lies_midway_between_scores() -> None:
    theta, hm = curves.best_threshold(one([0.1, 0.5, 0.3, 0.9], [0, 1, 1, 1]))
    assert theta == pytest.approx(0.3)
    assert hm == pytest.approx(2 * 0.5 / 1.5)


def test_score_of_one_halts_at_every_threshold() -> None:
    traces = one([0.2, 1.0, 0.3, 0.4], [0, 0, 0, 1])
    assert curves.stop_at_threshold(traces, 1.0).tolist() == [2]
    curve = curves.threshold_curve(traces)
    assert curve.setting.max() <= 1
    assert curve.earliness.tolist() == [0.25, 0.5]  # no threshold reaches the end


def test_single_precision_scores_are_compared_exactly() -> None:
    score = np.float32(0.1)  # a little above 0.1
    traces = Traces(
        np.array([0, 2]), np.array([score, 1], np.float32), np.zeros(2), np.ones(2), np.zeros(1), np.zeros(1)
    )
    assert curves.stop_at_threshold(traces, 0.1).tolist() == [1]
    assert curves.stop_at_threshold(traces, 0.10000000149012).tolist() == [2]


def test_fixed_rule_by_default_reaches_from_one_item_to_the_end() -> None:
    n = 5000
    traces = one([0.5] * n, [0] * (n - 1) + [1])
    curve = curves.fixed_curve(traces)
    assert (curve.setting[0], curve.setting[-1]) == (1, n)
    assert curve.setting.size < 300
    assert curve.accuracy[-1] == 1 and curve.accuracy[:-1].max() == 0


def test_reading_a_curve_between_and_beyond_its_points() -> None:
    curve = Curve(np.array([0.2, 0.6]), np.array([0.1, 0.3]), np.array([0.5, 0.9]), np.array([0.6, 0.8]))
    assert curve.accuracy_at(0.2) == pytest.approx(0.7)
    assert np.isnan(curve.accuracy_at(0.05)) and np.isnan(curve.accuracy_at(0.4))


def test_equal_hm_goes_to_the_larger_accuracy() -> None:
    curve = Curve(np.arange(3.0), np.array([0.1, 0.5, 0.6]), np.array([0.5, 0.9, 0.1]), np.array([0.64, 0.64, 0.2]))
    assert curve.best() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 3])}, "offsets"),
        ({"offsets": np.array([0, 4, 4]), "truth": np.zeros(2), "tangle": np.zeros(2)}, "empty"),
        ({"predicted": np.zeros(3)}, "differ in size"),
        ({"halt": np.array([0.1, np.nan, 0.2, 0.3])}, "between 0 and 1"),
        ({"halt": np.array([0.1, 1.5, 0.2, 0.3])}, "between 0 and 1"),
    ],
)
def test_traces_that_do_not_fit_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    fine = {
        "offsets": np.array([0, 4]), "halt": np.full(4, 0.5), "predicted": np.zeros(4), "confidence": np.ones(4),
        "truth": np.zeros(1), "tangle": np.zeros(1),
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        Traces(**(fine | change))


@pytest.mark.parametrize("look", [curves.best_threshold, curves.best_fixed, curves.threshold_curve, curves.fixed_curve])
def test_no_sequence_no_curve(look) -> None:
    with pytest.raises(DataError, match="no labelled sequence"):
        look(Traces(np.array([0]), *(np.zeros(0) for _ in range(5))))
