"""The benchmarks of serving and of training run, on very little, and say what they are meant to say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
PATIENCE = 900  # seconds; machines may be busy


def run(script: str, *options: str) -> Any:
    """What a benchmark says, and has written where it says so."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *options], capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_service_under_load(tmp_path: Path) -> None:
    if missing := [name for name in ("wrk", "taskset", "chrt") if shutil.which(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not found: apt-get install wrk util-linux")
    run(
        "serve/load.py",
        "--seconds",
        "1",
        "--steady",
        "2",
        "--connections",
        "50",
        "--awake",
        "-o",
        str(tmp_path / "load.json"),
    )
    said = json.loads((tmp_path / "load.json").read_text(encoding="utf-8"))
    for part in ("as_fast_as_it_goes", "steady", "crowd", "after_it"):
        assert said[part]["errors"] == 0
        assert said[part]["requests"] > said[part]["not_200"], "a busy machine may refuse some, never all"
    assert said["too_much"]["not_200"] > 0, "what is too much is refused"
    assert said["exit_code"] == 0
    assert said["share_of_engine_items_per_cpu_second"] > 0


@pytest.mark.slow
def test_how_long_a_snapshot_halts(tmp_path: Path) -> None:
    said = run("serve/halt.py", "--items", "2000", "--times", "2", "-o", str(tmp_path / "halt.json"))
    assert said == json.loads((tmp_path / "halt.json").read_text(encoding="utf-8"))
    assert said["remembered"] > 1000
    assert all(halt["halt_s"] > 0 for way in ("whole", "apart") for halt in said[way])


@pytest.mark.slow
def test_two_processes_against_one(tmp_path: Path) -> None:
    said = run(
        "train/ddp.py", "--tangles", "80", "--epochs", "2", "--large", "0", "-o", str(tmp_path / "ddp.json")
    )  # what windows do to memory is tests/learn/test_streamed_memory.py's
    assert said == json.loads((tmp_path / "ddp.json").read_text(encoding="utf-8"))
    assert said["apart"]["loss_relative"] < 1e-3
    assert said["killed"]["epochs"] == 2
    assert said["killed"]["apart_from_two"]["loss_relative"] < 1e-3
    assert said["speed_up"] > 0
