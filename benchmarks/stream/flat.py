"""Whether time and memory stay flat: five million items into one stream, or a flood of keys against a limit.

    python benchmarks/stream/flat.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml
    python benchmarks/stream/flat.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml --mode flood

`steady`: tangles side by side, replaced as they end, flows with end marks, under limits that are reached early. Time
and memory around item 50,000 and at the end are medians over 20,000 items. Since a busy machine may have been busier at
one of these times, the last items also take turns, chunk by chunk, with those of a fresh stream around its item 50,000.

`flood`: keys of one item each against `max_live_keys` = 50,000; no memory may exceed the plateau by much.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import common

from kvec.decide.stream import Stream
from kvec.words.items import Item
from kvec.words.limits import Limits

CHUNK = 1000
AROUND = 20  # chunks whose median counts
STEADY = Limits(max_tangles=64, max_returning_keys=1000)


def fed(stream: Stream, source: Iterator[Item]) -> float:
    """Feed one chunk; CPU µs per item."""
    some = list(islice(source, CHUNK))
    start = time.thread_time()
    stream.feed_many(some)
    return (time.thread_time() - start) / CHUNK * 1e6


def steady(pool: common.Pool, n: int) -> dict[str, Any]:
    early = min(50_000, n // 4) // CHUNK
    around = min(AROUND, early)
    model = common.ready(pool)
    before = common.resident()
    stream, source = Stream(model, STEADY), pool.items()
    cost, memory = [], []
    for i in range(n // CHUNK):
        cost.append(fed(stream, source))
        memory.append(common.resident())
        if (i + 1) % max(n // CHUNK // 50, 1) == 0:
            common.progress(f"{(i + 1) * CHUNK:,} items: {cost[-1]:.1f} µs each, {memory[-1]:.0f} MB")
    windows = {"early": slice(early - around // 2, early + around // 2), "late": slice(-around, None)}
    found = {
        name: {
            "cpu_us_per_item": round(statistics.median(cost[window]), 2),
            "rss_mb": round(statistics.median(memory[window]), 1),
        }
        for name, window in windows.items()
    }
    arrays = round(stream.bytes / 2**20, 1)
    fresh, other = Stream(model, STEADY), pool.items()
    for _ in range(early - around // 2):
        fed(fresh, other)
    turns = [(fed(fresh, other), fed(stream, source)) for _ in range(around)]
    young, old = (statistics.median(costs) for costs in zip(*turns, strict=True))
    own = {name: window["rss_mb"] - before for name, window in found.items()}
    return {
        "items": n,
        "early_at": early * CHUNK,
        **found,
        "time_ratio": round(found["late"]["cpu_us_per_item"] / found["early"]["cpu_us_per_item"], 3),
        "time_ratio_taking_turns": round(old / young, 3),
        "rss_ratio": round(found["late"]["rss_mb"] / found["early"]["rss_mb"], 3),
        "rss_before_mb": round(before, 1),
        "rss_ratio_above_that": round(own["late"] / own["early"], 3) if own["early"] > 1 else None,
        "arrays_mb": arrays,
        "sequences_ever": stream._engines[0].arrivals.n_sequences,
        "rss_curve_mb": [round(m, 1) for m in memory[:: max(len(memory) // 20, 1)]],
    }


def flood_items(pool: common.Pool) -> Iterator[Item]:
    """The pool's values, each under a key of its own, in 16 tangles."""
    for i, item in enumerate(pool.items()):
        key = f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}:{40000 + (i >> 24)}-443"
        yield Item(f"link-{i % common.SIDE_BY_SIDE}", key, item.value, None if item.time is None else i * 1e-4)


def flood(pool: common.Pool, n: int, most: int) -> dict[str, Any]:
    model = common.ready(pool)
    before = common.resident()
    stream, source = Stream(model, Limits(max_live_keys=most)), flood_items(pool)
    settled = (most + stream.limits.max_returning_keys) // CHUNK + AROUND  # every limit is reached
    settled = min(settled, n // CHUNK // 2)
    cost, memory, full = [], [], None
    for i in range(n // CHUNK):
        cost.append(fed(stream, source))
        memory.append(common.resident())
        if full is None and stream.n_live == most:
            full = {
                "rss_bytes_per_live_key": round((memory[-1] - before) * 2**20 / most),
                "array_bytes_per_live_key": round(stream.bytes / most),
                "cached_items": stream.n_cached,
            }
        if (i + 1) % max(n // CHUNK // 40, 1) == 0:
            common.progress(f"{(i + 1) * CHUNK:,} keys: {cost[-1]:.1f} µs each, {memory[-1]:.0f} MB")
    plateau = statistics.median(memory[settled : settled + AROUND])
    return {
        "keys": n,
        "max_live_keys": most,
        "live": stream.n_live,
        "evicted": stream.reasons["evicted"],
        "rss_before_mb": round(before, 1),
        "when_full": full,
        "plateau_mb": round(plateau, 1),
        "plateau_from_key": settled * CHUNK,
        "most_after_mb": round(max(memory[settled:]), 1),
        "last_mb": round(memory[-1], 1),
        "most_over_plateau": round(max(memory[settled:]) / plateau, 3),
        "arrays_mb": round(stream.bytes / 2**20, 1),
        "cpu_us_per_item": round(statistics.median(cost[settled:]), 1),
        "rss_curve_mb": [round(m, 1) for m in memory[:: max(len(memory) // 20, 1)]],
    }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--mode", choices=("steady", "flood"), default="steady")
    parser.add_argument("--items", type=int, help="items, or keys of the flood (default: 5,000,000 and 2,000,000)")
    parser.add_argument("--live-keys", type=int, default=50_000, help="limit against the flood (default: 50,000)")
    given = parser.parse_args()
    pool = common.apart(common.load, given.data, given.schema, given.tangles)
    if given.mode == "steady":
        result = steady(pool, given.items or 5_000_000)
    else:
        result = flood(pool, given.items or 2_000_000, given.live_keys)
    common.finish(given, f"flat-{given.mode}", {"data": pool.name, **result})


if __name__ == "__main__":
    main()
