from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.doors.made import Trained

from kvec.doors.cli import run


def warnings(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[str]:
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == 0
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("kvec: warning: ")]


@pytest.mark.parametrize("command", ["decide", "evaluate"])
def test_values_that_training_has_not_seen(
    command: str, trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_other = pl.int_range(pl.len()) % 4 == 1
    odd = pl.when(is_other).then(7).otherwise("direction").alias("direction")
    trained.frame.head(100).with_columns(odd).write_parquet(tmp_path / "odd.parquet")
    (line,) = warnings(capsys, command, trained.model, tmp_path / "odd.parquet")
    for words in ("'direction'", "25 of 100 items (25.0 %)", "such as 7", "known are 0, 1"):
        assert words in line
    trained.frame.head(100).write_parquet(tmp_path / "known.parquet")
    assert warnings(capsys, command, trained.model, tmp_path / "known.parquet") == []


@pytest.mark.parametrize("command", ["decide", "evaluate"])
def test_a_few_unknown_values_are_counted(
    command: str, trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_odd = pl.int_range(pl.len()).is_in([3, 5])
    odd = trained.frame.head(100).with_columns(pl.when(is_odd).then(7).otherwise("direction").alias("direction"))
    odd.write_parquet(tmp_path / "odd.parquet")
    capsys.readouterr()
    assert run([command, trained.model, str(tmp_path / "odd.parquet")]) == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "'direction'" in line)
    assert line == (
        "kvec: column 'direction': 2 of 100 items (2.0 %) have a value that training saw never or once, such as 7"
    )


def test_the_data_it_was_trained_on(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = warnings(capsys, "evaluate", trained.model, trained.items)
    assert "80.0 %" in line
    assert "--split test" in line
    assert warnings(capsys, "evaluate", trained.model, trained.items, "--split", "test") == []
    trained.frame.filter(pl.col("tangle") < 4).write_parquet(tmp_path / "some.parquet")
    assert warnings(capsys, "evaluate", trained.model, tmp_path / "some.parquet") == []


@pytest.mark.parametrize(("threshold", "words"), [(0.0, "all by halting"), (1.0, "all at the end")])
def test_how_all_were_decided(
    threshold: float, words: str, trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kvec import load

    model = load(trained.model)
    model.model_.threshold = threshold
    model.save(tmp_path / "model")
    assert run(["decide", str(tmp_path / "model"), trained.items, "-o", str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr().err.endswith(f"; {words}\n")
