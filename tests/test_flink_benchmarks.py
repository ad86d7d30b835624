"""The benchmarks of Flink that need none run, on a little made FG-Net, and say what they are meant to say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FG-Net as its schema reads it: rows of flows, of which each capture has some of one app."""
    rng, rows = np.random.default_rng(0), []
    for capture in range(60):
        for _ in range(4):
            n = int(rng.integers(5, 15))
            size = (rng.integers(40, 60, n) + 20 * (capture % 3)) * rng.choice([-1, 1], n)
            gap = [0.0, *rng.random(n - 1).tolist()]
            rows.append((len(rows), f"c{capture}", f"app {capture % 3}", float(rng.random()), size.tolist(), gap))
    path = tmp_path_factory.mktemp("made") / "fgnet.parquet"
    pl.DataFrame(rows, ["flow", "capture", "app", "start", "size", "gap"], orient="row").write_parquet(path)
    return path


def ran(script: str, out: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "flink" / script), *map(str, words), "-o", str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def run(script: str, out: Path, *words: str | Path) -> Any:
    done = ran(script, out, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text()) == json.loads(done.stdout)
    return json.loads(done.stdout)


def test_what_splitting_costs_and_what_a_state_weighs(data: Path, tmp_path: Path) -> None:
    few = ("--items", "2000", "--test-items", "400", "--side-by-side", "2", "--epochs", "1")
    said = run("split.py", tmp_path / "out.json", data, *few, "--work", tmp_path)
    assert said["command"] == f"python benchmarks/flink/split.py fgnet.parquet {' '.join(few)}"
    assert said["1 by key"]["accuracy_against_whole"] == {"mean": 0.0, "95%": [0.0, 0.0]}
    for name in ("64 by key", "4 by first", "each key alone"):
        assert said[name]["sequences"] == said["1 by key"]["sequences"] > 10
        low, high = said[name]["accuracy_against_whole"]["95%"]
        assert low <= said[name]["accuracy_against_whole"]["mean"] <= high

    (tmp_path / "split-model").rename(tmp_path / "model")
    pl.read_parquet(tmp_path / "split-train.parquet").drop("label").write_parquet(tmp_path / "items.parquet")
    said = run("state.py", tmp_path / "state.json", "--work", tmp_path)
    assert said["items"] == pl.read_parquet(tmp_path / "items.parquet").height
    assert said["state_at_most"]["bytes"] > said["written_bytes_of_an_item"]["log"] > 0


def test_what_was_lost_doubled_or_different_is_a_failure(tmp_path: Path) -> None:
    """All steps are done, and lie in the work folder."""
    well = {"lost": 0, "doubled": 0, "unknown": 0, "different": 0}
    done = {"items": {}, "alone": {}, "flink": well, "killed": well, "rescaled": well, "latency": {}}
    for killed, code in ((well, 0), (well | {"lost": 3, "different": 1}, 1)):
        (tmp_path / "show.json").write_text(json.dumps(done | {"killed": killed}))
        ended = ran("show.py", tmp_path / "out.json", "fgnet.parquet", "--work", tmp_path)
        assert ended.returncode == code, ended.stderr
        assert json.loads((tmp_path / "out.json").read_text())["killed"] == killed, "told all the same"
    assert ended.stderr.strip() == "not what one process says: killed 3 lost, killed 1 different"
