"""A made stream with made scores: keys that send items, are guessed better and better, and halt; no model is asked."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

LABELS = ["backup", "chat", "scan", "video", "web"]
SIZES = [52, 66, 93, 126, 240, 517, 801, 1004, 1249, 1380, 1460]
FIELDS: list[dict[str, Any]] = [{"name": "size", "values": SIZES}, {"name": "direction", "values": ["up", "down"]}]
_KINDS = {
    "backup": (8, 10, 1),
    "chat": (0, 4, 3),
    "scan": (0, 1, 1),
    "video": (5, 10, 8),
    "web": (2, 8, 4),
}  # sizes, run
THRESHOLD = 0.5


@dataclass(eq=False)
class Item:
    """One item with what the model says after it."""

    key: Key
    i: int
    time: float
    codes: tuple[int, int]
    session: int
    halt: float
    probabilities: list[float]
    is_taken: bool = False

    @property
    def value(self) -> dict[str, Any]:
        return {f["name"]: f["values"][code] for f, code in zip(FIELDS, self.codes, strict=True)}

    @property
    def best(self) -> int:
        return max(range(len(LABELS)), key=self.probabilities.__getitem__)


@dataclass(eq=False)
class Key:
    """One sequence."""

    tangle: int
    name: str
    label: int  # the true one
    length: int
    pace: float  # items a second
    sureness: float  # how fast it is recognised
    items: list[Item] = field(default_factory=list)
    decided: tuple[int, float, int, str] | None = None  # label, probability, items read, reason


def made_items(seed: int, keys: int, pace: float = 2.0, length: tuple[int, int] = (8, 45)) -> Iterator[Item]:
    """Items of `keys` keys at a time, in order of time, for ever; a key that ends is followed by a new one."""
    rng = random.Random(seed)
    queue: list[tuple[float, int, Key]] = []
    made = 0

    def open_key(now: float) -> None:
        nonlocal made
        label = rng.randrange(len(LABELS))
        tangle = made % 2
        key = Key(
            tangle, f"10.0.{tangle}.{made % 250 + 2}:{rng.randrange(49152, 65535)}", label, rng.randint(*length),
            pace * rng.uniform(0.5, 1.6), rng.uniform(0.25, 1.3),
        )  # fmt: skip
        heapq.heappush(queue, (now + rng.uniform(0, 6 if made < keys else 2), made, key))
        made += 1

    for _ in range(keys):
        open_key(0.0)
    while True:
        now, number, key = heapq.heappop(queue)
        yield _next_item(key, now, rng)
        if len(key.items) < key.length:
            burst = 0.25 if rng.random() < 0.7 else 2.5
            heapq.heappush(queue, (now + rng.expovariate(key.pace) * burst, number, key))
        else:
            open_key(now)


def _next_item(key: Key, now: float, rng: random.Random) -> Item:
    low, high, run = _KINDS[LABELS[key.label]]
    last = key.items[-1] if key.items else None
    turn = last is None or rng.random() < 1 / run
    direction = rng.randrange(2) if last is None else (1 - last.codes[1] if turn else last.codes[1])
    size = rng.randint(low, high) if direction else rng.randint(0, min(high, 3))
    session = 0 if last is None else last.session + (direction != last.codes[1])
    i = len(key.items)
    weights = [rng.uniform(0.5, 1.0) * 2.72 ** (key.sureness * i if label == key.label else 0.35) for label in range(5)]
    chances = [w / sum(weights) for w in weights]
    halt = min(0.99, max(chances) ** 3 * 0.75 * (1 - 0.5 ** (i + 1)))
    item = Item(key, i, now, (size, direction), session, halt, chances)
    key.items.append(item)
    if key.decided is None and (halt >= THRESHOLD or i + 1 == key.length):
        reason = "halted" if halt >= THRESHOLD else "ended"
        key.decided = (item.best, max(chances), i + 1, reason)
    return item
