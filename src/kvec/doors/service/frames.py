"""What a page draws of a stream, gathered for one connection and told in frames, a few times a second."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvec.words.items import Decision, Key, TangleId

MOST_ITEMS = 2_000  # of a frame; more are only counted
MOST_NAMES = 50_000  # sequences whose numbers are remembered

Sequence_ = tuple[TangleId, Key, int]


class Shown(NamedTuple):
    """One item as it is drawn."""

    sequence: Sequence_
    place: int  # in its sequence
    time: float | None
    codes: list[int]  # of each field, the place among its known values; below 0: none of them
    session: int  # so many sessions of its sequence before this one
    halt: float
    label: int  # the likeliest class
    probability: float


class Watch:
    """One connection that watches: a thread adds, another takes frames."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = {name: i for i, name in enumerate(classes)}
        self._lock = threading.Lock()
        self._items: list[Shown] = []
        self._decisions: list[tuple[int, Decision]] = []
        self._n_dropped = 0
        self._numbers: OrderedDict[Sequence_, int] = OrderedDict()
        self._next = 0

    def add_items(self, shown: Sequence[Shown]) -> None:
        """Items that are new."""
        with self._lock:
            room = max(MOST_ITEMS - len(self._items), 0)
            self._items += shown[:room]
            self._n_dropped += max(len(shown) - room, 0)

    def add_decisions(self, decisions: Sequence[Decision], first: int) -> None:
        """Decisions that are new, of which the first one has this number."""
        with self._lock:
            self._decisions += enumerate(decisions, first)
            del self._decisions[: max(len(self._decisions) - MOST_ITEMS, 0)]

    def frame(self, now: float, counts: Mapping[str, Any], is_due: bool = False) -> dict[str, Any] | None:
        """All that is new since the last frame; None where nothing is, unless one is due."""
        with self._lock:
            items, self._items = self._items, []
            decisions, self._decisions = self._decisions, []
            n_dropped, self._n_dropped = self._n_dropped, 0
        if not (items or decisions or n_dropped or is_due):
            return None
        keys: list[list[Any]] = []
        rows = [[self._number(one.sequence, keys), *one[1:]] for one in items]
        told = [
            [
                self._number((one.tangle, one.key, one.sequence), keys), n, self._classes.get(one.label, -1),
                one.probability, one.n_observed, one.reason.value,
            ]
            for n, one in decisions
        ]  # fmt: skip
        counted = {**counts, "dropped_frames_items": n_dropped}
        return {"now": now, "items": rows, "keys": keys, "decisions": told, "counts": counted}

    def _number(self, sequence: Sequence_, keys: list[list[Any]]) -> int:
        number = self._numbers.get(sequence)
        if number is None:
            number = self._numbers[sequence] = self._next
            self._next += 1
            keys.append([number, *sequence])
            if len(self._numbers) > MOST_NAMES:
                self._numbers.popitem(last=False)
        else:
            self._numbers.move_to_end(sequence)
        return number
