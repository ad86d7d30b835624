from pathlib import Path

import pytest
from tests.reproduce import made

from kvec.reproduce.collapse import is_collapsed
from kvec.reproduce.convergence import Convergence, convergence, doubts, is_settled
from kvec.reproduce.curves import drawn_methods
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
        cell = tables.cell("a", "kvec-paper", 0, "training.beta", 10.0**-i, word_earliness=late)
        tables.point(cell, "kvec-paper", "swept", 0.5, late, 0.5)
    cell = tables.cell("a", "kvec-paper", 0, "training.alpha", 1.0, word_earliness=0.02)
    tables.point(cell, "kvec-paper", "swept", 0.5, 0.02, 0.5)
    results = read_results(tables.write(tmp_path))
    found = convergence(results, "a", "kvec-paper")
    assert found == Convergence(1, 1, 3, 2, 0, n_alive=1) and found.is_converged
    assert not convergence(results, "a", "kvec-paper", "alpha").is_converged


def test_most_seeds_must_converge(tmp_path: Path) -> None:
    tables = made.Made()
    tables.cell("a", "kvec", 0)
    tables.cell("a", "kvec", 1, hm_by_epoch=RISING)
    tables.cell("a", "kvec", 2, hm_by_epoch=RISING)
    tables.point("a/kvec/0", "kvec", "moved", 0.5, 0.3, 0.5)
    results = read_results(tables.write(tmp_path))
    found = convergence(results, "a", "kvec")
    assert found == Convergence(3, 1, 3, 0, 2, n_alive=3) and not found.is_converged and found.is_alive
    assert found.words() == "converged in 1 of 3 seeds; of 3 cells 2 still rising"
    assert not convergence(results, "a", "earliest").is_converged, "nothing was run"


def test_a_policy_collapses_by_its_own_word_where_its_curve_is_on_test(tmp_path: Path) -> None:
    """The first item of validation lies elsewhere, and a threshold that is best at once says nothing of a network."""
    tables = made.Made()
    for seed, late in enumerate((made.FIRST, 0.2)):
        cell = tables.cell("a", "earliest", seed, "training.beta", 0.1, word_earliness=made.FIRST - 0.001)
        tables.point(cell, "earliest", "swept", 0.5, late, 0.5)
        cell = tables.cell("a", "kvec", seed, validation_earliness=made.FIRST)
        tables.point(cell, "kvec", "moved", 0.5, 0.3, 0.5)
    results = read_results(tables.write(tmp_path))
    found = convergence(results, "a", "earliest")
    assert (found.n_seeds, found.n_converged, found.n_collapsed) == (2, 1, 1)
    assert convergence(results, "a", "kvec").is_converged


def test_a_network_that_names_one_class_has_learned_nothing(tmp_path: Path) -> None:
    tables = made.Made().table_one("a")  # twelve classes
    for seed, recall in enumerate((1 / 12, 1 / 12 + 0.019, 0.3)):
        cell = tables.cell("a", "kvec", seed)
        tables.point(cell, "kvec", "moved", 0.5, 0.3, 0.5)
        tables.points[-1]["recall"] = recall
    found = convergence(read_results(tables.write(tmp_path)), "a", "kvec")
    assert found == Convergence(3, 1, 3, 0, 0, n_blind=2, n_alive=1) and not found.is_alive
    assert found.words() == "converged in 1 of 3 seeds; of 3 cells 2 named one class only"


def test_a_sampled_policy_settles_by_its_own_word(tmp_path: Path) -> None:
    tables = made.Made()
    for training in ("earliest", "kvec"):
        cell = tables.cell("a", training, 0, word_hm_by_epoch=RISING, word_earliness=0.2)
        tables.point(cell, training, "swept" if training == "earliest" else "moved", 0.5, 0.2, 0.5)
    results = read_results(tables.write(tmp_path))
    assert not convergence(results, "a", "earliest").is_converged
    assert convergence(results, "a", "kvec").is_converged, "its θ is the one of best HM"


@pytest.mark.parametrize(("hm", "converged"), [(0.805, True), (0.82, False)])
@pytest.mark.parametrize("by_epoch", [RISING, made.RISEN])
def test_the_word_of_a_control_goes_before_that_of_the_epochs(
    tmp_path: Path, hm: float, converged: bool, by_epoch: str
) -> None:
    tables = made.Made()
    for seed in (0, 1, 2):
        cell = tables.cell("a", "kvec", seed, validation_hm=0.8, hm_by_epoch=by_epoch)
        tables.point(cell, "kvec", "moved", 0.5, 0.3, 0.5)
    control = tables.cell("a", "kvec", 0, validation_hm=hm, cell="a/kvec x2/0", time="2")
    tables.point("a/kvec x2/0", "control", "moved", 0.5, 0.3, 0.5)
    results = read_results(tables.write(tmp_path))
    found = convergence(results, "a", "kvec")
    assert found.is_converged is converged and found.control == (2.0, pytest.approx(hm - 0.8))
    assert found.words().endswith(f"2 times the time gained {hm - 0.8:+.3f} HM")
    assert drawn_methods(results, "a") == {"kvec"} and results.cells.height == 3, "a control makes no curve"
    assert control == "a/kvec/0" and results.controls["cell"].to_list() == ["a/kvec x2/0"]


def test_a_sampled_control_is_judged_by_its_own_word_too(tmp_path: Path) -> None:
    tables = made.Made()
    sweep = ("a", "earliest", 0, "training.beta/alpha", 0.1)
    cell = tables.cell(*sweep, word_hm_by_epoch="0.5 0.6 0.7", word_earliness=0.2, validation_hm=0.7)
    tables.point(cell, "earliest", "swept", 0.5, 0.2, 0.5)
    more = {"word_hm_by_epoch": "0.5 0.6 0.7 0.705", "validation_hm": 0.9, "cell": "a/earliest x2/0", "time": "2"}
    tables.cell(*sweep, **more)
    assert convergence(read_results(tables.write(tmp_path)), "a", "earliest").is_converged


@pytest.mark.parametrize(
    ("true", "n_observed", "converged"), [(100, 100, True), (100, 1, False), (10, 100, False), (10, 10, True)]
)
def test_to_wait_for_a_signal_at_the_end_is_no_collapse(
    tmp_path: Path, true: int, n_observed: int, converged: bool
) -> None:
    tables = made.Made()
    own = {"first_earliness": 0.01, "word_earliness": 0.01 * n_observed}
    cell = tables.cell("a", "kvec", 0, validation_earliness=0.01, **own)  # HM would guess at once
    tables.point(cell, "kvec", "moved", 0.5, 0.3, 0.5)
    tables.halts.append({"cell": cell, "method": "kvec", "true": true, "n_observed": n_observed, "count": 9})
    assert convergence(read_results(tables.write(tmp_path)), "a", "kvec").is_converged is converged


def test_doubts_name_the_method_and_look_at_its_training(tmp_path: Path) -> None:
    tables = made.Made().curves("a", (0,), ["kvec", "srn"])
    tables.cells[1]["hm_by_epoch"] = RISING
    results = read_results(tables.write(tmp_path))
    assert doubts(results, "a", ["kvec"]) == ""
    assert doubts(results, "a", ["kvec", "srn-fixed"]) == (
        "SRN-Fixed converged in 0 of 1 seeds; of 1 cell 1 still rising"
    )
