"""Training in two processes against one: the loss curve, the speed-up, a worker killed, and memory when streamed.

    python benchmarks/train/ddp.py -o benchmarks/train/ddp.json

Data is made (`demo_traffic`), written as Parquet and trained on by `torchrun -m kvec train`, with the same batches for
any number of processes and without dropout, which differs from process to process. Each process has one thread. Seconds
are those of the clock, so the machine must be idle for the speed-up to mean anything; `load` says whether it was. How
far rounding alone carries a training in single precision is shown by one process whose learning rate is larger by a
ten-millionth.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from told import tell

import kvec
from kvec.estimator import load
from kvec.read.synthetic import demo_traffic

FLAGS = [
    "--key", "key", "--tangle", "tangle", "--time", "time", "--values", "size,direction", "--session", "direction",
    "--label", "label", "--set", "encoder.dropout=0", "--set", "training.patience=1000", "--quiet",
]  # fmt: skip


def made(n_tangles: int, file: Path) -> int:
    """Write so many tangles, some at a time; how many items they have."""
    parts = []
    for seed, first in enumerate(range(0, n_tangles, 2000)):
        part = demo_traffic(min(2000, n_tangles - first), seed=seed)
        parts.append(part.with_columns(pl.col("tangle") + first))
    frame = pl.concat(parts)
    frame.write_parquet(file, row_group_size=50_000)
    return frame.height


def command(n: int, data: Path, output: Path, more: list[str], restarts: int = 0) -> list[str]:
    """Train in so many processes."""
    words = ["kvec", "train", str(data), *FLAGS, *more, "-o", str(output)]
    if n == 1:
        return [sys.executable, "-m", *words]
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n), "--monitor-interval",
        "0.2", "--max-restarts", str(restarts), "-m", *words,
    ]  # fmt: skip


def trained(words: list[str], is_killed: bool = False) -> tuple[Any, float, float]:
    """Train, perhaps with a worker killed after the first epoch; the model, seconds, and the largest process in MB."""
    output = Path(words[-1])
    started = time.perf_counter()
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
    )  # fmt: skip
    if is_killed:
        while not output.with_name(output.name + ".training").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        os.kill(children(process.pid)[-1], signal.SIGKILL)
    peak = 0.0
    while process.poll() is None:
        peak = max([peak, *(memory(pid) for pid in [process.pid, *children(process.pid)])])
        time.sleep(0.05)
    assert process.stderr is not None
    assert process.returncode == 0, process.stderr.read()
    return load(output).model_, time.perf_counter() - started, peak


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    listed = subprocess.run(["ps", "--ppid", str(parent), "-o", "pid="], capture_output=True, text=True, check=False)
    return sorted(int(pid) for pid in listed.stdout.split())


def memory(pid: int) -> float:
    """The most memory that a process has had, in MB; 0 where it is over."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return max((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), default=0.0)


def curve(model: Any) -> list[dict[str, float]]:
    """Loss and HM after each epoch, and its seconds."""
    names = ("epoch", "loss", "hm", "seconds")
    return [{name: round(record[name], 6) for name in names} for record in model.history]


def difference(one: Any, other: Any) -> dict[str, Any]:
    """How far apart two models are: losses of all epochs, and class probabilities of the validation sequences."""
    losses = [abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(one.history, other.history, strict=True)]
    scores = np.abs(one.validation["classes.0"] - other.validation["classes.0"])
    return {
        "loss_relative": max(losses),
        "class_probability": {"mean": float(scores.mean()), "most": float(scores.max())},
    }


def measured_memory(folder: Path, n_tangles: int, window: int) -> dict[str, Any]:
    """The largest process, and seconds of an epoch: with hardly any data, with all in memory, and streamed."""
    few, large = folder / "few.parquet", folder / "large.parquet"
    made(100, few)
    n_large = made(n_tangles, large)
    streamed = ["--stream", "--set", f"training.stream_items={window}"]
    peaks, loading = {}, {}
    for way, file, more in (("few", few, []), ("in_memory", large, []), ("streamed", large, streamed)):
        short = ["--epochs", "1", "--set", "encoder.blocks=1", "--set", "encoder.width=16", *more]
        model, _, peaks[way] = trained(command(1, file, folder / way, short))
        loading[way] = model.history[0]["seconds"]
    return {
        "items": n_large,
        "window": window,
        "few": "what a hundred tangles take: the programs themselves",
        "peak_mb": {way: round(peak) for way, peak in peaks.items()},
        "seconds_of_an_epoch": {way: round(spent, 2) for way, spent in loading.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tangles", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--window", type=int, default=100_000, help="items of a window of the streamed training")
    parser.add_argument(
        "--large", type=int, default=20_000, help="tangles of the set that memory is measured on; 0: it is not measured"
    )
    parser.add_argument("-o", "--out")
    given = parser.parse_args()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "items.parquet"
        n_items = made(given.tangles, data)
        epochs = ["--epochs", str(given.epochs)]
        one, *_ = trained(command(1, data, folder / "one", epochs))
        two, *_ = trained(command(2, data, folder / "two", epochs))
        rate = one.config.training.learning_rate * (1 + 1e-7)
        nudge = ["--set", f"training.learning_rate={rate!r}"]
        nudged, *_ = trained(command(1, data, folder / "nudged", [*epochs, *nudge]))
        killed, seconds, _ = trained(command(2, data, folder / "killed", epochs, restarts=1), is_killed=True)
        speed = [statistics.median(r["seconds"] for r in model.history) for model in (one, two)]
        memory_used = measured_memory(folder, given.large, given.window) if given.large else None
    result = {
        "command": " ".join(["python", *sys.argv]),
        "kvec": kvec.__version__,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": {"before": round(load_before, 1), "after": round(os.getloadavg()[0], 1)},
        "data": {"tangles": given.tangles, "items": n_items},
        "one_process": curve(one),
        "two_processes": curve(two),
        "apart": difference(one, two),
        "apart_by_rounding": difference(one, nudged),
        "seconds_per_epoch": {"one": round(speed[0], 2), "two": round(speed[1], 2)},
        "speed_up": round(speed[0] / speed[1], 2),
        "killed": {
            "epochs": len(killed.history),
            "apart_from_two": difference(two, killed),
            "seconds": round(seconds, 1),
        },
        "memory": memory_used,
    }
    tell(result, given.out)


if __name__ == "__main__":
    main()
