"""Half an hour at half of the highest rate: latencies and memory minute by minute, and whether anything grows.

    python benchmarks/stream/soak.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml --minutes 30

The highest rate is measured first, one item at a time. Then items are due at even distances; those that are due are
fed one by one, and the stream hears a tick every second. `behind_ms` is how late an item was taken, which on a busy
machine tells of its other processes; `wall_us` and `cpu_us` are what it then took.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import common

from kvec.decide.stream import Stream
from kvec.words.items import Item
from kvec.words.limits import Limits

LIMITS = Limits(max_tangles=64, max_returning_keys=1000)


def highest_rate(stream: Stream, some: list[Item]) -> float:
    start = time.perf_counter()
    for item in some:
        stream.feed(item)
    return len(some) / (time.perf_counter() - start)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--warm", type=int, default=50_000, help="items before the rate is measured, and to do so")
    given = parser.parse_args()
    pool = common.apart(common.load, given.data, given.schema, given.tangles)
    stream, source = Stream(common.ready(pool), LIMITS), pool.items()
    for some in common.chunks(source, 1024, given.warm):
        stream.feed_many(some)
    highest = highest_rate(stream, next(common.chunks(source, given.warm, given.warm)))
    rate = highest / 2
    gc.collect()
    gc.freeze()
    seconds = min(60.0, given.minutes * 60 / 3)  # of one line of the result
    n_lines = round(given.minutes * 60 / seconds)
    lines: list[dict[str, Any]] = []
    begin = time.perf_counter()
    taken, ticked = 0, begin
    for number in range(n_lines):
        wall, cpu, behind = [], [], []
        until = begin + (number + 1) * seconds
        while (now := time.perf_counter()) < until or not wall:
            due = int((now - begin) * rate) - taken
            if due <= 0:
                time.sleep(0.0005)
                continue
            if now - ticked > 1:
                stream.tick()
                ticked = now
            for item in next(common.chunks(source, min(due, 1000), min(due, 1000))):
                used, start = time.thread_time_ns(), time.perf_counter_ns()
                stream.feed(item)
                end = time.perf_counter_ns()
                cpu.append(time.thread_time_ns() - used)
                wall.append(end - start)
                behind.append(start - int((begin + taken / rate) * 1e9))
                taken += 1
        lines.append(
            {
                "items": len(wall),
                "wall_us": common.percentiles(wall),
                "cpu_us": common.percentiles(cpu),
                "behind_ms": {name: round(us / 1000, 1) for name, us in common.percentiles(behind).items()},
                "rss_mb": round(common.resident(), 1),
            }
        )
        common.progress(f"{number + 1} of {n_lines}: {lines[-1]}")
    first, last = lines[min(1, n_lines - 1)], lines[-1]
    result = {
        "data": pool.name,
        "minutes": given.minutes,
        "highest_rate": round(highest),
        "rate": round(rate),
        "items": taken,
        "seconds_per_line": round(seconds, 1),
        "rss_growth_mb": round(last["rss_mb"] - first["rss_mb"], 1),
        "rss_growth": round(last["rss_mb"] / first["rss_mb"] - 1, 4),
        "p50_growth": round(last["cpu_us"]["p50"] / first["cpu_us"]["p50"] - 1, 3),
        "lines": lines,
    }
    common.finish(given, "soak", result)


if __name__ == "__main__":
    main()
