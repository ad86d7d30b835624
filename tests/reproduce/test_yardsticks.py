"""KVEC beside trees: their lines, their bound, and the table of differences."""

from pathlib import Path

import pytest
from tests.reproduce.made import Made
from tests.reproduce.test_figures import words

from kvec.reproduce.curves import drawn_methods
from kvec.reproduce.page import make_report
from kvec.reproduce.results import read_results
from kvec.reproduce.tables import methods_table
from kvec.reproduce.yardsticks import bound_lines, champion, draw_yardsticks, has_yardstick, paired_table


def made() -> Made:
    return Made().curves("traffic-fg", (0, 1), ["kvec", "srn"]).yardsticks("traffic-fg", (0, 1))


def test_hindsight_is_drawn_and_is_no_method(tmp_path: Path) -> None:
    results = read_results(made().write(tmp_path))
    assert has_yardstick(results, "traffic-fg") and not has_yardstick(results, "sepsis")
    assert "trees-oracle" not in drawn_methods(results, "traffic-fg")
    lines = bound_lines(results, "traffic-fg", "trees-oracle")
    assert list(lines) == [0, 1] and lines[0].at([0.02, 0.1]) == pytest.approx([0.6, 0.92])
    told = words(draw_yardsticks(results, "traffic-fg"))
    assert {"trees (hindsight)", "trees (fixed n)", "trees (induction)", "KVEC (expected loss)"} <= set(told)
    assert methods_table(results, "traffic-fg").header[2] == "mean accuracy, 2–100 %", "a bound narrows no range"


def test_the_table_says_what_is_ahead_and_how_much_is_closed(tmp_path: Path) -> None:
    header, rows = paired_table(read_results(made().write(tmp_path)), "traffic-fg")
    assert header[3:] == ["accuracy at 5 %", "accuracy at 10 %", "accuracy at 20 %", "accuracy at 30 %", "HM"]
    assert [row[1] for row in rows] == [
        "SRN-Fixed", "trees (fixed n)", "trees (induction)", "half of the way from fixed n to induction",
    ]  # fmt: skip
    assert rows[0][2:4] == ["3", "**+10.0** (+8.0 to +12.0)"] and rows[2][4] == "-5.0 (-7.0 to -3.0), below"
    assert rows[3][3] == "50 % closed; –" and rows[3][4] == "50 % closed; +0.0 (-1.0 to +1.0)"


def test_no_share_is_told_of_a_gap_that_is_none(tmp_path: Path) -> None:
    tables = made()
    fixed = {row["measure"]: row["other_value"] for row in tables.paired if row["other"] == "trees-fixed"}
    for row in tables.paired:
        if row["other"] == "trees-induction":
            row["other_value"] = float(fixed[row["measure"]]) + 0.005
    _, rows = paired_table(read_results(tables.write(tmp_path)), "traffic-fg")
    assert not any("closed" in cell for row in rows for cell in row)


def test_the_champion_is_named_on_validation(tmp_path: Path) -> None:
    tables = made()
    for row in tables.points:
        if row["curve"] == "chosen":  # on test KVEC is as good; validation prefers the other
            row["validated"] = {"kvec": 0.8, "kvec-confidence": 0.81}.get(row["method"], "")
    tables.paired += [row | {"method": "kvec-confidence", "difference": -0.2} for row in tables.paired]
    results = read_results(tables.write(tmp_path))
    assert champion(results, "traffic-fg", ["kvec", "kvec-confidence"]) == "kvec-confidence"
    assert champion(results, "traffic-fg", ["kvec"]) == champion(results, "traffic-fg", ["kvec", "srn-fixed"]) == ""
    names = [row[0] for row in paired_table(results, "traffic-fg")[1]]
    assert names == ["KVEC (confidence), champion"] * 4 + ["KVEC (expected loss), beside it"] * 4


def test_the_report_tells_of_it(tmp_path: Path) -> None:
    make_report(made().write(tmp_path / "in"), tmp_path / "out")
    plain = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    assert "at equal earliness, on the same test tangles" in plain and "**+10.0** (+8.0 to +12.0)" in plain
    assert (tmp_path / "out/figures/traffic-fg-yardsticks.png").is_file()
