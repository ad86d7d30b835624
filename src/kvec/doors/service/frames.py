"""What a page draws of a stream, gathered for one connection and told in frames, a few times a second."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvec.doors.service.wording import Wording
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.items import Decision, Key, TangleId

MOST_ITEMS = 2_000  # of a frame; more are only counted
MOST_NAMES = 50_000  # sequences whose numbers are remembered

Sequence_ = tuple[TangleId, Key, int]


class Shown(NamedTuple):
    """One item as it is drawn."""

    sequence: Sequence_
    place: int  # in its sequence
    time: float | None
    codes: list[int]  # of each coded field, the place among its known values; below 0: none of them
    session: int  # so many sessions of its sequence before this one
    halt: float
    label: int  # the likeliest class
    probability: float
    vocabulary: Vocabulary  # of the model that said so
    threshold: float  # the score from which that model halts


class Ended(NamedTuple):
    """A sequence that is over: how many of its items were read until it was decided, and why it was."""

    n_observed: int
    length: int
    reason: str


class Taken(NamedTuple):
    """What came since the last frame."""

    items: list[Shown]
    decisions: list[tuple[int, Decision]]
    ended: list[Ended]
    n_dropped: int


class Watch:
    """One connection that watches: a thread adds, another takes frames."""

    def __init__(self) -> None:
        self.wording = Wording()
        self._lock = threading.Lock()
        self._new = Taken([], [], [], 0)
        self._numbers: OrderedDict[Sequence_, int] = OrderedDict()
        self._next = 0

    def add_items(self, shown: Sequence[Shown]) -> None:
        """Items that are new."""
        with self._lock:
            room = max(MOST_ITEMS - len(self._new.items), 0)
            self._new.items.extend(shown[:room])
            self._new = self._new._replace(n_dropped=self._new.n_dropped + max(len(shown) - room, 0))

    def add_decisions(self, decisions: Sequence[Decision], first: int) -> None:
        """Decisions that are new, of which the first one has this number."""
        with self._lock:
            self._new.decisions.extend(enumerate(decisions, first))
            del self._new.decisions[:-MOST_ITEMS]

    def add_ended(self, ended: Ended) -> None:
        """A sequence that is over."""
        with self._lock:
            self._new.ended.append(ended)
            del self._new.ended[:-MOST_ITEMS]

    def taken(self) -> Taken:
        """All that is new since this was asked last."""
        with self._lock:
            new, self._new = self._new, Taken([], [], [], 0)
        return new

    def frame(self, new: Taken, now: float, counts: Mapping[str, Any]) -> dict[str, Any]:
        """What is new in numbers, by the wording of this connection, which learns what it does not know."""
        keys: list[list[Any]] = []
        items = []
        for one in new.items:
            number = self._number(one.sequence, one.threshold, keys)
            codes, label = self.wording.said(one.vocabulary, one.codes, one.label)
            items.append([number, one.place, one.time, codes, one.session, one.halt, label, one.probability])
        decisions = [
            [
                self._number((one.tangle, one.key, one.sequence), None, keys), n, self.wording.label(one.label),
                one.probability, one.n_observed, one.reason.value, one.is_known,
            ]
            for n, one in new.decisions
        ]  # fmt: skip
        counted = {**counts, "dropped_frames_items": new.n_dropped}
        return {
            "now": now, "items": items, "keys": keys, "decisions": decisions,
            "ended": [list(one) for one in new.ended], "counts": counted,
        }  # fmt: skip

    def _number(self, sequence: Sequence_, threshold: float | None, keys: list[list[Any]]) -> int:
        number = self._numbers.get(sequence)
        if number is None:
            number = self._numbers[sequence] = self._next
            self._next += 1
            keys.append([number, *sequence, threshold])
            if len(self._numbers) > MOST_NAMES:
                self._numbers.popitem(last=False)
        else:
            self._numbers.move_to_end(sequence)
        return number
