from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student
from tests.reproduce import made

from kvec.report.metrics import harmonic_mean
from kvec.reproduce import curves
from kvec.reproduce.results import Results, read_results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder: Path = tmp_path_factory.mktemp("results")
    return read_results(made.Made().curves("traffic-fg", (0, 1, 2)).sensitivity("traffic-fg", (0,)).write(folder))


def slow_height(x: list[float], y: list[float], at: float) -> float:
    """By search for the two neighbours."""
    for left, right, low, high in zip(x, x[1:], y, y[1:], strict=False):
        if left <= at <= right:
            return low + (high - low) * (at - left) / (right - left)
    return float("nan")


def test_a_line_is_what_a_slow_loop_makes_of_its_points() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        x, y = random.random(9).round(1), random.random(9)
        line = curves.straight(x, y)
        merged = sorted({float(v): float(np.mean(y[x == v])) for v in x}.items())
        xs, ys = [p[0] for p in merged], [p[1] for p in merged]
        at = random.random(50) * 1.2 - 0.1
        np.testing.assert_allclose(line.at(at), [slow_height(xs, ys, v) for v in at])
        low, high = xs[0] + 0.1 * (xs[-1] - xs[0]), xs[-1]
        middles = low + (np.arange(20_000) + 0.5) * (high - low) / 20_000
        assert line.mean(low, high) == pytest.approx(np.mean([slow_height(xs, ys, v) for v in middles[::20]]), abs=1e-3)
        assert line.mean(low, high) == pytest.approx(np.mean(line.at(middles)), abs=1e-6)


def test_a_line_has_no_height_beyond_its_ends() -> None:
    line = curves.straight([0.5, 0.2], [1.0, 0.0])
    assert np.isnan(line.at([0.1, 0.6])).all() and float(line.at(0.35)) == pytest.approx(0.5)
    assert line.mean(0.35, 0.35) == pytest.approx(0.5)


def test_hm_of_a_line_is_that_of_its_accuracy_everywhere() -> None:
    line = curves.straight([0.1, 1.0], [0.4, 0.9])
    hm = curves.as_hm(line)
    for x in (0.1, 0.3, 0.55, 0.9, 1.0):
        assert float(hm.at(x)) == pytest.approx(harmonic_mean(float(line.at(x)), x), abs=1e-5)
    assert curves.as_hm(curves.straight([0.1], [0.4])).height[0] == pytest.approx(harmonic_mean(0.4, 0.1))


@pytest.mark.parametrize("n", [2, 3, 5, 31])
def test_interval_is_students(n: int) -> None:
    values = np.random.default_rng(n).normal(0.3, 0.1, n)
    found = curves.spread(values)
    low, high = student.interval(0.95, n - 1, values.mean(), values.std(ddof=1) / n**0.5)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-4)
    assert (found.mean, found.sd, found.n) == pytest.approx((values.mean(), values.std(ddof=1), n))
    assert (found.least, found.most) == (values.min(), values.max())


def test_one_seed_has_no_interval() -> None:
    found = curves.spread([0.3])
    assert np.isnan(found.low) and not found.is_positive and found.sd == 0 and found.n == 1


def test_band_is_mean_and_deviation_at_each_place() -> None:
    lines = {0: curves.straight([0.0, 1.0], [0.0, 1.0]), 1: curves.straight([0.5, 1.0], [1.0, 1.0])}
    band = curves.band(lines, np.array([0.25, 0.5, 1.0]))
    assert np.isnan(band.mean[0]) and band.mean[1:].tolist() == [0.75, 1.0]
    assert band.sd[1] == pytest.approx(np.std([0.5, 1.0], ddof=1))


def test_a_swept_method_is_anchored_at_first_item_and_end(results: Results) -> None:
    line = curves.lines_of(results, "traffic-fg", "srn-earliest")[1]
    assert line.earliness.tolist() == pytest.approx([0.02, 0.03, 0.15, 0.27, 0.39, 1.0])
    wanted = [made.accuracy("srn-earliest", x, 1) for x in line.earliness]
    assert line.height.tolist() == pytest.approx(wanted)
    bare = curves.lines_of(results, "traffic-fg", "srn-earliest", "f1")[1]
    assert bare.earliness.tolist() == pytest.approx([0.03, 0.15, 0.27, 0.39]), "there is no F1 of the first item"


def test_a_moved_threshold_that_never_leads_to_the_end_has_its_end_too(tmp_path: Path) -> None:
    tables = made.Made()
    cell = tables.cell("a", "kvec", 0)
    for late in (0.1, 0.4):
        tables.point(cell, "kvec", "moved", 0.5, late, made.accuracy("kvec", late))
    results = read_results(tables.write(tmp_path))
    line = curves.lines_of(results, "a", "kvec")[0]
    assert line.earliness.tolist() == pytest.approx([0.1, 0.4, 1.0])
    assert line.height[-1] == results.cells["end_accuracy"][0]
    assert curves.lines_of(results, "a", "kvec", "f1")[0].earliness.size == 2, "of other measures the end is not known"


def test_values_of_a_sensitivity_study_stay_out_of_the_curve(results: Results) -> None:
    assert curves.lines_of(results, "traffic-fg", "kvec-paper")[0].earliness.size == 6
    assert curves.swept_points(results, "traffic-fg", "kvec-paper").height == 12
    assert curves.swept_points(results, "traffic-fg", "kvec").height == 0


def test_difference_at_equal_earliness_is_the_known_one(results: Results) -> None:
    kvec, other = (curves.lines_of(results, "traffic-fg", name) for name in ("kvec", "kvec-no-value"))
    found = curves.compare(kvec, other, 0.02, 0.08)
    x = np.linspace(0.02, 0.08, 2001)
    known = np.mean([made.accuracy("kvec", v) - made.accuracy("kvec-no-value", v) for v in x])
    assert found is not None and found.spread.mean == pytest.approx(known, abs=1e-3)
    assert (found.low, found.high, found.spread.n) == (0.02, 0.08, 3)
    fewer = curves.compare({0: kvec[0]}, other, 0.0, 1.0)
    assert fewer is not None and fewer.spread.n == 1 and (fewer.low, fewer.high) == (0.02, 1.0)
    assert curves.compare(kvec, other, 0.0, 0.01) is None, "nobody decides before the first item"
    assert curves.compare(kvec, {}, 0.0, 1.0) is None


def test_differences_are_paired_by_seed() -> None:
    def flat(height: float) -> curves.Line:
        return curves.straight([0.0, 1.0], [height, height])

    first = {0: flat(0.5), 1: flat(0.7), 2: flat(0.9)}
    second = {2: flat(0.8), 1: flat(0.6), 0: flat(0.4), 7: flat(0.0)}
    found = curves.compare(first, second)
    assert found is not None and found.spread.mean == pytest.approx(0.1) and found.spread.sd == pytest.approx(0.0)
    assert curves.area(first, 0.2, 0.4).mean == pytest.approx(0.7)


def test_without_repeats_takes_its_own_columns(results: Results) -> None:
    whole = curves.lines_of(results, "traffic-fg", "kvec")[0]
    new = curves.lines_of(results, "traffic-fg", "kvec", without_repeats=True)[0]
    assert (whole.height - new.height).tolist() == pytest.approx([0.01] * 40)
    swept = curves.lines_of(results, "traffic-fg", "earliest", without_repeats=True)[0]
    assert swept.earliness.size == 4, "the ends are known with repeats only"
    hm = curves.best_hm(results, "traffic-fg", "kvec", without_repeats=True)
    assert hm[2] == pytest.approx(harmonic_mean(made.accuracy("kvec", 0.2, 2) - 0.01, 0.2))


def test_best_hm_is_of_the_cell_that_validation_prefers(results: Results) -> None:
    chosen = curves.chosen_points(results, "traffic-fg", "earliest")
    late = [0.03 + 0.12 * i for i in range(4)]
    best = max(late, key=lambda x: harmonic_mean(made.accuracy("earliest", x), x))
    assert chosen["earliness"].to_list() == pytest.approx([best + 0.01] * 3)


def test_a_threshold_moved_after_a_sweep_is_a_second_line(tmp_path: Path) -> None:
    tables = made.Made().curves("a", (0, 1), ["kvec-paper"], 3)
    for row in list(tables.cells):
        tables.curve(row["cell"], "kvec-paper", row["seed"])
    tables.points.sort(key=lambda row: str(row["cell"]))
    found = read_results(tables.write(tmp_path))
    assert curves.drawn_methods(found, "a") == {"kvec-paper", "kvec-paper-moved"}
    assert curves.lines_of(found, "a", "kvec-paper")[0].earliness.size == 5
    moved = curves.lines_of(found, "a", "kvec-paper-moved")
    assert moved[0].earliness.size == 40 and set(moved) == {0, 1}


def test_as_trained_a_swept_line_ends_with_its_latest_policy(tmp_path: Path) -> None:
    tables = made.Made()
    for value, late in ((1.0, 0.05), (0.1, 0.3), (0.01, 1.0)):  # the last has collapsed
        cell = tables.cell("a", "earliest", 0, "training.beta", value)
        tables.point(cell, "earliest", "swept", 0.5, late, 0.5)
    results = read_results(tables.write(tmp_path))
    assert curves.lines_of(results, "a", "earliest")[0].earliness.tolist() == [made.FIRST, 0.05, 0.3, 1.0]
    assert curves.lines_of(results, "a", "earliest", as_trained=True)[0].earliness.tolist() == [made.FIRST, 0.05, 0.3]
