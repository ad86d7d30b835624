"""One model over one stream: books items, runs them as causal blocks, and sees which sequences are decided."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvec.decide.deployed import Deployed
from kvec.decide.folder import as_damage
from kvec.decide.hearing import Listener
from kvec.decide.kernel import Kernel
from kvec.decide.runner import CHUNK, Runner
from kvec.tangle.coder import Coded, Coder
from kvec.tangle.duplicates import fingerprint, remember
from kvec.tangle.live import Booked, Closed, Live
from kvec.tangle.tangles import embedded_sizes
from kvec.words.errors import ModelError
from kvec.words.items import Decision, Item, Key, Reason, TangleId
from kvec.words.limits import Limits

Given = tuple[Item, Coded]


@dataclass
class Counters:
    """What has happened to the items of a stream."""

    items: int = 0  # all that came, dropped ones included
    late: int = 0  # older than the clock of their tangle
    backwards: int = 0  # of these, older than the item before of their own sequence
    duplicates: int = 0  # of the same value and time as one of the newest items of their sequence
    dropped: int = 0  # late ones and duplicates, where the limits say so
    after_halt: int = 0  # of decided sequences, dropped by after_halt = "drop"
    unknown_values: int = 0
    missing_values: int = 0
    evicted_items: int = 0  # forgotten before their window had passed, by max_cached_items


@dataclass
class Held:
    """The items of one tangle that wait for late ones."""

    clock: float = -math.inf
    wall: float = 0.0  # when the newest of them came
    n: int = 0
    heap: list[tuple[float, int, Item, Coded]] = field(default_factory=list)


class Due(NamedTuple):
    """A sequence that is to be decided now, if it waits, and by what."""

    live: Live
    said: npt.NDArray[Any]  # by the heads
    n_observed: int
    length: int | None
    reason: Reason
    time: float | None  # of the last of these items


class Engine:
    """One model and its memory: takes items, tells decisions.

    `like` is another engine of the same model and limits, and of the same thread, with which it shares the network.
    """

    def __init__(
        self, model: Deployed, limits: Limits, threshold: float, dtype: npt.DTypeLike, kernel: type[Kernel] = Kernel,
        like: Engine | None = None,
    ) -> None:  # fmt: skip
        self.model, self.limits, self.threshold = model, limits, threshold
        self._n_classes = len(model.vocabulary.labels[0])
        self._drops = model.config.deciding.after_halt == "drop"
        self.chunk = 1 if self._drops else CHUNK  # what is dropped depends on what was decided before
        self.coder: Coder = Coder(model.vocabulary, model.schema) if like is None else like.coder
        sizes = embedded_sizes(model.vocabulary, model.config.encoder, model.has_time)
        with as_damage("the model"):
            self.runner: Runner = Runner(
                model.weights, model.config, sizes, limits, model.schema.session_gap, dtype, kernel,
                None if like is None else like.runner,
            )  # fmt: skip
        self.arrivals, self.memory = self.runner.arrivals, self.runner.memory
        if self.memory.outputs.shape[1] != 1 + sum(map(len, model.vocabulary.labels)):
            raise ModelError("the weights do not have an output for each class of the vocabulary")
        self.counters = Counters()
        self._events: list[Booked | Closed] = []  # what happened since the network ran last, in order
        self.held: OrderedDict[TangleId, Held] = OrderedDict()  # the one whose newest item is oldest first
        self.n_held = 0
        self._holds = bool(limits.reorder) and model.has_time
        self._seeks_duplicates = limits.duplicates == "drop"
        self.until: int | None = None  # sequences from this serial on are a newer model's to decide
        self.n_waiting = 0  # sequences left to decide once that is so
        self.listener: Listener | None = None

    def take(self, given: Sequence[Given], wall: float) -> list[Decision]:
        """Take items; late ones first find their place where the limits give them time for it."""
        decisions = self._catch_up() + self._expire_idle(wall)
        if self._holds:
            given = [ready for one in given for ready in self._hold(*one, wall)]
        return decisions + self._take(given, wall)

    def tick(self, now: float | None, wall: float) -> list[Decision]:
        """Let time move on; what is held back may go on then, and the items' clock stays as far behind as that."""
        decisions = self._catch_up()
        if now is not None and self.model.has_time:
            ready = []
            for tangle, held in list(self.held.items()):
                held.clock = max(held.clock, now)
                ready += self._ready(tangle, held)
            decisions += self._take(ready, wall)
            decisions += self._settle(self.arrivals.expire(now - self.limits.reorder))
        return decisions + self._expire_idle(wall)

    def end(self, tangle: TangleId, key: Key, wall: float) -> list[Decision]:
        """End a key's sequence, if it is live; first its tangle's items that were held back go on."""
        decisions = self._catch_up() + self._take(self._all_held(tangle), wall)
        live = self.arrivals.find(tangle, key)
        return decisions if live is None else decisions + self._settle([self.arrivals.close(live, Reason.ENDED)])

    def close(self, wall: float) -> list[Decision]:
        """Close every sequence; first all items that were held back go on."""
        decisions = self._catch_up()
        decisions += self._take([ready for tangle in list(self.held) for ready in self._all_held(tangle)], wall)
        live = list(self.arrivals.live.values())
        return decisions + self._settle([self.arrivals.close(one, Reason.CLOSED) for one in live])

    def give_up(self) -> list[Decision]:
        """Decide all that is left to a model that newer ones have replaced."""
        waiting = [live for live in self.arrivals.live.values() if self.owns(live)]
        said = self.memory.outputs
        return self._decide(Due(one, said[one.place], one.n_items, None, Reason.EVICTED, one.time) for one in waiting)

    def _settle(self, closed: Sequence[Closed]) -> list[Decision]:
        """Decide the sequences that closed without an item."""
        decisions = self._decide(map(self._at_end, closed))
        self._tell_closed(closed)
        self.arrivals.settle()
        return decisions

    def require_caught_up(self) -> None:
        """Refuse to go on where an interrupted call has booked items that have not run."""
        if self._events or self.runner.n:
            raise ModelError(
                "this stream is used by another thread, or was interrupted; feed it on, or nothing (feed_many([])), "
                "first"
            )

    def _catch_up(self) -> list[Decision]:
        """Run what an interrupted call has booked."""
        return self._run() if self._events or self.runner.n else []

    def _take(self, given: Sequence[Given], wall: float) -> list[Decision]:
        """Book and run items."""
        decisions: list[Decision] = []
        for start in range(0, len(given), self.chunk):
            for item, coded in given[start : start + self.chunk]:
                self._book(item, coded, wall)
            decisions += self._run()
        return decisions

    def _book(self, item: Item, coded: Coded, wall: float) -> None:
        counters, arrivals, events = self.counters, self.arrivals, self._events
        counters.items += 1
        time = item.time if self.model.has_time else None
        digest = b""
        if time is not None:
            if self._seeks_duplicates:
                digest = fingerprint(item)
            time = self._timely(item, time, digest)
            if time is None:
                counters.dropped += 1
                return
        counters.unknown_values += coded.unknown
        counters.missing_values += coded.missing
        closed = arrivals.make_room(item, time)
        if closed:
            events += closed
        live = arrivals.find(item.tangle, item.key) if self._drops else None
        if live is not None and live.decision is not None and live.n_items >= live.decision.n_observed:
            counters.after_halt += 1
            arrivals.pass_by(live, time, wall)
        else:
            booked = self.runner.book(item, coded, time, wall)
            live = booked.live
            events.append(booked)
        if digest:
            live.alike = remember(live.alike, digest)
        if item.is_end:
            events.append(arrivals.close(live, Reason.ENDED))

    def _timely(self, item: Item, time: float, digest: bytes) -> float | None:
        """The time at which an item counts; None where it is dropped."""
        tangle = self.arrivals.tangles.get(item.tangle)
        if tangle is None:
            return time
        live = tangle.live.get(item.key)
        if time < tangle.clock:
            self.counters.late += 1
            self.counters.backwards += live is not None and time < live.time
            if self.limits.late == "drop":
                return None
            time = tangle.clock
        if digest and live is not None and digest in live.alike and not item.is_end:
            self.counters.duplicates += 1
            return None
        return time

    def _run(self) -> list[Decision]:
        """Run the booked items as one block, and decide in the order of what happened."""
        events = self._events
        if sum(isinstance(event, Booked) for event in events) != self.runner.n:
            raise ModelError(
                "this stream was used by several threads at once, or interrupted in the middle of an item; go on from "
                "a saved state, with one thread or an AsyncStream"
            )
        if not self.runner.n:
            decisions = self._settle([event for event in events if isinstance(event, Closed)])
            self._events = []
            return decisions
        said_of_all = self.runner.run()
        if self.listener is not None:
            self._tell_of(self.listener, events, said_of_all)
        places = [event.position + 1 for event in events if isinstance(event, Booked)]
        outputs = zip(said_of_all, self.readiness(said_of_all, np.array(places, np.int64)).tolist(), strict=True)
        due: list[Due] = []
        halted: set[int] = set()
        for event in events:
            if isinstance(event, Closed):
                due.append(self._at_end(event))
                continue
            live, (said, ready) = event.live, next(outputs)
            if live.decision is not None or live.serial in halted:
                continue
            if ready >= self.threshold:
                halted.add(live.serial)
                due.append(Due(live, said, event.position + 1, None, Reason.HALTED, event.time))
        decisions = self._decide(due)
        self._tell_closed(events)
        self.counters.evicted_items = self.arrivals.evicted_items
        self._events = []  # where this was interrupted, nothing more is taken
        return decisions

    def _tell_of(self, listener: Listener, events: Sequence[Booked | Closed], said: npt.NDArray[Any]) -> None:
        """Tell what the network said of the items whose sequences are this engine's to decide."""
        booked = [event for event in events if isinstance(event, Booked)]
        own = [i for i, event in enumerate(booked) if self.owns(event.live)]
        if own:
            listener.heard(self.model, [booked[i] for i in own], said[own])

    def readiness(self, said: npt.NDArray[Any], n_observed: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """How ready sequences are to be decided after so many items of each, by rows of what the heads say."""
        return self.model.ready.after(said, n_observed)

    def owns(self, live: Live) -> bool:
        """Whether a sequence is this engine's to decide: not an older model's, and not a newer one's."""
        return not live.is_foreign and (self.until is None or live.serial < self.until)

    def _at_end(self, closed: Closed) -> Due:
        """A sequence that closed is to be decided by all of its items."""
        live = closed.live
        return Due(live, self.memory.outputs[live.place], live.n_items, live.n_items, closed.reason, live.time)

    def _tell_closed(self, events: Iterable[Booked | Closed]) -> None:
        if self.listener is not None:
            for event in events:
                if isinstance(event, Closed) and self.owns(event.live):
                    self.listener.closed(event.live)

    def _decide(self, due: Iterable[Due]) -> list[Decision]:
        """Decide sequences that wait, each by what is due first; those that a newer model decides too, but untold."""
        first: dict[int, Due] = {}
        for one in due:
            if one.live.decision is None and not one.live.is_foreign:
                first.setdefault(one.live.serial, one)
        if not first:
            return []
        lives, said_of_all, ns, lengths, reasons, times = zip(*first.values(), strict=True)
        said, n_observed = np.stack(said_of_all), np.array(ns)
        labels, probabilities = self.best(said, n_observed)
        is_known, familiarity = self._judge(said, probabilities, n_observed, reasons)
        decisions = []
        for i, live in enumerate(lives):
            live.decision = Decision(
                live.tangle.id, live.key, live.number, labels[i], probabilities[i], ns[i], lengths[i], reasons[i],
                is_known=is_known[i], familiarity=familiarity[i], began=live.tangle.began,
                fell=times[i] if self.model.has_time else None,
            )  # fmt: skip
            if self.owns(live):
                self.n_waiting -= self.until is not None
                decisions.append(live.decision)
        return decisions

    def _judge(
        self, said: npt.NDArray[Any], probabilities: Sequence[tuple[float, ...]], n_observed: npt.NDArray[np.int64],
        reasons: Sequence[Reason],
    ) -> tuple[Sequence[bool], Sequence[float | None]]:  # fmt: skip
        """Whether decisions are known, and how familiar the sequences are, where the model is asked to say so."""
        unknown, n = self.model.unknown, len(said)
        if not unknown.is_asked:
            return [True] * n, [None] * n
        logits = said[:, 1 : 1 + self._n_classes]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        is_known, familiarity = unknown.judged(
            np.array([one[0] for one in probabilities]), shares / shares.sum(axis=1, keepdims=True), n_observed,
            np.array([reason is Reason.HALTED for reason in reasons]),
        )  # fmt: skip
        return is_known.tolist(), [None] * n if familiarity is None else familiarity.tolist()

    def best(
        self, said: npt.NDArray[Any], n_observed: npt.NDArray[np.int64]
    ) -> tuple[list[tuple[str, ...]], list[tuple[float, ...]]]:
        """The best labels of sequences, one for each label column, and their probabilities, calibrated."""
        labels, probabilities, start = [], [], 1
        for column, classes in enumerate(self.model.vocabulary.labels):
            shares = self.model.readiness.probabilities(column, said[:, start : start + len(classes)], n_observed)
            start += len(classes)
            best = shares.argmax(axis=1)
            sure = shares[np.arange(len(best)), best]
            if not np.isfinite(sure).all():
                raise ModelError("the network said something that is no number; its weights are not usable")
            labels.append([classes[i] for i in best.tolist()])
            probabilities.append(sure.tolist())
        return list(zip(*labels, strict=True)), list(zip(*probabilities, strict=True))

    def _expire_idle(self, wall: float) -> list[Decision]:
        """By the wall clock: what was held back for too long goes on, then what was idle for too long is over."""
        if self.limits.idle is None:
            return []
        decisions: list[Decision] = []
        while self.held and wall - next(iter(self.held.values())).wall > self.limits.idle:
            decisions += self._take(self._all_held(next(iter(self.held))), wall)
        return decisions + self._settle(self.arrivals.expire_idle(wall))

    def _hold(self, item: Item, coded: Coded, wall: float) -> list[Given]:
        """Hold an item back until no earlier one can come; those that may go on now, or must as the limits are met."""
        assert item.time is not None
        held = self.held.setdefault(item.tangle, Held())
        self.held.move_to_end(item.tangle)
        held.clock, held.wall = max(held.clock, item.time), wall
        held.n += 1
        heapq.heappush(held.heap, (item.time, held.n, item, coded))
        self.n_held += 1
        ready = self._ready(item.tangle, held)
        if self.n_held > self.limits.max_cached_items:
            ready += self._first_held(item.tangle, held)
        if len(self.held) > self.limits.max_tangles:
            ready += self._all_held(next(iter(self.held)))
        return ready

    def _ready(self, tangle: TangleId, held: Held) -> list[Given]:
        ready: list[Given] = []
        while held.heap and held.heap[0][0] <= held.clock - self.limits.reorder:
            ready += self._first_held(tangle, held)
        return ready

    def _first_held(self, tangle: TangleId, held: Held) -> list[Given]:
        first = heapq.heappop(held.heap)
        self.n_held -= 1
        if not held.heap:
            del self.held[tangle]
        return [first[2:]]

    def _all_held(self, tangle: TangleId) -> list[Given]:
        held = self.held.pop(tangle, None)
        if held is None:
            return []
        self.n_held -= len(held.heap)
        return [ready[2:] for ready in sorted(held.heap)]

    # -- plain data ---------------------------------------------------------------------------------------------

    def to_plain(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """All that the engine remembers."""
        self.require_caught_up()
        facts, arrays = self.runner.to_plain()
        held = []
        for tangle, one in self.held.items():
            waiting = [[t, n, item.key, item.value, item.is_end] for t, n, item, _ in one.heap]
            held.append([tangle, one.clock, one.wall, one.n, waiting])
        counts = {"counters": dict(vars(self.counters)), "until": self.until, "n_waiting": self.n_waiting}
        return facts | {"held": held} | counts, arrays

    def restore(self, facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Remember what `to_plain` told, and nothing else."""
        self.runner.restore(facts, arrays, self.coder)
        self.counters, self.until, self.n_waiting = Counters(**facts["counters"]), facts["until"], facts["n_waiting"]
        self.held, self.n_held = OrderedDict(), 0
        for tangle, clock, wall, n, waiting in facts["held"]:
            heap = []
            for time, number, key, value, is_end in waiting:
                heap.append((time, number, Item(tangle, key, value, time, is_end), self.coder.code(value)))
            self.held[tangle] = Held(clock, wall, n, heap)
            self.n_held += len(heap)
