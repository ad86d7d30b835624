from pathlib import Path

import pytest
from tests.reproduce import made

from kvec.reproduce.convergence import Convergence, convergence, is_collapsed, is_settled
from kvec.reproduce.results import read_results

RISING = "0.1 0.2 0.3 0.4 0.5 0.6"


@pytest.mark.parametrize(
    ("hm", "settled"),
    [
        ([0.5, 0.7, 0.71], True),
        ([0.5, 0.7, 0.72], False),
        ([0.9, 0.9], False),
        ([], False),
        ([0.6, 0.7, 0.7, 0.5], True),
    ],
)
def test_settled_by_the_last_third(hm: list[float], settled: bool) -> None:
    assert is_settled(hm) is settled


@pytest.mark.parametrize(
    ("late", "collapsed"), [(0.02, True), (0.025, True), (0.04, False), (0.95, False), (1.0, True)]
)
def test_collapsed_to_an_end(late: float, collapsed: bool) -> None:
    assert is_collapsed(late, 0.02) is collapsed


def test_a_sweep_may_collapse_at_its_ends(tmp_path: Path) -> None:
    tables = made.Made()
    for i, late in enumerate((0.02, 0.2, 1.0)):
        cell = tables.cell("a", "kvec-paper", 0, "training.beta", 10.0**-i)
        tables.point(cell, "kvec-paper", "swept", 0.5, late, 0.5)
    cell = tables.cell("a", "kvec-paper", 0, "training.alpha", 1.0)
    tables.point(cell, "kvec-paper", "swept", 0.5, 0.02, 0.5)
    results = read_results(tables.write(tmp_path))
    found = convergence(results, "a", "kvec-paper")
    assert found == Convergence(1, 1, 3, 2, 0) and found.is_converged
    assert not convergence(results, "a", "kvec-paper", "alpha").is_converged


def test_most_seeds_must_converge_and_the_policy_of_validation_counts(tmp_path: Path) -> None:
    tables = made.Made()
    tables.cell("a", "kvec", 0)
    tables.cell("a", "kvec", 1, hm_by_epoch=RISING)
    tables.cell("a", "kvec", 2, earliness_by_epoch="0.3 0.2 0.02")
    tables.cell("a", "srn", 0, earliness_by_epoch="1.0")
    tables.point("a/kvec/0", "kvec", "moved", 0.5, 0.3, 0.5)
    results = read_results(tables.write(tmp_path))
    found = convergence(results, "a", "kvec")
    assert found == Convergence(3, 1, 3, 1, 1) and not found.is_converged
    assert found.words() == "converged in 1 of 3 seeds; of 3 cells 1 collapsed, 1 still rising"
    assert convergence(results, "a", "srn").is_converged, "it has no policy to collapse"
    assert not convergence(results, "a", "earliest").is_converged, "nothing was run"
