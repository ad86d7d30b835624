"""Each measure of §V and each stopping rule as a plain loop, compared with the real code."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvec.report import curves, metrics, trust
from kvec.report.curves import Traces

N_CLASSES = 4


@st.composite
def all_traces(draw: st.DrawFn) -> Traces:
    """Small traces; scores repeat often, and 0 and 1 occur, so that ties and ends are met."""
    length = draw(st.lists(st.integers(1, 9), min_size=1, max_size=12))
    n = sum(length)
    score = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.floats(0, 1))
    some_class = st.integers(0, N_CLASSES - 1)
    return Traces(
        offsets=np.cumsum([0, *length]),
        halt=np.array(draw(st.lists(score, min_size=n, max_size=n))),
        predicted=np.array(draw(st.lists(some_class, min_size=n, max_size=n))),
        confidence=np.array(draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))),
        truth=np.array(draw(st.lists(some_class, min_size=len(length), max_size=len(length)))),
        tangle=np.array(draw(st.lists(st.integers(0, 4), min_size=len(length), max_size=len(length)))),
    )


def slow_stop(halt: list[float], theta: float) -> int:
    for i, score in enumerate(halt):
        if score >= theta:
            return i + 1
    return len(halt)


def slow_stops(traces: Traces, theta: float) -> list[int]:
    pieces = [traces.halt[a:b].tolist() for a, b in zip(traces.offsets, traces.offsets[1:], strict=False)]
    return [slow_stop(piece, theta) for piece in pieces]


def slow_decided(traces: Traces, stops: list[int]) -> tuple[float, float]:
    """Accuracy and earliness when sequence s stops after stops[s] items."""
    right, seen = 0, 0.0
    for s, stop in enumerate(stops):
        start, end = int(traces.offsets[s]), int(traces.offsets[s + 1])
        right += int(traces.predicted[start + stop - 1] == traces.truth[s])
        seen += stop / (end - start)
    return right / len(stops), seen / len(stops)


def slow_hm(accuracy: float, earliness: float) -> float:
    if accuracy == 0 or earliness == 1:
        return 0.0
    return 2 / (1 / accuracy + 1 / (1 - earliness))


def slow_macro(truth: list[int], predicted: list[int]) -> tuple[float, float, float]:
    scores = []
    for c in sorted(set(truth) | set(predicted)):
        hits = sum(t == p == c for t, p in zip(truth, predicted, strict=True))
        wrongly = sum(p == c != t for t, p in zip(truth, predicted, strict=True))
        missed = sum(t == c != p for t, p in zip(truth, predicted, strict=True))
        precision = hits / (hits + wrongly) if hits + wrongly else 0.0
        recall = hits / (hits + missed) if hits + missed else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        scores.append((precision, recall, f1))
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))  # type: ignore[return-value]


@given(all_traces(), st.floats(0, 1))
def test_stopping_at_a_threshold(traces: Traces, theta: float) -> None:
    for chosen in (theta, 0.0, 0.5, 1.0, float(traces.halt[0])):
        assert curves.stop_at_threshold(traces, chosen).tolist() == slow_stops(traces, chosen)


@given(all_traces(), st.integers(1, 12))
def test_stopping_after_fixed_n(traces: Traces, n: int) -> None:
    stops = [min(n, int(length)) for length in traces.length]
    assert curves.stop_at_fixed(traces, n).tolist() == stops
    right, late = slow_decided(traces, stops)
    curve = curves.fixed_curve(traces, [n])
    assert (curve.accuracy[0], curve.earliness[0]) == pytest.approx((right, late))
    assert curves.accuracy_by_items(traces, [n])[0] == pytest.approx(right)


@given(all_traces(), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_curve_is_the_measures_at_each_threshold(traces: Traces, thetas: list[float]) -> None:
    for curve in (curves.threshold_curve(traces, [*thetas, *traces.halt]), curves.threshold_curve(traces)):
        for theta, late, right, hm in zip(curve.setting, curve.earliness, curve.accuracy, curve.hm, strict=True):
            slow_right, slow_late = slow_decided(traces, slow_stops(traces, theta))
            assert (right, late) == pytest.approx((slow_right, slow_late))
            assert hm == pytest.approx(slow_hm(slow_right, slow_late), abs=1e-9)


@given(all_traces())
def test_best_threshold_beats_every_other(traces: Traces) -> None:
    points = [slow_decided(traces, slow_stops(traces, theta)) for theta in [*traces.halt, 1.0]]
    theta, hm = curves.best_threshold(traces)
    right, late = slow_decided(traces, slow_stops(traces, theta))
    assert 0 <= theta <= 1
    assert hm == pytest.approx(slow_hm(right, late), abs=1e-9)
    assert hm == pytest.approx(max(slow_hm(*point) for point in points), abs=1e-9)
    assert right >= max(r for r, e in points if slow_hm(r, e) > hm - 1e-13) - 1e-9


@given(all_traces())
def test_best_fixed_n_beats_every_other(traces: Traces) -> None:
    sizes = range(1, int(traces.length.max()) + 1)
    every = [slow_hm(*slow_decided(traces, [min(n, int(k)) for k in traces.length])) for n in sizes]
    n, hm = curves.best_fixed(traces)
    assert hm == pytest.approx(max(every), abs=1e-9)
    assert every[n - 1] == pytest.approx(hm, abs=1e-9)


@given(all_traces())
def test_summary_is_its_parts(traces: Traces) -> None:
    n_observed = curves.stop_at_threshold(traces, 0.5)
    predicted, _ = traces.decided(n_observed)
    summary = metrics.summarise(traces.truth, predicted, n_observed, traces.length, traces.tangle, N_CLASSES, draws=20)
    right, late = slow_decided(traces, slow_stops(traces, 0.5))
    macro = slow_macro(traces.truth.tolist(), predicted.tolist())
    assert (summary.accuracy, summary.earliness) == pytest.approx((right, late))
    assert summary.hm == pytest.approx(slow_hm(right, late), abs=1e-9)
    assert (summary.precision, summary.recall, summary.f1) == pytest.approx(macro)
    assert (summary.n_keys, summary.n_tangles) == (traces.truth.size, len(set(traces.tangle.tolist())))
    assert summary.mean_n_observed == pytest.approx(sum(n_observed.tolist()) / traces.truth.size)


@given(all_traces())
def test_class_table_and_confusion(traces: Traces) -> None:
    predicted, _ = traces.decided(traces.length)
    truth, given_class = traces.truth.tolist(), predicted.tolist()
    matrix = [[0] * N_CLASSES for _ in range(N_CLASSES)]
    for t, p in zip(truth, given_class, strict=True):
        matrix[t][p] += 1
    assert metrics.confusion_matrix(traces.truth, predicted, N_CLASSES).tolist() == matrix
    halves = (traces.length + 1) // 2
    for c, row in enumerate(metrics.per_class(traces.truth, predicted, halves, traces.length, N_CLASSES)):
        ratios = [h / k for h, k, t in zip(halves.tolist(), traces.length.tolist(), truth, strict=True) if t == c]
        support, n_predicted = sum(matrix[c]), sum(line[c] for line in matrix)
        assert (row.support, row.n_predicted) == (support, n_predicted)
        assert row.precision == pytest.approx(matrix[c][c] / n_predicted if n_predicted else 0)
        assert row.recall == pytest.approx(matrix[c][c] / support if support else 0)
        assert row.f1 == pytest.approx(2 * matrix[c][c] / (support + n_predicted) if support + n_predicted else 0)
        assert row.earliness == (pytest.approx(sum(ratios) / support) if support else None)


@given(all_traces(), st.integers(0, 3))
def test_bootstrap_is_the_measures_of_resampled_tangles(traces: Traces, seed: int) -> None:
    n_observed = curves.stop_at_threshold(traces, 0.5)
    predicted, _ = traces.decided(n_observed)
    drawn = metrics.bootstrap(
        traces.truth, predicted, n_observed, traces.length, traces.tangle, N_CLASSES, draws=3, seed=seed
    )
    names = sorted(set(traces.tangle.tolist()))
    picks = np.random.default_rng(seed).integers(0, len(names), (3, len(names)))
    for draw, pick in enumerate(picks.tolist()):
        rows = [s for g in pick for s in range(traces.truth.size) if traces.tangle[s] == names[g]]
        truth, given_class = traces.truth[rows].tolist(), predicted[rows].tolist()
        right = sum(t == p for t, p in zip(truth, given_class, strict=True)) / len(rows)
        late = sum(int(n_observed[s]) / int(traces.length[s]) for s in rows) / len(rows)
        slow = (right, *slow_macro(truth, given_class), late, slow_hm(right, late))
        assert [drawn[name][draw] for name in metrics.MEASURES] == pytest.approx(list(slow), abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40), st.integers(1, 12))
def test_reliability_by_bins(decisions: list[tuple[float, bool]], bins: int) -> None:
    table = trust.reliability([c for c, _ in decisions], [r for _, r in decisions], bins)
    held: dict[int, list[tuple[float, bool]]] = {}
    for confidence, is_right in decisions:
        held.setdefault(min(int(confidence * bins), bins - 1), []).append((confidence, is_right))
    rows = [held[b] for b in sorted(held)]
    assert table.count.tolist() == [len(row) for row in rows]
    assert table.confidence.tolist() == pytest.approx([sum(c for c, _ in row) / len(row) for row in rows])
    assert table.accuracy.tolist() == pytest.approx([sum(r for _, r in row) / len(row) for row in rows])
    slow = sum(abs(sum(c for c, _ in row) - sum(r for _, r in row)) for row in rows) / len(decisions)
    assert table.error == pytest.approx(slow)
    assert table.brier == pytest.approx(sum((c - r) ** 2 for c, r in decisions) / len(decisions))
    assert ((table.low <= table.accuracy) & (table.accuracy <= table.high)).all()


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.5, 0.7, 0.9]), st.booleans()), min_size=1, max_size=20))
def test_coverage_takes_the_surest(decisions: list[tuple[float, bool]]) -> None:
    curve = trust.coverage_curve([c for c, _ in decisions], [r for _, r in decisions])
    for share, right, least in zip(curve.share, curve.accuracy, curve.confidence, strict=True):
        taken = [r for c, r in decisions if c >= least]
        assert share == pytest.approx(len(taken) / len(decisions)) and right == pytest.approx(sum(taken) / len(taken))
    assert curve.confidence.tolist() == sorted({c for c, _ in decisions}, reverse=True)


@given(all_traces(), st.sampled_from([0.25, 0.5, 1.0]))
def test_trust_looks_at_decisions_by_halting(traces: Traces, theta: float) -> None:
    traces = replace(traces, untempered=traces.confidence**2)
    found = trust.trust(traces, theta)
    stops, rows, squares = slow_stops(traces, theta), [], []
    halts = [any(h >= theta for h in traces.halt[a:b]) for a, b in itertools.pairwise(traces.offsets.tolist())]
    for s, stop in enumerate(stops):
        at = int(traces.offsets[s]) + stop - 1
        if halts[s] or not any(halts):
            rows.append((float(traces.confidence[at]), bool(traces.predicted[at] == traces.truth[s])))
            squares.append((float(traces.confidence[at]) ** 2, rows[-1][1]))
    assert found.is_of_halts == any(halts)
    assert found.after.brier == pytest.approx(sum((c - r) ** 2 for c, r in rows) / len(rows))
    assert found.before is not None
    assert found.before.brier == pytest.approx(sum((c - r) ** 2 for c, r in squares) / len(rows))
    assert found.coverage.share[-1] == 1


@given(all_traces(), st.integers(0, 3), st.data())
def test_what_is_not_known_counts_as_wrong_and_is_given_no_class(
    traces: Traces, seed: int, data: st.DataObject
) -> None:
    n = traces.truth.size
    known = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    predicted, _ = traces.decided(traces.length)
    found = metrics.summarise(
        traces.truth, predicted, traces.length, traces.length, traces.tangle, N_CLASSES, 3, seed, known
    )
    right = [bool(t == p and k) for t, p, k in zip(traces.truth, predicted, known, strict=True)]
    assert found.accuracy == pytest.approx(sum(right) / n)
    assert found.coverage == pytest.approx(known.sum() / n)
    assert found.known_accuracy == pytest.approx(sum(right) / max(known.sum(), 1))
    for c, score in enumerate(
        metrics.per_class(traces.truth, predicted, traces.length, traces.length, N_CLASSES, known)
    ):
        assert score.support == (traces.truth == c).sum()
        assert score.n_predicted == ((predicted == c) & known).sum()
    everything = metrics.summarise(
        traces.truth, predicted, traces.length, traces.length, traces.tangle, N_CLASSES, 3, seed, np.ones(n, bool)
    )
    before = metrics.summarise(traces.truth, predicted, traces.length, traces.length, traces.tangle, N_CLASSES, 3, seed)
    assert replace(everything, intervals=before.intervals) == before and everything.coverage == 1
    expected = {*metrics.MEASURES, *metrics.ABSTAINING} if found.n_tangles > 1 else set()
    assert set(found.intervals) == expected
    for name, (low, high) in found.intervals.items():
        assert 0 <= low <= getattr(found, name) <= high <= 1 + 1e-12


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.2, 0.5, 0.9])), max_size=12))
def test_area_under_roc_counts_pairs(cases: list[tuple[bool, float]]) -> None:
    pairs = [(a, b) for is_a, a in cases if is_a for is_b, b in cases if not is_b]
    found = metrics.area_under_roc([is_true for is_true, _ in cases], [score for _, score in cases])
    if not pairs:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs))
