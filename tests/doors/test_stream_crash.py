"""Two runs of the crash test in `benchmarks/stream`."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.doors.made import Trained
from tests.doors.streamed import streamed, written

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "stream" / "crash.py"


@pytest.fixture(scope="module")
def crash() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crash", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules["crash"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("source", ["file", "socket"])
def test_killed_and_gone_on_with(crash: ModuleType, lively: Trained, tmp_path: Path, source: str) -> None:
    items = written(lively.frame.head(1500), tmp_path / "items.ndjson")
    streamed(lively.model, items, "-o", tmp_path / "wanted.ndjson")
    break_one = getattr(crash, f"break_{source}")
    (tmp_path / "run").mkdir()
    break_one(tmp_path / "run", items, Path(lively.model), tmp_path / "wanted.ndjson", random.Random(1), kills=1)


def test_differences_are_found(crash: ModuleType, tmp_path: Path) -> None:
    one = '{"id": "0/a/0", "label": "x", "n_observed": 1, "reason": "halted", "probability": 0.5}\n'
    (tmp_path / "d.ndjson").write_text(one * 2)
    with pytest.raises(AssertionError, match="1 decisions are there twice"):
        crash.decisions(tmp_path / "d.ndjson")
    (tmp_path / "d.ndjson").write_text(one)
    wanted = crash.decisions(tmp_path / "d.ndjson")
    for found in ({}, {**wanted, "0/b/0": ("x", 1, "halted", 0.5)}, {"0/a/0": ("y", 1, "halted", 0.5)}):
        with pytest.raises(AssertionError, match="lost"):
            crash.require_same(found, wanted, "file")


def test_the_result_tells_its_command_and_machine(
    crash: ModuleType, lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        monkeypatch.setenv(name, "1")  # set by the script, and undone here
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    items = written(lively.frame.head(100), tmp_path / "items.ndjson")
    monkeypatch.setattr(crash, "make", lambda *_: (items, Path(lively.model)))
    for source in ("file", "socket"):
        monkeypatch.setattr(crash, f"break_{source}", lambda *_: 2)
    result = tmp_path / "crash.json"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--runs", "3", "--result", str(result), "--seed", "7"])
    crash.main()
    said = json.loads(result.read_text())
    assert said["command"] == "python benchmarks/stream/crash.py --runs 3 --seed 7"
    assert said["outcome"] == "after every kill the decisions of the stream that never broke, each of them once"
    assert said["machine"] and said["kvec"] and said["matmul_gflops"] > 0
    assert said["socket"]["runs"] == 3 and said["socket"]["killed_at_work"] == 6
