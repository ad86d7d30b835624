"""What was said of every item of the newest keys, kept while a stream runs, and told to those who watch."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvec.decide.deployed import Deployed
from kvec.decide.hearing import class_probabilities, halting_scores
from kvec.doors.service.frames import Ended, Shown, Watch
from kvec.tangle.live import Booked, Live
from kvec.tangle.vocabulary import FIRST_KNOWN
from kvec.words.items import Decision, Key, TangleId

MOST_ITEMS = 256  # of a key, the newest, and as many of the first
ITEMS_PER_KEY = 32  # over all keys, on the average

Name = tuple[TangleId, Key]
Kept = tuple[int, float | None, Mapping[str, Any], float, bytes]  # as `Traced`, with the probabilities as bytes
First = tuple[float | None, int, Mapping[str, Any]]  # time, place in the tangle, value


class Traced(NamedTuple):
    """One item, and what was said after it."""

    place: int  # in its sequence
    time: float | None
    value: Mapping[str, Any]
    halt: float
    probabilities: tuple[float, ...]  # by class of the first label column


@dataclass(slots=True)
class Trace:
    """The items of a key's newest sequence."""

    tangle: TangleId
    key: Key
    sequence: int
    classes: tuple[str, ...]
    session: int = -1  # so many sessions before the newest one
    session_value: Any = None
    items: deque[Kept] = field(default_factory=lambda: deque(maxlen=MOST_ITEMS))
    head: list[First] = field(default_factory=list)  # its first items; none where its beginning was not heard
    decision: Decision | None = None
    is_over: bool = False  # nothing more comes to it: the sequence has ended, or the trace had to make room
    has_ended: bool = False
    is_awaited: bool = False  # by a label that came before all of its items

    @property
    def is_whole(self) -> bool:
        """Whether the head is all of the sequence."""
        return self.has_ended and bool(self.items) and len(self.head) == self.items[-1][0] + 1

    def traced(self) -> list[Traced]:
        """The items that are kept, oldest first."""
        return [
            Traced(place, time, value, halt, tuple(np.frombuffer(raw, np.float32).tolist()))
            for place, time, value, halt, raw in self.items
        ]


class Traces:
    """Hears a stream, and keeps a trace of each key; the one whose newest item is oldest makes room."""

    def __init__(self, keep: int) -> None:
        self._keep, self._most = keep, keep * ITEMS_PER_KEY
        self._traces: OrderedDict[Name, Trace] = OrderedDict()
        self._n_items = 0
        self._watches: tuple[Watch, ...] = ()
        self.n_opened = 0  # sequences that were seen to begin
        self.earliness: Counter[float] = Counter()  # of sequences that ended since this was read, lower is better
        self.ended: list[Trace] = []  # that were awaited, since this was read

    def find(self, tangle: TangleId, key: Key) -> Trace | None:
        """The trace of a key."""
        return self._traces.get((tangle, key))

    def heard(self, model: Deployed, booked: Sequence[Booked], said: npt.NDArray[Any]) -> None:
        """Keep items with what was said of them."""
        halts = halting_scores(model, booked, said).tolist()
        shares = class_probabilities(model, booked, said).astype(np.float32)
        raw, width = shares.tobytes(), shares.itemsize * shares.shape[1]
        gap, classes, watches = model.schema.session_gap, model.vocabulary.labels[0], self._watches
        sessions: list[int] = []
        start = 0
        for one, halt in zip(booked, halts, strict=True):
            trace = self._trace(one.live, classes)
            if one.position == 0:
                self.n_opened += 1
            if one.coded.session != trace.session_value or (gap and one.gap is not None and one.gap > gap):
                trace.session_value, trace.session = one.coded.session, trace.session + 1
            if len(trace.items) < MOST_ITEMS:
                self._n_items += 1
            item = one.item
            if len(trace.head) == one.position < MOST_ITEMS:
                trace.head.append((item.time, one.arrival, item.value))
            trace.items.append((one.position, item.time, item.value, halt, raw[start : start + width]))
            start += width
            if watches:
                sessions.append(trace.session)
        if watches:
            shown = _shown(model, booked, halts, shares, sessions)
            for watch in watches:
                watch.add_items(shown)
        while self._n_items > self._most and len(self._traces) > 1:
            self._forget()

    def closed(self, live: Live) -> None:
        """Note how early a sequence was decided, now that it is over."""
        if live.decision is not None and live.n_items:
            n_observed = live.decision.n_observed
            self.earliness[n_observed / live.n_items] += 1
            for watch in self._watches:
                watch.add_ended(Ended(n_observed, live.n_items, live.decision.reason.value))
        trace = self.find(live.tangle.id, live.key)
        if trace is not None and trace.sequence == live.number:
            trace.has_ended = True
            self._end(trace)

    def decided(self, decisions: Sequence[Decision], first: int) -> None:
        """Note decisions, of which the first one has this number."""
        for decision in decisions:
            trace = self._traces.get((decision.tangle, decision.key))
            if trace is not None and trace.sequence == decision.sequence:
                trace.decision = decision
        for watch in self._watches:
            watch.add_decisions(decisions, first)

    def watch(self, watch: Watch) -> None:
        """Let someone watch."""
        self._watches = (*self._watches, watch)

    def leave(self, watch: Watch) -> None:
        """Let them go."""
        self._watches = tuple(one for one in self._watches if one is not watch)

    def _trace(self, live: Live, classes: tuple[str, ...]) -> Trace:
        name = (live.tangle.id, live.key)
        trace = self._traces.get(name)
        if trace is None or trace.sequence != live.number:
            if trace is not None:
                self._n_items -= len(trace.items)
            trace = self._traces[name] = Trace(*name, live.number, classes)
            if len(self._traces) > self._keep:
                self._forget()
        self._traces.move_to_end(name)
        return trace

    def _forget(self) -> None:
        _, oldest = self._traces.popitem(last=False)
        self._n_items -= len(oldest.items)
        self._end(oldest)

    def _end(self, trace: Trace) -> None:
        """Nothing more comes to a trace."""
        if trace.is_awaited and not trace.is_over:
            self.ended.append(trace)
        trace.is_over = True


def _shown(
    model: Deployed, booked: Sequence[Booked], halts: Sequence[float], shares: npt.NDArray[np.float32],
    sessions: Sequence[int],
) -> list[Shown]:  # fmt: skip
    """Items as they are drawn."""
    sizes = [len(field.sizes) for field in model.vocabulary.coded]
    places = [sum(sizes[:i]) for i in range(len(sizes))]  # of the first code of each field
    tops, bests = shares.argmax(axis=1).tolist(), shares.max(axis=1).tolist()
    return [
        Shown(
            (one.item.tangle, one.item.key, one.live.number), one.position, one.item.time,
            [one.coded.codes[place] - FIRST_KNOWN for place in places], session, halt, top, best, model.vocabulary,
            model.threshold,
        )
        for one, session, halt, top, best in zip(booked, sessions, halts, tops, bests, strict=True)
    ]  # fmt: skip
