"""What the rules of visibility cost in a stream: CPU time of an item by rule, alone and in chunks.

    python benchmarks/stream/rules.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml

Sixteen tangles that never end, so that every window is full; the flows of the table run in them one after the other, a
few side by side. All rules take turns, some items each, so that a busy machine troubles all alike; medians count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import common
import numpy as np

from kvec.decide.stream import Stream
from kvec.words.items import Item

TURN = 100  # items of each rule, alone and in a chunk, before it is the next one's turn


class Lane:
    """One rule's stream, and what its items took."""

    def __init__(self, pool: common.Pool, rule: str, newest: int) -> None:
        self.rule, self.newest = rule, newest
        settings = [f"visibility.rule={rule}", f"visibility.{'window' if rule == 'window' else 'recent'}={newest}"]
        self.stream, self.items = Stream(common.ready(pool, settings)), endless(pool)
        self.alone: list[int] = []
        self.chunks: list[int] = []
        self.seen = 0
        for some in common.chunks(self.items, 1024, 20 * common.SIDE_BY_SIDE * 256):
            self.stream.feed_many(some)

    def turn(self) -> None:
        """Some items alone, and as many as a chunk."""
        for item in islice(self.items, TURN):
            start = time.thread_time_ns()
            self.stream.feed(item)
            self.alone.append(time.thread_time_ns() - start)
            self.seen += int(self.stream._engines[0].runner._arriving.starts[1])
        some = list(islice(self.items, TURN))
        start = time.thread_time_ns()
        self.stream.feed_many(some)
        self.chunks.append((time.thread_time_ns() - start) // TURN)

    def result(self) -> dict[str, Any]:
        """Its row of the table."""
        return {
            "rule": self.rule,
            "newest": self.newest,
            "visible_items": round(self.seen / len(self.alone), 1),
            "cpu_us_alone": round(float(np.median(self.alone)) / 1000, 1),
            "cpu_us_in_chunks": round(float(np.median(self.chunks)) / 1000, 1),
        }


def endless(pool: common.Pool) -> Iterator[Item]:
    """The pool's traffic in sixteen tangles, each of which takes the place of those before."""
    for item in pool.items(4 * common.SIDE_BY_SIDE):
        yield replace(item, tangle=item.tangle % common.SIDE_BY_SIDE, key=f"{item.tangle} {item.key}", time=None)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="items of each rule, alone and in chunks")
    parser.add_argument("--newest", default="64,128,256", help="W of window and R of typed (default: 64,128,256)")
    given = parser.parse_args()
    pool = replace(common.apart(common.load, given.data, given.schema, given.tangles), times=None)
    sizes = [int(word) for word in given.newest.split(",")]
    lanes = [Lane(pool, "paper", 0), *(Lane(pool, rule, size) for size in sizes for rule in ("window", "typed"))]
    for _ in range(given.items // TURN):
        for lane in lanes:
            lane.turn()
    common.finish(given, "rules", {"items": given.items, "results": [lane.result() for lane in lanes]})


if __name__ == "__main__":
    main()
