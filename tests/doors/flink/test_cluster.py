"""A real Flink: left out where Java or apache-flink is missing, unless KVEC_FLINK=must wants it.

apache-flink lives in an environment of its own (`make flink`); KVEC_FLINK_PYTHON names its Python.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from benchmarks.flink.cluster import Cluster, missing
from tests.doors.made import Trained
from tests.doors.streamed import assert_same, decided, streamed

ROOT = Path(__file__).resolve().parents[3]
PYTHON = os.environ.get("KVEC_FLINK_PYTHON", str(ROOT / ".venv-flink" / "bin" / "python"))
PATIENCE = 400  # seconds; machines may be busy
# of every Java here: jobs are so short that compiling at once costs less than compiling well
HASTE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="module", autouse=True)
def needed() -> None:
    if reason := missing(PYTHON):
        (pytest.fail if os.environ.get("KVEC_FLINK") == "must" else pytest.skip)(reason)


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", HASTE)


def submit(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PYTHON, "-m", "kvec", "flink", *map(str, arguments)], env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def told(folder: Path, whole: Path) -> dict[str, Any]:
    """The decisions in the Parquet files of a sink; no lines are left."""
    assert not list(folder.glob("[!.]*.ndjson"))
    pl.read_parquet(folder / "*.parquet").write_ndjson(whole)
    return decided(whole)


def as_text(decisions: dict[str, Any]) -> dict[str, Any]:
    """Decisions with names of tangles and keys as Parquet has them."""
    return {id: {**one, "tangle": str(one["tangle"]), "key": str(one["key"])} for id, one in decisions.items()}


@pytest.mark.slow
def test_killed_and_rescaled_it_says_what_one_process_says(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two TaskManagers, of which one is killed; then from a savepoint at another parallelism, as Parquet."""
    copies = [
        pl.read_parquet(lively.items).with_columns(pl.format("{}-{}", "tangle", pl.lit(copy)).alias("tangle"))
        for copy in range(30)
    ]
    items = tmp_path / "items.ndjson"
    pl.concat(copies).sort("time", maintain_order=True).write_ndjson(items)
    streamed(lively.model, items, "-o", tmp_path / "alone.ndjson")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    common = (
        "--source", items, "--sink", tmp_path / "out", "--checkpoints", tmp_path / "kept", "--every", "0.3s",
    )  # fmt: skip
    slow = ("--set", "python.fn-execution.bundle.size=2")  # so that it still works when it is killed and stopped
    folder = tmp_path / "cluster"
    folder.mkdir()
    with Cluster(PYTHON, folder, slots=1) as cluster:
        for _ in range(2):
            cluster.add_worker()
        cluster.wait_for_workers(2, PATIENCE)
        job = sent(lively.model, *common, *slow, "-p", "2", "--cluster", cluster.address, "--detach")
        cluster.wait_for_checkpoints(job, 1, PATIENCE)
        assert cluster.state(job) != "FINISHED", "it must be killed while it works"
        cluster.kill_worker(cluster.workers[0])
        for _ in range(2):  # Beam may end the other TaskManager too (its reference count becomes negative)
            cluster.add_worker()
        cluster.wait_for_checkpoints(job, 1, PATIENCE)
        assert cluster.state(job) != "FINISHED", "it must be stopped while it works"
        savepoint = cluster.stop(job, tmp_path / "saved", PATIENCE)
        cluster.add_worker()
        cluster.wait_for_workers(3, PATIENCE)
        refused_over_more(items, (lively.model, *common, "--cluster", cluster.address, "--from", savepoint))
        more = submit(
            lively.model, *common, "-p", "3", "--cluster", cluster.address, "--from", savepoint,
            "--sink-format", "parquet",
        )  # fmt: skip
        _, said = more.communicate(timeout=PATIENCE)
        assert more.returncode == 0, said
    assert_same(told(tmp_path / "out", tmp_path / "all.ndjson"), as_text(decided(tmp_path / "alone.ndjson")))


def refused_over_more(items: Path, arguments: tuple[str | Path, ...]) -> None:
    """A file that has grown is refused by the command, by what Flink keeps in a savepoint; then it is as it was."""
    before = items.read_bytes()
    items.write_bytes(before + before.splitlines(keepends=True)[0])
    process = submit(*arguments)
    _, said = process.communicate(timeout=PATIENCE)
    items.write_bytes(before)
    assert process.returncode == 2, said
    assert "(new or changed since then: items.ndjson)" in said


def sent(*arguments: str | Path) -> str:
    """Submit a job that is left to the cluster; its id."""
    process = submit(*arguments)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    found = re.search(r"job ([0-9a-f]{32}) runs on", said)
    assert found is not None, said
    return found[1]


def test_what_a_worker_loads_is_slim(lively: Trained) -> None:
    """A worker runs where PyTorch is not even installed."""
    code = (
        "import sys, kvec.doors.flink.worker\n"
        f"from kvec.decide.deployed import load_deployed; load_deployed({str(lively.model)!r})\n"
        "print(sorted({'torch', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([PYTHON, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.replace("'", '"')) == []


@pytest.mark.parametrize("words", [("--source", "kafka://127.0.0.1:9/items"), ("--sink", "kafka://127.0.0.1:9/told")])
def test_kafka_without_its_connector_says_what_is_missing(
    words: tuple[str, str], lively: Trained, tmp_path: Path
) -> None:
    common = {"--source": lively.items, "--sink": str(tmp_path / "out"), words[0]: words[1]}
    process = submit(lively.model, *(word for pair in common.items() for word in pair))
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, said
    assert said.splitlines()[-1].endswith("--jar flink-sql-connector-kafka-….jar")


def test_parquet_is_written_and_rows_that_cannot_be_used_go_where_they_are_wished(
    lively: Trained, tmp_path: Path
) -> None:
    """In the small cluster that lives in the command's own process."""
    items = tmp_path / "items.ndjson"
    pl.read_parquet(lively.items).write_ndjson(items)
    streamed(lively.model, items, "-o", tmp_path / "alone.ndjson")
    with items.open("a", encoding="utf-8") as more:
        more.write(
            'broken\n{"tangle": 1, "key": "x", "time": "soon"}\n{"tangle": "\\ud800", "key": "\\ud801", "time": 0}\n'
        )
    process = submit(
        lively.model, "--source", items, "--sink", tmp_path / "out", "--sink-format", "parquet", "-p", "2",
        "--dead-letters", tmp_path / "bad",
    )  # fmt: skip
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    found = told(tmp_path / "out", tmp_path / "all.ndjson")
    assert found.pop(r"\ud800/\ud801/0")["key"] == r"\ud801"
    assert_same(found, as_text(decided(tmp_path / "alone.ndjson")))
    bad = [json.loads(line) for path in (tmp_path / "bad").glob("[!.]*") for line in path.read_text().splitlines()]
    assert sorted(row["raw"][:6] for row in bad) == ["broken", '{"tang']


def test_what_a_worker_refuses_is_told_when_the_job_has_given_up(lively: Trained, tmp_path: Path) -> None:
    items = tmp_path / "items.ndjson"
    pl.read_parquet(lively.items).write_ndjson(items)
    process = submit(
        lively.model, "--source", items, "--sink", tmp_path / "out", "--set",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff=1",
    )  # fmt: skip
    assert process.stderr is not None
    before = ""
    while "runs on local" not in before:
        line = process.stderr.readline()
        assert line, before
        before += line
    items.unlink()  # workers take longer than this to start
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, said
    assert f"{items}: cannot be read by this worker" in said.splitlines()[-1]
