from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.doors.made import FLAGS, TINY, Trained

from kvec.doors.cli import run
from kvec.doors.measuring import evaluate_model, report_evaluation
from kvec.doors.training import early_end, kept_line
from kvec.estimator import load
from kvec.read.synthetic import demo_traffic
from kvec.words.config import Training


def history(*hms: float, seconds: float = 1.0) -> list[dict[str, float]]:
    return [{"epoch": i + 1.0, "hm": hm, "accuracy": hm, "seconds": seconds} for i, hm in enumerate(hms)]


def test_why_a_run_ended_early() -> None:
    settings = Training(objective="expected", epochs=4, patience=2, settle=0.0)
    assert early_end(history(0.1, 0.2, 0.3, 0.2), settings) == "", "all its epochs"
    assert early_end(history(0.3, 0.2, 0.2), settings) == "stopped after 3 of 4 epochs: no better HM for 2 epochs"
    worse = [record | {"unseen": loss} for record, loss in zip(history(0.1, 0.2, 0.3), (0.5, 0.6, 0.7), strict=True)]
    why = "stopped after 3 of 4 epochs: no better loss on validation for 2 epochs"
    assert early_end(worse, Training(epochs=4, patience=2)) == why, "whatever HM is, and from the first epoch on"
    short = Training(epochs=12, patience=8, minutes=1.0)
    assert early_end(history(0.1, 0.2, seconds=40.0), short) == "stopped after 2 of 12 epochs: 1 minute was over"
    half = Training(epochs=12, patience=8, minutes=0.5)
    assert early_end(history(0.1, seconds=40.0), half) == "stopped after 1 of 12 epochs: 0.5 minutes were over"


def test_which_epoch_is_kept_and_by_what() -> None:
    better_later = [record | {"unseen": loss} for record, loss in zip(history(0.1, 0.2), (0.5, 0.6), strict=True)]
    for told, settings, words in (
        (better_later, Training(), "epoch 1 of 2 is kept (it loses least on validation)"),
        (history(0.1, 0.3), Training(objective="expected"), "epoch 2 of 2 is kept (it has the best HM on validation)"),
        (better_later, Training(keep="last"), "epoch 2 of 2 is kept, being the last; on validation"),
    ):  # fmt: skip
        assert kept_line(told, settings) == words


def test_the_report_rings_the_kept_epoch(trained: Trained, tmp_path: Path) -> None:
    model = load(trained.model)
    (first,) = model.model_.history
    model.model_.history += [first | {"epoch": 2.0, "unseen": first["unseen"] + 1, "hm": 0.99}]
    tangles = model.tangles(trained.items)
    report_evaluation(tmp_path / "a.html", model, evaluate_model(model, tangles, model.scores(tangles)), "", "", {})
    assert "kept: epoch 1" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_model_in_its_place_is_said_to_be_replaced(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["train", trained.items, *FLAGS, *TINY, "--quiet", "-o", str(tmp_path / "model")]
    assert run(asked) == 0
    assert "replaced" not in capsys.readouterr().err
    assert run([*asked, "--epochs", "3", "--minutes", "0.0001"]) == 0
    out, err = capsys.readouterr()
    assert [line for line in err.splitlines() if "replaced" in line] == [
        f"kvec: {tmp_path / 'model'} holds a model, which will be replaced when training is over",
        f"kvec: the model that was in {tmp_path / 'model'} is replaced",
    ]
    assert out.startswith("stopped after 1 of 3 epochs: 0.0001 minutes were over\n")
    assert "epoch 1 of 1 is kept (it loses least on validation):" in out


def test_training_warns_of_what_inspect_finds_in_fields_and_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = demo_traffic(20, seed=5, keys=4).with_columns(pl.lit(7).alias("same"))
    rare = (pl.col("tangle") == pl.col("tangle").first()) & (pl.col("key") == pl.col("key").first())
    label = pl.when(rare).then(pl.lit("rare")).otherwise("label").alias("label")
    items.with_columns(label).with_columns(code=pl.col("label") + "!").write_parquet(tmp_path / "items.parquet")
    data, names = str(tmp_path / "items.parquet"), ["--values", "size,direction,same,code"]
    assert run(["train", data, *FLAGS, *names, *TINY, "--quiet", "-o", str(tmp_path / "model")]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "θ" not in line]
    assert run(["inspect", data, *FLAGS, *names]) == 0
    shown = capsys.readouterr().out
    assert [line.removeprefix("kvec: warning: ") for line in told if line.removeprefix("kvec: warning: ") in shown] == [
        "field 'same' holds one value only, so it tells nothing",
        "field 'code' never changes within a key and tells the label 'label'; leave it out",
        "label 'label': 1 class(es) have fewer than 3 sequences, such as 'rare'",
    ]


@pytest.mark.parametrize("objective", ["every", "expected", "paper"])
def test_keys_without_a_label_are_context(objective: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = demo_traffic(20, seed=5, keys=4)
    is_left = pl.col("key").rank("dense").over("tangle") == 1
    some = items.with_columns(pl.when(is_left).then(None).otherwise("label").alias("label"))
    some.write_parquet(tmp_path / "some.parquet")
    data, model = str(tmp_path / "some.parquet"), str(tmp_path / "model")
    words = ["--set", f"training.objective={objective}", "--set", "training.class_weights=balanced", "--quiet"]
    assert run(["train", data, *FLAGS, *TINY, *words, "-o", model]) == 0
    err = capsys.readouterr().err
    assert "20 of 80 keys have no label in column 'label'; the others are learned, and may look at their items" in err
    assert "were chosen on 6 sequences only" in err, "of the labelled"
    assert run(["evaluate", model, data, "--split", "test"]) == 0
    assert "left out: 2 sequences without a label" in capsys.readouterr().out
    loaded = load(model).model_
    assert loaded.about["train_sequences"] == 64 and (loaded.validation["labels"] < 0).sum() == 2
    assert load(model).at(earliness=1.0).model_.threshold >= 0


def test_a_model_that_names_one_class_only_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = demo_traffic(20, seed=5, keys=4)
    for name, flat in (("flat", True), ("plain", False)):
        told = items.with_columns(size=pl.lit(1), direction=pl.lit("up")) if flat else items
        told.write_parquet(tmp_path / f"{name}.parquet")
        words = [*FLAGS, *TINY[:-1], "1" if flat else "8", "-o", str(tmp_path / name)]
        assert run(["train", str(tmp_path / f"{name}.parquet"), *words, "--quiet"]) == 0
        said = "warning: on validation the model names every sequence" in capsys.readouterr().err
        assert said is flat
    assert len(set(load(tmp_path / "plain").predict(items))) > 1
