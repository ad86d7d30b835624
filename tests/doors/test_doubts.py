from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.doors.made import FLAGS, TINY, Trained

from kvec.doors.cli import run
from kvec.estimator import load
from kvec.read.synthetic import demo_traffic
from kvec.tangle.tangling import Split


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
    found = warnings(capsys, command, trained.model, tmp_path / "odd.parquet")
    (line,) = (line for line in found if "direction" in line)
    for words in ("'direction'", "25 of 100 items (25.0 %)", "such as 7", "known are 0, 1"):
        assert words in line
    trained.frame.head(100).write_parquet(tmp_path / "known.parquet")
    known = warnings(capsys, command, trained.model, tmp_path / "known.parquet")
    assert not [line for line in known if "direction" in line]


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
    split = load(trained.model).model_.split
    assert split is not None
    parts = {part: Split.from_dict(split).part(trained.frame, part) for part in ("train", "validation", "test")}
    some = parts["train"].filter(pl.col("tangle") == parts["train"]["tangle"][0])
    for used, n in ((some, 4), (parts["validation"], 8)):
        pl.concat([used, parts["test"]]).write_csv(tmp_path / "some.csv")
        (line,) = warnings(capsys, "evaluate", trained.model, tmp_path / "some.csv")
        assert f"{n} of {n + 8} sequences were used in training, validation or tuning, so these figures flatter" in line
    parts["test"].write_csv(tmp_path / "some.csv")
    assert warnings(capsys, "evaluate", trained.model, tmp_path / "some.csv") == []


def test_separate_files_that_it_was_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("train.csv", "validation.csv", "test.csv")]
    for seed, file in enumerate(files):
        demo_traffic(8, seed=seed, keys=3).write_csv(file)
    training, validation, test = map(str, files)
    model = str(tmp_path / "model")
    words = ["train", training, "--validation", validation, *FLAGS, *TINY, "-o", model, "--quiet", "--test"]
    assert not [line for line in warnings(capsys, *words, test) if "flatter" in line]
    assert [line for line in warnings(capsys, *words, validation) if "flatter" in line]
    for file in (training, validation):
        (line,) = warnings(capsys, "evaluate", model, file)
        assert "24 of 24 sequences were used in training, validation or tuning" in line
    assert warnings(capsys, "evaluate", model, test) == []


@pytest.mark.parametrize(("threshold", "words"), [(0.0, "all by halting"), (1.0, "all at the end")])
def test_how_all_were_decided(
    threshold: float, words: str, trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load(trained.model)
    model.model_.threshold = threshold
    model.save(tmp_path / "model")
    assert run(["decide", str(tmp_path / "model"), trained.items, "-o", str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr().err.endswith(f"; {words}\n")
