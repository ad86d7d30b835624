"""What Flink does to a stream: the same decisions, killed or rescaled, and what it costs.

    python benchmarks/flink/show.py fgnet_d1.parquet --items 1000000 --work scratch

Steps that are done lie in the work folder and are not done again, so it can be stopped and run on. One step starts one
cluster: a JobManager, and TaskManagers as processes of their own. Needs Java, and `make flink`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prepared import SOURCE, Results, items_of, origin, python, train  # first: it says how many threads there are

import numpy as np  # isort: skip
import polars as pl  # isort: skip
from cluster import Cluster, missing  # isort: skip

HERE = Path(__file__).resolve().parent
COLUMNS = ("tangle", "key", "sequence", "label", "n_observed", "length", "reason")
COMPARED = ("flink", "killed", "rescaled")  # steps that are held against one process
FAULTS = ("lost", "doubled", "unknown", "different")
PATIENCE = 3600.0


def main() -> None:
    given = arguments()
    work = Path(given.work)
    work.mkdir(parents=True, exist_ok=True)
    results = Results(work / "show.json", origin(given.data, "--work", "--python", "-o"))
    show = Show(given, work, results)
    steps = {"items": show.prepare, "alone": show.alone, "flink": show.steady, "killed": show.killed,
             "rescaled": show.rescaled, "latency": show.latency}  # fmt: skip
    if steps.keys() - results.done and (reason := missing(given.python)):
        raise SystemExit(reason)
    for name, do in steps.items():
        results.step(name, do)
    text = json.dumps(results.done, indent=1)
    (Path(given.out) if given.out else HERE / "show.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    if found := faults(results.done):
        raise SystemExit(f"not what one process says: {', '.join(found)}")


def faults(done: dict[str, Any]) -> list[str]:
    """What Flink lost, doubled or said otherwise, step by step."""
    return [f"{name} {done[name][what]} {what}" for name in COMPARED for what in FAULTS if done[name][what]]


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("data", help="fgnet_d1.parquet")
    made.add_argument("--schema", default=str(SOURCE / "kvec/read/schemas/fgnet_d1.toml"))
    made.add_argument("--items", type=int, default=1_000_000)
    made.add_argument("--train-minutes", type=float, default=1.0)
    made.add_argument("--latency-items", type=int, default=18_000)
    made.add_argument("--warm-up", type=float, default=20.0, help="seconds of it that are not measured")
    made.add_argument("--rate", type=float, default=300.0, help="items per second while latency is measured")
    made.add_argument("--every", default="5s", help="between checkpoints")
    made.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of Flink's")
    made.add_argument("--work", required=True, help="a folder for what is made on the way")
    made.add_argument("--python", default=str(HERE.parents[1] / ".venv-flink/bin/python"), help="with apache-flink")
    made.add_argument("-o", "--out", help="the result (default: show.json beside this script)")
    return made.parse_args()


class Show:
    """The steps."""

    def __init__(self, given: argparse.Namespace, work: Path, results: Results) -> None:
        self.given, self.work, self.results = given, work, results
        self.items, self.model = work / "items.parquet", work / "model"
        os.environ["PYTHONPATH"] = str(SOURCE)

    def prepare(self) -> dict[str, Any]:
        """Items, and a model of some of them."""
        frame = items_of(self.given.data, self.given.schema, self.given.items)
        frame.drop("label").write_parquet(self.items, row_group_size=1 << 16)
        head = frame.filter(pl.col("tangle").is_in(frame["tangle"].unique(maintain_order=True).head(60).implode()))
        head.head(60_000).write_parquet(self.work / "train.parquet")
        train(self.work / "train.parquet", self.model, "--minutes", str(self.given.train_minutes))
        keys = frame.select("tangle", "key").n_unique()
        return {"items": frame.height, "tangles": frame["tangle"].n_unique(), "keys": keys}

    def alone(self) -> dict[str, Any]:
        """One process of `kvec stream` over the same file, under the workers' Python."""
        seconds, cpu = python("stream", self.model, self.items, "-o", self.work / "alone.ndjson",
                              program=self.given.python)  # fmt: skip
        return {**self.rates(seconds, cpu), "decisions": len(self.wanted())}

    def steady(self) -> dict[str, Any]:
        """Two TaskManagers, left in peace."""
        with self.cluster("steady", 2) as cluster:
            job, before, start = self.send(cluster, "steady", 2), cluster.cpu(), time.perf_counter()
            used = self.watch(cluster, job)
            seconds = time.perf_counter() - start
            facts = self.checkpoints(cluster, job)
        cpu = {name: round(value - before[name], 1) for name, value in used["cpu"].items()}
        return {
            **self.rates(seconds, cpu["java"] + cpu["python"]), "cpu_seconds_of": cpu, "peak_mb": used["mb"], **facts,
            **self.compared("steady"),
        }  # fmt: skip

    def killed(self) -> dict[str, Any]:
        """A TaskManager is killed mid-way, twice."""
        with self.cluster("killed", 2) as cluster:
            job, start, kills = self.send(cluster, "killed", 2), time.perf_counter(), []
            for number in range(2):
                cluster.wait_for_checkpoints(job, 2 if number else 1, PATIENCE)
                if cluster.state(job) == "FINISHED":
                    raise SystemExit(
                        "the job ended before it was killed twice; give more --items, or a shorter --every"
                    )
                cluster.kill_worker(cluster.workers[0])
                kills.append(round(time.perf_counter() - start, 1))
                cluster.add_worker()
            self.watch(cluster, job)
            seconds = time.perf_counter() - start
            restarts = int(self.metric(cluster, job, "numRestarts"))
        return {"seconds": round(seconds, 1), "killed_after_seconds": kills, "restarts": restarts,
                **self.compared("killed")}  # fmt: skip

    def rescaled(self) -> dict[str, Any]:
        """Stopped with a savepoint at two workers, and gone on with at four."""
        with self.cluster("rescaled", 4) as cluster:
            job = self.send(cluster, "rescaled", 2)
            cluster.wait_for_checkpoints(job, 1, PATIENCE)
            start = time.perf_counter()
            savepoint = cluster.stop(job, self.work / "rescaled-saved", PATIENCE)
            saved = time.perf_counter() - start
            size = sum(path.stat().st_size for path in savepoint.rglob("*") if path.is_file())
            done = sum(1 for _ in self.lines("rescaled"))
            more = self.send(cluster, "rescaled", 4, "--from", savepoint)
            self.watch(cluster, more)
        return {"savepoint_seconds": round(saved, 1), "savepoint_bytes": size, "decisions_before": done,
                "parallelism": [2, 4], **self.compared("rescaled")}  # fmt: skip

    def latency(self) -> dict[str, Any]:
        """From the moment a row is written to a socket until its decision is on a worker's standard output."""
        rows = [json.dumps(row) for row in pl.read_parquet(self.items).head(self.given.latency_items).to_dicts()]
        sent: dict[tuple[str, Any], list[float]] = defaultdict(list)
        with self.cluster("latency", 2) as cluster, socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            words = ["--source", f"socket://127.0.0.1:{port}", "--sink", "-"]
            sender = threading.Thread(target=self.pace, args=(server, rows, sent), daemon=True)
            sender.start()
            job = self.send(cluster, "latency", 2, words=words)
            seen = self.listen(cluster, job, sender)
        begun = min((times[0] for times in sent.values()), default=0.0) + self.given.warm_up
        halted = [(when, sent[row["tangle"], row["key"]][row["n_observed"] - 1]) for when, row in seen
                  if row["reason"] == "halted"]  # fmt: skip
        late = [when - came for when, came in halted if came > begun]
        if not late:
            return {"decisions": len(seen), "halted": 0}
        found = np.percentile(np.array(late) * 1000, [50, 90, 99, 100]).round(1).tolist()
        return {"rate": self.given.rate, "decisions": len(seen), "halted": len(late),
                "milliseconds": dict(zip(("p50", "p90", "p99", "max"), found, strict=True))}  # fmt: skip

    # -- parts --------------------------------------------------------------------------------------------------

    @contextmanager
    def cluster(self, name: str, workers: int) -> Iterator[Cluster]:
        """A fresh cluster, and fresh folders for one step."""
        folder = self.work / f"cluster-{name}"
        for path in (folder, self.work / name, self.work / f"{name}-kept", self.work / f"{name}-saved"):
            shutil.rmtree(path, ignore_errors=True)
        folder.mkdir()
        with Cluster(self.given.python, folder) as cluster:
            for _ in range(workers):
                cluster.add_worker()
            cluster.wait_for_workers(workers, 600)
            yield cluster

    def send(
        self, cluster: Cluster, name: str, parallelism: int, *more: str | Path, words: list[str] | None = None
    ) -> str:
        """Submit a job; its id."""
        words = words or ["--source", str(self.items), "--sink", str(self.work / name)]
        done = subprocess.run(
            [self.given.python, "-m", "kvec", "flink", str(self.model), *words, "--checkpoints",
             str(self.work / f"{name}-kept"), "--every", self.given.every, "-p", str(parallelism), "--detach",
             "--cluster", cluster.address, *(word for one in self.given.set for word in ("--set", one)),
             *map(str, more)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        found = re.search(r"job ([0-9a-f]{32}) runs on", done.stderr)
        if found is None:
            raise SystemExit(done.stderr)
        return found[1]

    def watch(self, cluster: Cluster, job: str) -> dict[str, dict[str, float]]:
        """Wait for the end; the most memory and CPU on the way, as Python workers are gone with the job."""
        used: dict[str, dict[str, float]] = {"mb": {}, "cpu": {}}
        until = time.monotonic() + PATIENCE
        while (state := cluster.state(job)) != "FINISHED":
            if state in ("FAILED", "CANCELED") or time.monotonic() > until:
                raise SystemExit(f"the job is {state}; logs are in {cluster.logs}")
            for most, now in ((used["mb"], cluster.memory()), (used["cpu"], cluster.cpu())):
                most |= {name: max(most.get(name, 0.0), value) for name, value in now.items()}
            time.sleep(0.5)
        return used

    def checkpoints(self, cluster: Cluster, job: str) -> dict[str, Any]:
        """Size and time of checkpoints, and how much state there was for each sequence that was live then."""
        found = cluster.checkpoints(job)
        history = [one for one in found["history"] if one["status"] == "COMPLETED"]
        sizes, times = [one["state_size"] for one in history], [one["end_to_end_duration"] for one in history]
        return {"checkpoints": found["counts"]["completed"], "checkpoint_bytes": {"max": max(sizes, default=0)},
                "checkpoint_ms": {"median": float(np.median(times)), "max": max(times)} if times else {}}  # fmt: skip

    def metric(self, cluster: Cluster, job: str, name: str) -> str:
        """A metric of a job."""
        return str(cluster.get(f"/jobs/{job}/metrics?get={name}")[0]["value"])

    def rates(self, seconds: float, cpu: float) -> dict[str, Any]:
        """Speed by the clock, and by the CPU."""
        n = self.results.done["items"]["items"]
        return {"seconds": round(seconds, 1), "items_per_second": round(n / seconds), "cpu_seconds": round(cpu, 1),
                "items_per_cpu_second": round(n / cpu)}  # fmt: skip

    def lines(self, name: str) -> Iterator[Any]:
        """The decisions in a sink."""
        for path in (self.work / name).glob("[!.]*.ndjson"):
            with path.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)

    def wanted(self) -> dict[str, Any]:
        """The decisions of one process, by name."""
        with (self.work / "alone.ndjson").open(encoding="utf-8") as lines:
            return {row["id"]: row for row in map(json.loads, lines)}

    def compared(self, name: str) -> dict[str, Any]:
        """The sink's decisions against those of one process, key for key."""
        wanted, found, doubled = self.wanted(), {}, 0
        for row in self.lines(name):
            doubled += row["id"] in found
            found[row["id"]] = row
        both = wanted.keys() & found.keys()
        different = sum(any(wanted[i][c] != found[i][c] for c in COLUMNS) for i in both)
        apart = max((abs(wanted[i]["probability"] - found[i]["probability"]) for i in both), default=0.0)
        return {"decisions": len(found), "lost": len(wanted.keys() - found.keys()), "doubled": doubled,
                "unknown": len(found.keys() - wanted.keys()), "different": different,
                "largest_difference_of_probability": apart}  # fmt: skip

    def pace(self, server: socket.socket, rows: list[str], sent: dict[tuple[str, Any], list[float]]) -> None:
        """Write rows to whoever connects, at a steady rate, and note when."""
        connection, _ = server.accept()
        with connection:
            start = time.time()
            for number, row in enumerate(rows):
                time.sleep(max(start + number / self.given.rate - time.time(), 0))
                plain = json.loads(row)
                sent[plain["tangle"], plain["key"]].append(time.time())
                connection.sendall(row.encode() + b"\n")
            time.sleep(3)

    def listen(self, cluster: Cluster, job: str, sender: threading.Thread) -> list[tuple[float, Any]]:
        """Read the workers' output while it grows, and when each decision was seen."""
        places: dict[Path, int] = defaultdict(int)
        seen = []
        until = time.monotonic() + self.given.latency_items / self.given.rate + 600
        while (sender.is_alive() or cluster.state(job) == "RUNNING") and time.monotonic() < until:
            for path in cluster.logs.glob("taskmanager.sh-*.out"):
                with path.open("rb") as file:
                    file.seek(places[path])
                    content = file.read()
                now, whole = time.time(), content.rpartition(b"\n")[0]
                places[path] += len(whole) + 1 if whole else 0
                for line in whole.splitlines():
                    if b'{"id":' in line:
                        seen.append((now, json.loads(line[line.index(b'{"id":') :])))
            time.sleep(0.002)
        return seen


if __name__ == "__main__":
    sys.exit(main())
