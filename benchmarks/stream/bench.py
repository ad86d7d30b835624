"""How long an item takes: one at a time (latency from an item to its decisions) and in chunks (items per second).

    python benchmarks/stream/bench.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml

Tangles run side by side, and flows carry end marks. Latencies come by the wall clock and by the CPU's, which a busy
machine troubles less. `gc` says what Python's garbage collector did meanwhile; with `frozen`, `gc.freeze()` was called
once after start-up, so that it no longer looks at what was there before.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import common
import numpy as np

from kvec.decide.stream import Stream
from kvec.words.limits import Limits

EXPECTED = "training.objective=expected"  # so that the learned hazard halts
RULES = {
    "default": [], "typed": [EXPECTED], "paper": [EXPECTED, "visibility.rule=paper"],
    "window": [EXPECTED, "visibility.rule=window"],
}  # fmt: skip
LIMITS = Limits(max_tangles=64)


class Pauses:
    """The collections of the garbage collector while something runs."""

    def __init__(self) -> None:
        self.n, self.nanoseconds, self._start = [0, 0, 0], [], 0

    def hear(self, phase: str, info: dict[str, int]) -> None:
        """As `gc.callbacks` tells it."""
        if phase == "start":
            self._start = time.perf_counter_ns()
        else:
            self.n[info["generation"]] += 1
            self.nanoseconds.append(time.perf_counter_ns() - self._start)


def one_at_a_time(stream: Stream, pool: common.Pool, n: int, warm: int) -> dict[str, Any]:
    source = pool.items()
    for some in common.chunks(source, 1024, warm):
        stream.feed_many(some)
    wall, cpu, seen, decisions = np.zeros(n, np.int64), np.zeros(n, np.int64), 0, 0
    pauses = Pauses()
    i = 0
    for some in common.chunks(source, 1000, n):
        gc.callbacks.append(pauses.hear)
        for item in some:
            before = time.thread_time_ns()
            start = time.perf_counter_ns()
            fallen = stream.feed(item)
            end = time.perf_counter_ns()
            cpu[i], wall[i] = time.thread_time_ns() - before, end - start
            decisions += len(fallen)
            i += 1
            seen += int(stream._engines[0].runner._arriving.starts[1])
        gc.callbacks.remove(pauses.hear)
    return {
        "wall_us": common.percentiles(wall),
        "cpu_us": common.percentiles(cpu),
        "visible_items": round(seen / n, 1),
        "decisions": decisions,
        "gc": {
            "collections": pauses.n,
            "share_of_time": round(sum(pauses.nanoseconds) / max(int(wall.sum()), 1), 4),
            "longest_us": round(max(pauses.nanoseconds, default=0) / 1000, 1),
        },
    }


def chunked(stream: Stream, pool: common.Pool, size: int, n: int, warm: int) -> dict[str, Any]:
    source = pool.items()
    for some in common.chunks(source, size, warm):
        stream.feed_many(some)
    wall = cpu = 0.0
    for some in common.chunks(source, size, n):
        start, before = time.perf_counter(), time.thread_time()
        stream.feed_many(some)
        wall, cpu = wall + time.perf_counter() - start, cpu + time.thread_time() - before
    return {"chunk": size, "items_per_second": round(n / wall), "items_per_cpu_second": round(n / cpu)}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--items", type=int, default=200_000, help="items to measure in each run (default: 200,000)")
    given = parser.parse_args()
    pool = common.apart(common.load, given.data, given.schema, given.tangles)
    warm = min(20_000, given.items)
    results = {}
    for rule, settings in RULES.items():
        model = common.ready(pool, settings)
        alone = {}
        for mode in ("usual", "frozen"):
            stream = Stream(model, LIMITS)
            gc.collect()
            if mode == "frozen":
                gc.freeze()
            alone[mode] = one_at_a_time(stream, pool, given.items, warm)
            gc.unfreeze()
            common.progress(f"{rule}, one at a time, {mode}: {alone[mode]}")
        blocks = []
        for size in (256, 512, 1024):
            blocks.append(chunked(Stream(model, LIMITS), pool, size, given.items, warm))
            common.progress(f"{rule}, chunked: {blocks[-1]}")
        results[rule] = {"one_at_a_time": alone, "chunked": blocks}
    common.finish(given, f"bench-{pool.name}", {"items": given.items, "results": results})


if __name__ == "__main__":
    main()
