import json
from pathlib import Path
from statistics import median

import polars as pl
import pytest

from kvec.doors.cli import run
from kvec.read.synthetic import demo_traffic


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    demo_traffic(50).write_parquet(folder / "train.parquet")
    demo_traffic(30, seed=3).write_parquet(folder / "newer.parquet")
    sizes = ["encoder.width=16", "encoder.heads=2", "encoder.feed_forward=16", "encoder.fusion=16", "encoder.knots=3"]
    words = ["train", str(folder / "train.parquet"), "--epochs", "2", "--quiet", "-o", str(folder / "model")]
    assert run([*words, *(word for size in sizes for word in ("--set", size))]) == 0
    return folder


def test_triggers_are_tried_and_the_best_is_kept(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer, tuned = str(place / "newer.parquet"), str(place / "tuned")
    assert run(["tune", str(place / "model"), newer, "-o", tuned]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("hazard", "calibrated", "induction", f"is in {tuned}, at θ = "))
    assert run(["evaluate", tuned, newer]) == 0


def test_every_command_can_be_told_where_to_work(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, newer = str(place / "model"), str(place / "newer.parquet")
    counts = []
    for command in (["decide", model, newer, "--format", "ndjson"], ["stream", model, newer]):
        for at in ("threshold=0", "threshold=1"):
            assert run([*command, "--at", at]) == 0
            decided = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            counts.append(sum(row["n_observed"] == 1 for row in decided))
    assert counts[0] == counts[2] > counts[1] == counts[3]
    assert run(["evaluate", model, newer, "--at", "earliness=0.4"]) == 0


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("fast", "--at 'fast' cannot be read"),
        ("speed=1", "unknown target 'speed'"),
        ("earliness=0.1,accuracy=1", "one target at a time"),
        ("threshold=7", "between 0 and 1"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(
    place: Path, at: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["decide", str(place / "model"), str(place / "newer.parquet"), "--at", at]) == 2
    assert says in capsys.readouterr().err


def middle(place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A probability that half of the decisions reach."""
    assert run(["decide", str(place / "model"), str(place / "newer.parquet"), "--format", "ndjson"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return f"{median(row['probability'] for row in rows):.3f}"


def test_a_tuned_model_keeps_when_it_says_unknown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer, tuned = str(place / "newer.parquet"), str(place / "unsure")
    words = ["--abstain-below", "0.1", "--abstain-at-halts", "--unknown-below", "0.3"]
    assert run(["tune", str(place / "model"), newer, "-o", tuned, "--trigger", "hazard", *words]) == 0
    said = capsys.readouterr().out
    assert "what halts or ends below a probability of 10.0 %" in said
    assert "and what is stranger than all but 30.0 % of the known sequences" in said
    assert run(["evaluate", tuned, newer, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["coverage"] < 1 and found["known_accuracy"] > found["accuracy"]
    assert set(found["calibration"]) == {"n", "is_of_halts", "ece", "brier", "ece_before", "brier_before"}
    assert run(["evaluate", tuned, newer, "--at", "abstain_below=0,abstain_at_halts=0,unknown_below=0"]) == 0
    assert "coverage" not in capsys.readouterr().out


def test_every_command_says_unknown_alike(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, newer, report = str(place / "model"), str(place / "newer.parquet"), place / "unknown.html"
    least = middle(place, capsys)
    at = ["--at", f"abstain_below={least},abstain_at_halts=1,unknown_below=0.1", "--at", "threshold=0.6"]
    told = []
    for command in (["decide", model, newer, "--format", "ndjson"], ["stream", model, newer]):
        assert run([*command, *at]) == 0
        shown = capsys.readouterr()
        told.append({row["id"]: row for row in map(json.loads, shown.out.splitlines())})
    table, stream = told
    assert f", {sum(not row['is_known'] for row in stream.values())} of them unknown; " in shown.err
    assert table.keys() == stream.keys() and 0 < sum(not row["is_known"] for row in table.values()) < len(table)
    for name, row in table.items():
        assert stream[name]["familiarity"] == pytest.approx(row["familiarity"], abs=0.05)
        is_near = abs(row["familiarity"] - 0.1) < 0.05 or abs(row["probability"] - float(least)) < 1e-4
        assert stream[name]["is_known"] == row["is_known"] or is_near
    assert run(["decide", model, newer, "-o", str(place / "decided.csv"), *at]) == 0
    n_unknown = sum(not row["is_known"] for row in table.values())
    assert f", {n_unknown} unknown" in capsys.readouterr().err
    assert run(["evaluate", model, newer, "--report", str(report), *at]) == 0
    said = capsys.readouterr().out
    assert "decisions that are known; the others count as wrong above" in said and "ECE" in said
    assert "If only the surest are taken" in report.read_text(encoding="utf-8")
    key = next(row["key"] for row in table.values() if not row["is_known"])
    tangle = next(row["tangle"] for row in table.values() if not row["is_known"])
    assert run(["explain", model, newer, "--key", str(key), "--tangle", str(tangle), *at]) == 0
    assert "(unknown), at best " in capsys.readouterr().out


def test_sequences_of_new_classes_are_counted_among_the_unknown(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = demo_traffic(12, seed=5).with_columns(label=pl.col("label").replace("scan", "worm"))
    items.write_parquet(tmp_path / "other.parquet")
    words = ["--at", "abstain_below=0.9,abstain_at_halts=1"]
    assert run(["evaluate", str(place / "model"), str(tmp_path / "other.parquet"), "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 <= found["n_new_unknown"] <= found["n_new_labels"] == sum(found["new_classes"].values()) > 0
    assert run(["evaluate", str(place / "model"), str(tmp_path / "other.parquet"), *words]) == 0
    assert f"of the {found['n_new_labels']} sequences of new classes, and" in capsys.readouterr().out


def test_a_stream_refuses_a_threshold_for_which_nothing_was_settled(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["stream", str(place / "model"), str(place / "newer.parquet"), "--at", "unknown_below=0.1"]
    assert run([*words, "--threshold", "0.3"]) == 2
    assert "turn the model itself to another threshold" in capsys.readouterr().err
