"""The flag --at, and the table of costs that it can name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvec.doors.dialing import target_of
from kvec.words.errors import DataError, SettingError


def costs(path: Path, text: str) -> object:
    path.joinpath("costs.csv").write_text(text, encoding="utf-8")
    return target_of([f"cost_per_error={path / 'costs.csv'},cost_per_item=0.1"])["cost_per_error"]


def test_blanks_around_cells_do_not_count(tmp_path: Path) -> None:
    found = costs(tmp_path, "\ufefftrue, decided , cost\n scan ,web,\t5\n\nweb, scan, 1e-1\n")
    assert found == {"scan": {"web": 5.0}, "web": {"scan": 0.1}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("true,decided,cost\na,b,1\nb,a,1\n a,b ,2\n", r"rows 1 and 3: both say what 'b' costs for 'a'"),
        ("true,decided,cost\n", "holds no row below its heading"),
        ("", "its columns are missing; write true, decided, cost"),
        ("from,to,cost\na,b,1\n", "its columns are from, to, cost; write true, decided, cost"),
        ("true,decided,cost\na,b,0,5\n", "row 1: holds 4 cells, not 3"),
        ("true,decided,cost\na,b\n", "row 1: holds 2 cells, not 3"),
        ("true,decided,cost\na,b,dear\n", "row 1: cost is 'dear'; write a number from 0 on"),
        ("true,decided,cost\na,b,1\nb,a,-1\n", "row 2: cost is '-1'; write a number from 0 on"),
        ("true,decided,cost\na,b,inf\n", "row 1: cost is 'inf'; write a number from 0 on"),
    ],
)
def test_a_table_of_costs_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        costs(tmp_path, text)


def test_a_threshold_leaves_no_other_point_to_aim_at() -> None:
    with pytest.raises(SettingError, match="--threshold and --at earliness both say where to work; give one of them"):
        target_of(["earliness=0.1"], 0.5)
    assert target_of(["abstain_below=0.6"], 0.5) == {"abstain_below": 0.6}


def test_nothing_is_hinted_at_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for refused in ("cost_per_error=1,earliness=0.1", "cost_per_error=-1", "cost_per_eror=1"):
        with pytest.raises(SettingError):
            target_of([refused])
    assert capsys.readouterr().err == ""
    target_of(["cost_per_error=1"])
    assert "waiting costs nothing here" in capsys.readouterr().err


def test_right_decisions_that_cost_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs(tmp_path, "true,decided,cost\na,b,1\na,a,5\n")
    assert "deciding 'a' for 'a' costs something here, though it is right" in capsys.readouterr().err
