"""Tables and a tiny model for the tests of the doors, made once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.doors.made import FLAGS, TINY, Trained

from kvec.doors.cli import run
from kvec.estimator import load
from kvec.read.synthetic import demo_traffic


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    made = Trained(folder)
    demo_traffic(20, seed=5, keys=4).write_parquet(made.items)
    assert run(["train", made.items, *FLAGS, *TINY, "-o", made.model, "--quiet"]) == 0
    return made


@pytest.fixture(scope="session")
def lively(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The same model at a threshold that half of the sequences reach within six items; items sorted by time."""
    made = Trained(tmp_path_factory.mktemp("lively"))
    trained.frame.sort("time", maintain_order=True).write_parquet(made.items)
    shutil.copytree(trained.model, made.model)
    model = load(trained.model)
    scores = model.scores(model.tangles(trained.items))
    highest = [scores.halt[start : start + 6].max() for start in scores.offsets[:-1]]
    card = Path(made.model) / "kvec.json"
    plain = json.loads(card.read_text())
    plain["operating_point"]["threshold"] = float(np.median(highest))
    card.write_text(json.dumps(plain))
    return made


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must be refused: exit code 2, one line, nothing on the standard output; returns the line."""

    def refuse(*arguments: str | Path) -> str:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code == 2, err
        assert out == ""
        lines = err.splitlines()
        assert len(lines) == 1, err
        assert lines[0].startswith("kvec: ")
        assert "Traceback" not in err
        return lines[0]

    return refuse
