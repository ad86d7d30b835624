from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from kvec.doors import demo
from kvec.doors.cli import run
from kvec.read.synthetic import DEMO_SCHEMA
from kvec.words.schema import Schema


def test_the_demo_leaves_what_it_promises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "TANGLES", {"train": 16, "validation": 4, "unseen": 6})
    monkeypatch.setattr(demo, "SETTINGS", ("training.epochs=1", "encoder.width=16", "encoder.fusion=16"))
    folder = tmp_path / "demo"
    assert run(["demo", "--out", str(folder), "--tangles", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for words in ("tangle 2 of 2", "every sequence after", "of the best fixed rule", "95 % interval", "1/1"):
        assert words in out
    assert sorted(path.name for path in folder.iterdir()) == [
        "kvec.toml", "model", "report.html", "train.parquet", "unseen.parquet", "validation.parquet",
    ]  # fmt: skip
    commands = [line.split() for line in out.splitlines() if line.startswith("  kvec ")]
    assert [command[1] for command in commands[:3]] == ["inspect", "evaluate", "decide"]
    for command in commands:
        assert run(command[1:]) == 0, "what it proposes next works"
    capsys.readouterr()
    assert run(["evaluate", f"{folder}/model", f"{folder}/unseen.parquet", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert f"HM {figures['hm']:.3f} against {figures['fixed_n']['hm']:.3f}" in out
    assert pl.read_parquet(folder / "unseen.parquet")["tangle"].n_unique() == 6
    demo._require_own(folder)  # an earlier demo's folder is made anew


def test_its_schema_file_says_what_its_schema_says(tmp_path: Path) -> None:
    (tmp_path / "kvec.toml").write_text(demo.SCHEMA_TOML)
    assert Schema.from_toml(tmp_path / "kvec.toml") == DEMO_SCHEMA


@pytest.mark.parametrize("name", ["kvec.toml", "train.parquet", "notes.txt"])
def test_a_folder_with_other_files_is_left_alone(name: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / name).write_text("mine")
    line = refused("demo", "--out", tmp_path)
    assert str(tmp_path) in line
    assert "--out" in line
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_a_model_and_a_report_beside_another_schema_are_no_demo(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "model").mkdir()
    for name in ("model/kvec.json", "report.html", "kvec.toml"):
        (tmp_path / name).write_text("mine")
    assert "not empty" in refused("demo", "--out", tmp_path)
    assert (tmp_path / "kvec.toml").read_text() == "mine"
    assert "is a file" in refused("demo", "--out", tmp_path / "report.html")
