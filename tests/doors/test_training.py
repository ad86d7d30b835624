from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.made import FLAGS, TINY, Trained

from kvec.doors.cli import run
from kvec.doors.training import early_end
from kvec.words.config import Training


def history(*hms: float, seconds: float = 1.0) -> list[dict[str, float]]:
    return [{"epoch": i + 1.0, "hm": hm, "accuracy": hm, "seconds": seconds} for i, hm in enumerate(hms)]


def test_why_a_run_ended_early() -> None:
    settings = Training(epochs=4, patience=2, settle=0.0)
    assert early_end(history(0.1, 0.2, 0.3, 0.2), settings) == "", "all its epochs"
    assert early_end(history(0.3, 0.2, 0.2), settings) == "stopped after 3 of 4 epochs: no better HM for 2 epochs"
    short = Training(epochs=12, patience=8, minutes=1.0)
    assert early_end(history(0.1, 0.2, seconds=40.0), short) == "stopped after 2 of 12 epochs: 1 minute was over"
    half = Training(epochs=12, patience=8, minutes=0.5)
    assert early_end(history(0.1, seconds=40.0), half) == "stopped after 1 of 12 epochs: 0.5 minutes were over"


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
    assert "epoch 1 of 1 was best" in out
