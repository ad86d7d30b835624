"""Flink's keyed state and timers in memory, and small models and rows to put through them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kvec.decide.stream import Stream
from kvec.doors.flink.keeping import Keeper, Told
from kvec.doors.flink.parting import Parting
from kvec.doors.flink.watching import Manner, Watcher
from kvec.words.items import Decision, Item
from kvec.words.schema import Schema


@dataclass
class Kept:
    """The state of one tangle."""

    content: bytes | None = None
    entries: list[bytes] = field(default_factory=list)

    def whole(self) -> bytes | None:
        return self.content

    def log(self) -> Iterable[bytes]:
        return list(self.entries)

    def add(self, entry: bytes) -> None:
        self.entries.append(entry)

    def replace(self, whole: bytes) -> None:
        self.content, self.entries = whole, []


@dataclass
class Timers:
    """The timers of one tangle."""

    times: set[float] = field(default_factory=set)
    ends: bool = False

    def at(self, wall: float) -> None:
        self.times.add(wall)

    def at_end(self) -> None:
        self.ends = True


class Cluster:
    """Workers over one state: each tangle is one worker's, by its name; a restart forgets all but the state."""

    def __init__(self, keeper: Keeper, manner: Manner, n_workers: int = 2) -> None:
        self.kept: dict[str, Kept] = defaultdict(Kept)
        self.timers: dict[str, Timers] = defaultdict(Timers)
        self.restart(keeper, manner, n_workers)

    def restart(self, keeper: Keeper, manner: Manner, n_workers: int) -> None:
        self.workers = [Watcher(keeper, manner) for _ in range(n_workers)]

    def worker(self, name: str) -> Watcher:
        return self.workers[sum(name.encode()) % len(self.workers)]

    def take(self, name: str, rows: bytes, wall: float = 0.0) -> Told:
        return self.worker(name).take(name, rows, self.kept[name], self.timers[name], wall)

    def ring(self, wall: float) -> Told:
        """Let all timers ring whose time has come."""
        told = Told()
        for name in list(self.timers):
            timers = self.timers[name]
            while due := sorted(time for time in timers.times if time <= wall):
                timers.times.discard(due[0])
                told += self.worker(name).ring(name, self.kept[name], timers, due[0])
        return told

    def end(self, wall: float = 0.0) -> Told:
        told = Told()
        for name, timers in self.timers.items():
            told += self.worker(name).take(name, b"", self.kept[name], timers, wall)
        return told


def row_of(item: Item) -> bytes:
    """An item as the line it might come from."""
    cells = {"tangle": item.tangle, "key": item.key, "time": item.time, "end": item.is_end, **item.value}
    return json.dumps({name: cell for name, cell in cells.items() if cell is not None}).encode()


def blocks_of(schema: Schema, items: Sequence[Item], cuts: Sequence[int]) -> list[tuple[str, bytes]]:
    """Rows as a reader hands them on, cut into slices."""
    part, rows = Parting(schema), [row_of(item) for item in items]
    edges = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    return [block for a, b in pairwise(edges) for block in part.blocks(rows[a:b])]


def alone(stream: Stream, items: Sequence[Item]) -> list[Decision]:
    """What one process says of all items."""
    return [*stream.feed_many(items), *stream.close()]
