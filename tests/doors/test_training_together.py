"""`kvec train` under torchrun: as one process, after a worker was killed, and on two hosts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.learn.test_streamed import made, written
from tests.read.packets.wires import HERE, THERE, counted, wire

from kvec.doors.cli import run
from kvec.doors.flags import SchemaFlags
from kvec.doors.training import train_model
from kvec.estimator import KVEC, load
from kvec.words.config import Config

PATIENCE = 400.0  # seconds; on an idle machine all is over in twenty
FLAGS = (
    "--key", "key", "--tangle", "tangle", "--order", "order", "--values", "sign,x,y", "--kind", "y=projected",
    "--label", "label", "--epochs", "4", "--quiet",
)  # fmt: skip
SMALL = [
    "encoder.width=16", "encoder.blocks=1", "encoder.heads=2", "encoder.feed_forward=32", "encoder.fusion=16",
    "encoder.dropout=0", "training.learning_rate=0.003",
]  # fmt: skip
CONFIG = Config().override([*SMALL, "training.stream_items=800"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(made(160), tmp_path_factory.mktemp("together") / "data")


@pytest.fixture(scope="module")
def alone(data: Path) -> KVEC:
    """The model of one process, of windows of a third of the data."""
    output = data.parent / "alone"
    assert run([*words(data, output)]) == 0
    return load(output)


def words(data: Path, output: Path) -> list[str]:
    settings = [word for each in [*SMALL, "training.stream_items=800"] for word in ("--set", each)]
    return ["train", str(data), *FLAGS, *settings, "-o", str(output)]


def torchrun(*options: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--monitor-interval", "0.1", *options, "-m", "kvec"]


def workers_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(folder.name))
    return sorted(found)


def finish(process: subprocess.Popen[Any]) -> tuple[str, str]:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"still running: {out}\n{err}")
    assert process.returncode == 0, f"{out}\n{err}"
    return out, err


def assert_near(one: KVEC, two: KVEC) -> None:
    """Single precision adds up in another order; Adam makes more of that than of rounding alone."""
    assert len(one.model_.history) == len(two.model_.history)
    for mine, theirs in zip(one.model_.history, two.model_.history, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
    assert one.model_.vocabulary == two.model_.vocabulary
    np.testing.assert_allclose(one.model_.validation["classes.0"], two.model_.validation["classes.0"], atol=1e-2)


def test_a_worker_is_killed_and_the_run_ends_where_one_process_ends(data: Path, alone: KVEC, tmp_path: Path) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("processes are found in /proc")
    output = tmp_path / "model"
    process = subprocess.Popen(
        [*torchrun("--standalone", "--nproc-per-node", "2", "--max-restarts", "1"), *words(data, output)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    until = time.monotonic() + PATIENCE
    while not (tmp_path / "model.training").exists():  # until the first epoch is over
        assert process.poll() is None and time.monotonic() < until, process.communicate()
        time.sleep(0.005)
    victims = workers_of(process.pid)
    assert len(victims) == 2
    os.kill(victims[1], signal.SIGKILL)
    out, err = finish(process)
    assert "exitcode: -9" in err or "Signal 9" in err, err
    assert out.count("the model is in") == 1, "the first process speaks, the other is silent"
    assert not (tmp_path / "model.training").exists()
    assert_near(alone, load(output))


def test_two_hosts_train_one_model(data: Path, alone: KVEC, tmp_path: Path) -> None:
    with wire() as link:
        before = counted(link, "left")
        hosts = []
        for side, address, is_host in (("left", HERE, 1), ("right", THERE, 0)):
            options = (
                "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{HERE}:29400",
                "--rdzv-id", "kvec", "--rdzv-conf", f"is_host={is_host}", "--local-addr", address,
            )  # fmt: skip
            folder = tmp_path / side
            folder.mkdir()
            hosts.append(link.start(
                side, [*torchrun(*options), *words(data, folder / "model")],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": side},
            ))  # fmt: skip
        told = [finish(host)[0] for host in hosts]
        assert counted(link, "left") - before > 200
    (first,) = [side for side in ("left", "right") if (tmp_path / side / "model").exists()]
    assert [bool(each) for each in told] == [first == "left", first == "right"]
    assert not list(tmp_path.glob("*/model.training"))
    assert_near(alone, load(tmp_path / first / "model"))


def test_an_older_run_is_gone_before_a_worker_can_die(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = tmp_path / "model.training"

    def dies(*given: Any) -> Any:
        raise SystemExit(9)

    def started(*more: str, **told: str) -> bool:
        """Whether the older run is still there when a worker dies while it reads."""
        unfinished.write_text("an older run")
        with monkeypatch.context() as patch:
            patch.setattr("kvec.doors.training.open_by_flags", dies)
            for name, value in told.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit):
                train_model(
                    data, tmp_path / "model", SchemaFlags(), CONFIG, None, None, None, "cpu", bool(more), quiet=True
                )  # fmt: skip
        return unfinished.exists()

    many = {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "TORCHELASTIC_MAX_RESTARTS": "3"}
    assert not started(**many, RANK="0", LOCAL_RANK="0")
    assert "model.training holds an unfinished run, which is begun anew" in capsys.readouterr().err
    assert not started(**many, RANK="2", LOCAL_RANK="0"), "nor on another host"
    assert started(**many, RANK="1", LOCAL_RANK="1"), "one process of a host does that"
    assert started(**many, RANK="0", LOCAL_RANK="0", TORCHELASTIC_RESTART_COUNT="1"), "it is of this run"
    assert started("--resume", **many, RANK="0", LOCAL_RANK="0")
    assert started(), "nobody would be started again: it goes when another run begins"


def test_bad_data_is_told_by_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.DataFrame({"key": [1], "sign": ["a"]}).write_parquet(tmp_path / "items.parquet")
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert run(["train", str(tmp_path / "items.parquet"), "--label", "no", "-o", str(tmp_path / "model")]) == 2
    assert capsys.readouterr().err.startswith("kvec: process 1: ")
