import json
from pathlib import Path

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
