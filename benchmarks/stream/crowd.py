"""What many keys at once cost: 100,000 in one tangle, and 10,000 tangles of 10 keys each.

    python benchmarks/stream/crowd.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml

First every key opens with one item, then items come for keys at random. Throughput is in chunks of 1024. Memory is what
the process holds more than before the stream began; each case runs in a process of its own. At the end, how long
Python's garbage collector stops the stream where it looks at everything.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import common
import numpy as np

from kvec.decide.stream import Stream
from kvec.words.items import Item
from kvec.words.limits import Limits

CHUNK = 1024


def crowd(pool: common.Pool, tangles: int, keys: int) -> Iterator[Item]:
    """One item of every key, then items of keys at random; values and their order are the pool's."""
    rng = np.random.default_rng(0)
    source = pool.items()

    def drawn() -> Iterator[int]:
        yield from range(tangles * keys)
        while True:
            yield from rng.integers(0, tangles * keys, 4096).tolist()

    for i, who in enumerate(drawn()):
        item = next(source)
        time_ = None if item.time is None else i * 1e-4
        yield Item(f"tangle-{who % tangles}", f"key-{who // tangles}", item.value, time_)


def measure(pool: common.Pool, tangles: int, keys: int, n: int) -> dict[str, Any]:
    model = common.ready(pool)
    before = common.resident()
    limits = Limits(max_live_keys=tangles * keys, max_tangles=tangles)
    stream, source = Stream(model, limits), crowd(pool, tangles, keys)
    result: dict[str, Any] = {"tangles": tangles, "keys_in_each": keys}
    for phase, count in (("opening", tangles * keys), ("after", n)):
        wall = cpu = longest = 0.0
        for some in common.chunks(source, CHUNK, count):
            start, used = time.perf_counter(), time.thread_time()
            stream.feed_many(some)
            took = time.perf_counter() - start
            wall, cpu, longest = wall + took, cpu + time.thread_time() - used, max(longest, took)
        result[phase] = {
            "items": count,
            "items_per_second": round(count / wall),
            "items_per_cpu_second": round(count / cpu),
            "longest_chunk_ms": round(longest * 1000, 1),
        }
        result[phase] |= {
            "rss_mb": round(common.resident() - before, 1),
            "arrays_mb": round(stream.bytes / 2**20, 1),
            "cached_items": stream.n_cached,
        }
        common.progress(f"{tangles:,} × {keys:,}, {phase}: {result[phase]}")
    assert stream.n_live == tangles * keys
    start = time.perf_counter()
    gc.collect()
    return result | {
        "full_garbage_collection_ms": round((time.perf_counter() - start) * 1000, 1),
        "live_keys": stream.n_live,
        "rss_bytes_per_live_key": round(result["after"]["rss_mb"] * 2**20 / stream.n_live),
        "array_bytes_per_live_key": round(stream.bytes / stream.n_live),
    }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--items", type=int, default=500_000, help="items after the opening ones (default: 500,000)")
    parser.add_argument("--keys", type=int, default=100_000, help="keys at once in all (default: 100,000)")
    given = parser.parse_args()
    pool = common.apart(common.load, given.data, given.schema, given.tangles)
    results = []
    for tangles, keys in ((1, given.keys), (given.keys // 10, 10)):
        results.append(common.apart(measure, pool, tangles, keys, given.items))
    common.finish(given, "crowd", {"data": pool.name, "results": results})


if __name__ == "__main__":
    main()
