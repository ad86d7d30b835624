"""NDJSON files of a sink turned into Parquet, each decision once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kvec.doors.flink import parquet
from kvec.doors.flink.parquet import Turning, turn
from kvec.words.errors import DataError

NAMES = ("label", "owner")


def rows(*names: Any, **more: Any) -> str:
    plain = {
        "sequence": 0, "label": "web", "probability": 0.5, "n_observed": 3, "length": None, "reason": "halted",
        "is_known": True,
    }  # fmt: skip
    made = [{"id": f"{name}/k/0", "tangle": name, "key": "k", **plain, **more} for name in names]
    return "".join(json.dumps(row) + "\n" for row in made)


def test_files_that_are_whole_are_turned_and_all_have_the_same_types(tmp_path: Path) -> None:
    (tmp_path / "kvec-decisions-0-0.ndjson").write_text(rows(1, 2))
    (tmp_path / "kvec-decisions-0-1.ndjson").write_text(rows(3, length=7))
    (tmp_path / ".kvec-decisions-0-2.ndjson.inprogress.1").write_text('{"id": "1/k')
    (tmp_path / "mine.ndjson").write_text("{}\n")
    turn(tmp_path, NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".kvec-decisions-0-2.ndjson.inprogress.1", "kvec-decisions-0-0.parquet", "kvec-decisions-0-1.parquet",
        "mine.ndjson",
    ]  # fmt: skip
    found = pl.read_parquet(tmp_path / "*.parquet").sort("tangle")
    assert found["tangle"].to_list() == ["1", "2", "3"]
    assert found["length"].to_list() == [None, None, 7]
    assert found.schema["probability"] == pl.Float64
    assert found.schema["label"] == pl.String


def test_a_file_that_was_turned_and_not_removed_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "kvec-decisions-0-0.ndjson").write_text(rows(1))
    turn(tmp_path, NAMES)
    (tmp_path / "kvec-decisions-0-0.ndjson").write_text(rows(1))  # as after a kill between the two steps
    turn(tmp_path, NAMES)
    assert pl.read_parquet(tmp_path / "*.parquet").height == 1


def test_all_files_have_the_same_columns_and_names_are_text(tmp_path: Path) -> None:
    (tmp_path / "kvec-decisions-0-0.ndjson").write_text(
        rows(1, "a\ud800", **{"label.owner": "me", "probability.owner": 1})
    )
    (tmp_path / "kvec-decisions-0-1.ndjson").write_text(rows(2, familiarity=0.5))  # by a newer model
    turn(tmp_path, NAMES)
    found = pl.read_parquet(tmp_path / "*.parquet")
    assert found["tangle"].to_list() == ["1", "a\\ud800", "2"]
    assert found["label.owner"].to_list() == ["me", "me", None]
    assert found["familiarity"].to_list() == [None, None, 0.5]
    assert found.schema["probability.owner"] == pl.Float64


def test_all_is_turned_at_the_end_and_what_cannot_be_is_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parquet, "LOOK", 0.01)
    with Turning(tmp_path, NAMES):
        (tmp_path / "kvec-decisions-0-0.ndjson").write_text(rows(1))
    assert (tmp_path / "kvec-decisions-0-0.parquet").exists()
    with (
        pytest.raises(DataError, match=r"decisions that are not in Parquet are in the \.ndjson files"),
        Turning(tmp_path, NAMES),
    ):
        (tmp_path / "kvec-decisions-0-1.ndjson").write_text("broken\n")
        (tmp_path / "kvec-decisions-0-2.ndjson").write_text(rows(2))
    assert (tmp_path / "kvec-decisions-0-1.ndjson").exists()
    assert (tmp_path / "kvec-decisions-0-2.parquet").exists()
    assert capsys.readouterr().err.count("cannot turn decisions into Parquet") == 1


def test_a_folder_that_cannot_be_seen_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "LOOK", 0.01)
    with pytest.raises(DataError, match="cannot be seen from here"), Turning(tmp_path / "elsewhere", NAMES):
        pass
