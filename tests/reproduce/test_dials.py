"""The dial beside models trained for one delay cost each: paired by seed, at their own earliness."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reproduce.made import Made, accuracy
from tests.reproduce.test_figures import words

from kvec.reproduce.dials import dial_table, dials_of, draw_dial, judge_dial, turned
from kvec.reproduce.page import make_report
from kvec.reproduce.results import Results, read_results
from kvec.reproduce.verdicts import FAILS, HOLDS, PARTLY, UNTESTED

COSTS = {0.3: 0.4, 3.0: 0.2, 10.0: 0.05}  # and where a model that was trained for it halts


def made(seeds: tuple[int, ...], above: float = 0.0, noise: float = 0.0) -> Made:
    """Trained points that lie so much above the dial's curve, in some seeds more than in others."""
    tables = Made()
    for seed in seeds:
        cell = tables.cell("traffic-fg", "kvec-dial", seed)
        tables.curve(cell, "kvec-dial", seed, n=400)
        for cost, late in COSTS.items():
            cell = tables.cell("traffic-fg", "kvec-costs", seed, "training.delay_cost", cost, word_earliness=late)
            right = accuracy("kvec-dial", late, seed) + above + noise * (seed - 1)
            tables.point(cell, "kvec-costs", "swept", 0.5, late, right)
            tables.point(cell, "kvec-costs", "chosen", 0.5, late, right)
    return tables


def results(folder: Path, *given: object) -> Results:
    return read_results(made(*given).write(folder))  # type: ignore[arg-type]


def test_each_trained_point_is_compared_at_its_own_earliness(tmp_path: Path) -> None:
    found = turned(results(tmp_path, (0, 1, 2), 0.03), "traffic-fg", "kvec-dial")
    assert [each.cost for each in found] == [0.3, 3.0, 10.0]
    for each in found:
        assert each.earliness.mean == pytest.approx(COSTS[each.cost])
        assert (each.gain.mean, each.gain.n) == (pytest.approx(-0.03, abs=1e-3), 3)
        assert each.gain.sd == pytest.approx(0, abs=1e-3), "seeds differ by more, but they are paired"


@pytest.mark.parametrize(
    ("seeds", "above", "noise", "verdict"),
    [
        ((0, 1, 2), -0.01, 0.0, HOLDS),
        ((0, 1, 2), 0.004, 0.0, HOLDS),
        ((0, 1, 2), 0.02, 0.02, PARTLY),  # within the band
        ((0, 1, 2), 0.02, 0.0, FAILS),
        ((0,), -0.01, 0.0, PARTLY),
        ((0,), 0.02, 0.0, FAILS),
    ],
)
def test_verdict(tmp_path: Path, seeds: tuple[int, ...], above: float, noise: float, verdict: str) -> None:
    judged = judge_dial(results(tmp_path, seeds, above, noise), "traffic-fg", "kvec-dial")
    assert judged.verdict == verdict and "λ = 10: " in judged.measured


def test_a_dial_that_had_not_settled_tests_nothing(tmp_path: Path) -> None:
    tables = made((0, 1))
    for row in tables.cells:
        row["hm_by_epoch"] = "0.1 0.2 0.3 0.4" if row["training"] == "kvec-dial" else row["hm_by_epoch"]
    judged = judge_dial(read_results(tables.write(tmp_path)), "traffic-fg", "kvec-dial")
    assert judged.verdict == UNTESTED and "dial" in judged.reason


def test_what_was_not_run_is_not_told(tmp_path: Path) -> None:
    alone = read_results(Made().curves("traffic-fg", (0,), ["kvec"]).write(tmp_path))
    assert dials_of(alone, "traffic-fg") == [] and dial_table(alone, "traffic-fg")[1] == []


def test_it_has_a_table_a_figure_and_a_part_of_the_report(tmp_path: Path) -> None:
    folder = made((0, 1, 2)).write(tmp_path / "in")
    known = read_results(folder)
    header, rows = dial_table(known, "traffic-fg")
    assert header[1] == "delay cost λ" and [row[1] for row in rows] == ["0.3", "3", "10"]
    assert {"λ = 0.3", "λ = 3", "λ = 10", "KVEC (dial, one training)"} <= set(words(draw_dial(known, "traffic-fg")))
    make_report(folder, tmp_path / "out")
    plain = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    assert "## Beyond the paper: one model with a dial" in plain and "figures/traffic-fg-dial.png" in plain
