"""What a service bears: batches of 256 from a few connections, a steady rate, a thousand connections, too much, memory.

    python benchmarks/serve/load.py --seconds 30 --steady 600 --awake

The service and the raw engine have one core alone, wrk the others. Needs taskset and wrk (Debian: apt install wrk).
A virtual machine may lend a core that has nothing to do to its neighbours, and wait for it when the next batch comes;
`--awake` lets a process of the lowest class, which gives way to every other, use up what is left of each core.
All figures of a run are from one machine at one time: the raw engine, fed with the same items in the same batches by a
process of its own, is measured before and after, and shares are of its mean.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[threads] = "1"

HERE = Path(__file__).resolve().parent
CORES = os.cpu_count() or 1
FIRST_CORE = ["taskset", "-c", "0"]
OTHER_CORES = ["taskset", "-c", f"1-{CORES - 1}"] if CORES > 1 else []
BATCH = 256
STEADY = 1  # connections of the steady part: one client, as kvec.Client is
FEW = 8  # items of a batch from each of a crowd
TANGLES = 64  # watched at once, at the most
PIECES = itertools.count()  # of load, each with names of its own
RAW = """
import json, sys, time
from kvec.decide.deployed import load_deployed
from kvec.decide.stream import Stream
from kvec.read.arriving import RowReader
from kvec.words.limits import Limits

model, bodies, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
deployed = load_deployed(model)
reader, batches = RowReader(deployed.schema), [json.loads(line) for line in open(bodies)]
stream = Stream(deployed, Limits(max_tangles={tangles}))
items = lambda n, r: [reader.item({{**row, "tangle": row["tangle"].replace("@", f"{{r}}.")}}) for row in batches[n]]
n_items, spent, cpu, n, r = 0, 0.0, 0.0, 0, 0
stream.feed_many(items(0, "warm"))
began = time.monotonic()
while time.monotonic() - began < seconds:
    some = items(n, r)
    start, before = time.perf_counter(), time.thread_time()
    stream.feed_many(some)
    spent, cpu = spent + time.perf_counter() - start, cpu + time.thread_time() - before
    n_items += len(some)
    n, r = (n + 1, r) if n + 1 < len(batches) else (0, r + 1)
print(json.dumps({{"items_per_second": round(n_items / spent), "items_per_cpu_second": round(n_items / cpu)}}))
"""


def make(folder: Path) -> tuple[Path, Path]:
    """A model of the preset small, and batches of traffic; `@` in a tangle's name stands for what makes it new."""
    from kvec.estimator import KVEC
    from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic
    from kvec.words.config import Config

    config = Config.preset("small").override(["training.epochs=1", "training.minutes=0.2"])
    KVEC.from_config(config, schema=DEMO_SCHEMA).fit(demo_traffic(24, 1), demo_traffic(8, 2)).save(folder / "model")
    rows = demo_traffic(40, 3).drop("label").sort("time").to_dicts()
    for row in rows:
        row["tangle"] = f"@{row['tangle']}"
    for size in (BATCH, FEW):
        with (folder / f"bodies-{size}.json").open("w") as out:
            for start in range(0, len(rows) - size, size):
                out.write(json.dumps(rows[start : start + size], separators=(",", ":")) + "\n")
    return folder / "model", folder / f"bodies-{BATCH}.json"


class Server:
    """A service in a process of its own, and how much memory and time it takes."""

    def __init__(self, model: Path, state: Path | None, *more: str) -> None:
        kept = ["--state", str(state)] if state is not None else []
        command = [sys.executable, "-m", "kvec", "serve", str(model), "--port", "0", "--max-tangles", str(TANGLES)]
        self.process = subprocess.Popen([*FIRST_CORE, *command, *kept, *more], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = ""
        while (found := re.search(r"at (http://\S+)", line)) is None:
            line = self.process.stderr.readline()
            if not line:
                raise SystemExit("the service did not start")
        self.url = found[1]
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.samples: list[tuple[float, float]] = []
        self._is_over = False
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._is_over:
            self.samples.append((round(time.monotonic() - began, 1), round(self.megabytes(), 1)))
            time.sleep(1)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self._is_over = True
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


def wrk(
    server: Server, bodies: Path, connections: int, seconds: float, rate: float | None = None, batch: int = BATCH
) -> dict[str, Any]:
    """Let wrk send batches over some connections: so many items a second, or as many as are answered.

    What takes longer than a minute is told by the minute too.
    """
    interval = 0.0 if rate is None else batch / rate
    environment = {**os.environ, "KVEC_BODIES": str(bodies), "KVEC_INTERVAL": str(interval)}
    pieces = []
    for left in np.arange(seconds, 0, -60):
        command = [
            *OTHER_CORES, "wrk", "-t1", f"-c{connections}", f"-d{min(left, 60):g}s", "--timeout", "30s",
            "-s", str(HERE / "load.lua"), server.url,
        ]  # fmt: skip
        cpu, began, (stolen, whole) = server.cpu(), time.monotonic(), _times()
        environment["KVEC_PIECE"] = str(next(PIECES))
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            while process.stdout.readline() not in ("OVER\n", ""):
                pass
            took, used, (now_stolen, now_whole) = time.monotonic() - began, server.cpu() - cpu, _times()
            out = process.stdout.read()  # wrk takes its time to sum up
        if process.returncode:
            raise SystemExit(f"wrk ended with {process.returncode}")
        piece = json.loads(re.search(r"KVEC (.*)", out)[1])  # type: ignore[index]
        times = {"cpu": used, "took": took, "stolen": now_stolen - stolen, "whole": now_whole - whole}
        pieces.append(piece | times)
    total = {name: sum(piece[name] for piece in pieces) for name in pieces[0] if name != "latencies"}
    answered = (total["requests"] - total["not_200"]) * batch
    told = {
        "connections": connections, "batch": batch, "rate": rate, "requests": total["requests"],
        "seconds": round(total["seconds"], 3), "errors": total["errors"], "not_200": total["not_200"],
        **_milliseconds(pieces), "items_per_second": round(answered / total["seconds"]),
        "items_per_cpu_second": round(answered / total["cpu"]) if total["cpu"] else None,
        "cores": round(total["cpu"] / total["took"], 2), "stolen": _share_stolen(total),
    }  # fmt: skip
    if len(pieces) > 1:
        told["by_minute"] = [_milliseconds([piece]) | {"stolen": _share_stolen(piece)} for piece in pieces]
    return told


def _milliseconds(pieces: list[dict[str, Any]]) -> dict[str, float]:
    """How long requests took, over all pieces."""
    counted = [np.array(piece["latencies"], np.int64).reshape(-1, 2).T for piece in pieces]
    found = np.concatenate([np.repeat(*one) for one in counted]) / 1000
    names = {"p50_ms": 50, "p90_ms": 90, "p99_ms": 99, "max_ms": 100}
    return {name: round(float(np.percentile(found, share)), 2) if len(found) else 0.0 for name, share in names.items()}


def _share_stolen(piece: dict[str, Any]) -> float:
    return round(float(piece["stolen"] / max(piece["whole"], 1)), 3)


def _times() -> tuple[int, int]:
    """Time of the machine's cores that its neighbours took, and all of it, since it began; nothing where untold."""
    try:
        told = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return 0, 0
    return told[7], sum(told)


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """Keep all cores busy with what gives way to everything else."""
    while_asked = "import os\nasked = os.getppid()\nwhile os.getppid() == asked: pass"
    spinning = ["chrt", "--idle", "0", sys.executable, "-c", while_asked]
    processes = [subprocess.Popen(["taskset", "-c", str(core), *spinning]) for core in range(CORES)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def raw(model: Path, bodies: Path, seconds: float) -> dict[str, Any]:
    out = subprocess.run(
        [*FIRST_CORE, sys.executable, "-c", RAW.format(tangles=TANGLES), str(model), str(bodies), str(seconds)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found: dict[str, Any] = json.loads(out)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each part (default: 20)")
    parser.add_argument("--steady", type=float, help="seconds of the steady part (default: as the others)")
    parser.add_argument(
        "--rate",
        type=float,
        default=8_200.0,
        help="items a second where it is not as fast as it goes (default: 8,200)",
    )
    parser.add_argument("--connections", type=int, default=1_000, help="of the crowd (default: 1,000)")
    parser.add_argument(
        "--keep-decisions",
        type=int,
        default=100_000,
        help="memory grows until the service keeps so many (default: 100,000)",
    )
    parser.add_argument("--awake", action="store_true", help="let no core fall asleep (needs chrt)")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "load.json", help="where the result goes")
    given = parser.parse_args()
    needed = {"wrk": "wrk", "taskset": "util-linux"} | ({"chrt": "util-linux"} if given.awake else {})
    for program, package in needed.items():
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed; on Debian: apt install {package}")
    import kvec

    with tempfile.TemporaryDirectory() as name, awake() if given.awake else contextlib.nullcontext():
        folder = Path(name)
        model, bodies = make(folder)
        engines = [raw(model, bodies, given.seconds / 2)]
        results: dict[str, Any] = {}
        server = Server(model, folder / "state", "--keep-decisions", str(given.keep_decisions))
        try:
            wrk(server, bodies, 4, min(given.seconds, 5))  # what is not measured: first memory, first snapshot
            results["as_fast_as_it_goes"] = wrk(server, bodies, 4, given.seconds)
            results["by_connections"] = [wrk(server, bodies, n, given.seconds, given.rate) for n in (1, 2, 4, 8)]
            before = len(server.samples)
            results["steady"] = wrk(server, bodies, STEADY, given.steady or given.seconds, given.rate)
            steady = [mb for _, mb in server.samples[before:]]
            late = steady[2 * len(steady) // 3 :]
            few = folder / f"bodies-{FEW}.json"
            results["crowd"] = wrk(server, few, given.connections, given.seconds, given.rate, FEW)
            results["memory_mb"] = {
                "first": server.samples[5][1], "last": server.samples[-1][1],
                "most": max(mb for _, mb in server.samples),
                "last_third_of_steady": {"first": late[0], "last": late[-1], "most": max(late)},
                "samples": server.samples[:: max(len(server.samples) // 60, 1)],
            }  # fmt: skip
        finally:
            code = server.stop()
        results["exit_code"] = code
        server = Server(model, folder / "small", "--max-queue", "4")
        try:
            results["too_much"] = wrk(server, bodies, 64, min(given.seconds, 10))
            time.sleep(1)
            results["after_it"] = wrk(server, bodies, 1, min(given.seconds, 5))
        finally:
            server.stop()
        engines.append(raw(model, bodies, given.seconds / 2))
    for unit in ("items_per_second", "items_per_cpu_second"):
        mean = sum(engine[unit] for engine in engines) / len(engines)
        results[f"share_of_engine_{unit}"] = round(results["as_fast_as_it_goes"][unit] / mean, 3)
    steady = f" --steady {given.steady:g}" if given.steady else ""
    words = f"--seconds {given.seconds:g}{steady} --rate {given.rate:g} --connections {given.connections}"
    words += f" --keep-decisions {given.keep_decisions}"
    words += " --awake" if given.awake else ""
    told = {
        "command": f"python benchmarks/serve/load.py {words}", "kvec": kvec.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load_average": [round(one, 1) for one in os.getloadavg()], "batch": BATCH, "engine": engines, **results,
    }  # fmt: skip
    given.output.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps({k: v for k, v in told.items() if k != "memory_mb"}, indent=1))


if __name__ == "__main__":
    main()
