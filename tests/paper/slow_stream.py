"""A stream by its definitions: it keeps every item for ever, and looks through all of them at each arrival.

What came, in order, is a list of arrivals; a tangle's life lasts from its first item until it is released. Whatever is
asked (who is live, who was idle, what is remembered, what is seen) is read off these lists by plain loops, and what the
network says is worked out number by number from what an item sees, as that was when it arrived.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.paper.slow import slow_bin, slow_code, slow_gap

from kvec.decide.deployed import Deployed
from kvec.tangle.relations import RELATIONS
from kvec.tangle.visibility import WINDOWS
from kvec.tangle.vocabulary import FARTHEST
from kvec.words.items import Decision, Item, Reason
from kvec.words.limits import Limits

NO_GAP = 48
MOST_TWINS = 64  # a duplicate is looked for among so many items
Vector = npt.NDArray[np.float64]


@dataclass(eq=False)
class SlowArrival:
    """An item that was taken, and what the network made of it."""

    item: Item
    serial: int
    time: float | None  # at which it counts
    wall: float
    sequence: SlowSequence
    is_passed: bool = False  # its sequence was decided, and such items are dropped
    is_evicted: bool = False
    is_shown: bool = False  # the network has seen it
    shown_time: float | None = None  # when, to the network
    session: int = 0
    keys: list[Vector] = field(default_factory=list)
    values: list[Vector] = field(default_factory=list)
    hidden: Vector = field(default_factory=lambda: np.zeros(0))
    cell: Vector = field(default_factory=lambda: np.zeros(0))
    said: Vector = field(default_factory=lambda: np.zeros(0))


@dataclass(eq=False)
class SlowSequence:
    """One sequence, from its first item to whatever ended it."""

    life: SlowLife
    key: Any
    number: int
    slot: int
    arrivals: list[SlowArrival] = field(default_factory=list)
    is_over: bool = False
    is_foreign: bool = False  # an older model decides it
    decision: Decision | None = None

    @property
    def last(self) -> SlowArrival:
        return self.arrivals[-1]

    @property
    def shown(self) -> list[SlowArrival]:
        return [one for one in self.arrivals if one.is_shown]


@dataclass(eq=False)
class SlowLife:
    """A tangle from its first item until it is released."""

    tangle: Any
    arrivals: list[SlowArrival] = field(default_factory=list)
    sequences: list[SlowSequence] = field(default_factory=list)
    is_over: bool = False

    @property
    def clock(self) -> float:
        return max((one.time for one in self.arrivals if one.time is not None), default=-math.inf)


@dataclass
class SlowHeld:
    """The items of one tangle that wait for late ones, in the order in which they came."""

    tangle: Any
    items: list[Item] = field(default_factory=list)
    clock: float = -math.inf
    wall: float = 0.0


class SlowStream:
    """The verbs of a stream; each gives the decisions that fell, in order."""

    def __init__(self, model: Deployed, limits: Limits, threshold: float | None = None) -> None:
        self.model, self.limits = model, limits
        self.threshold = model.threshold if threshold is None else threshold
        self.expiry = model.schema.expiry if limits.expiry is None else limits.expiry
        self.n_taken = 0
        self.lives: list[SlowLife] = []
        self.ended: list[tuple[Any, Any, int]] = []  # keys that ended and their next number, longest ago first
        self.floor = 0
        self.held: list[SlowHeld] = []  # the one whose newest item came longest ago first
        self.counts = dict.fromkeys(
            ("items", "late", "backwards", "duplicates", "dropped", "after_halt", "unknown_values", "missing_values",
             "evicted_items"), 0,
        )  # fmt: skip
        self.told: list[Decision] = []

    # -- verbs --------------------------------------------------------------------------------------------------

    def feed(self, item: Item, wall: float = 0.0) -> list[Decision]:
        """Take one item."""
        self._let_idle_go(wall)
        for ready in self._hold(item, wall):
            self._take(ready, wall)
        return self._told()

    def tick(self, now: float | None = None, wall: float = 0.0) -> list[Decision]:
        """Let time move on."""
        if now is not None and self.model.has_time:
            for held in list(self.held):
                held.clock = max(held.clock, now)
                for ready in self._ready(held):
                    self._take(ready, wall)
            if self.expiry is not None:
                for life in sorted(self.watched(), key=lambda life: life.arrivals[-1].serial):
                    self._expire(life, now - self.limits.reorder)
        self._let_idle_go(wall)
        return self._told()

    def end(self, tangle: Any, key: Any, wall: float = 0.0) -> list[Decision]:
        """Mark the end of a key's sequence."""
        self._let_go(tangle, wall)
        sequence = self.find(tangle, key)
        if sequence is not None:
            self._close(sequence, Reason.ENDED)
        return self._told()

    def hear(self, decision: Decision) -> None:
        """An older model has decided one of its sequences."""
        sequence = self.find(decision.tangle, decision.key)
        if sequence is not None and sequence.number == decision.sequence:
            sequence.decision = decision

    def close(self, wall: float = 0.0) -> list[Decision]:
        """Decide all that waits."""
        for held in list(self.held):
            self._let_go(held.tangle, wall)
        for sequence in self.live():
            self._close(sequence, Reason.CLOSED)
        return self._told()

    # -- what there is ------------------------------------------------------------------------------------------

    def watched(self) -> list[SlowLife]:
        """The tangles that have not been released."""
        return [life for life in self.lives if not life.is_over]

    def live(self) -> list[SlowSequence]:
        """The sequences that are not over, the one whose last item is oldest first."""
        found = [sequence for life in self.lives for sequence in life.sequences if not sequence.is_over]
        return sorted(found, key=lambda sequence: sequence.last.serial)

    def find(self, tangle: Any, key: Any) -> SlowSequence | None:
        """The live sequence of a key."""
        found = [one for one in self.live() if (one.life.tangle, one.key) == (tangle, key)]
        return found[0] if found else None

    def remembered(self, life: SlowLife) -> list[SlowArrival]:
        """The items of a tangle that its next item may see, were it not for the window of that item."""
        if life.is_over:
            return []
        kept = [one for one in life.arrivals if not one.is_passed]
        while kept and not kept[-1].is_shown:  # yet to be shown to a newer model
            kept.pop()
        return [one for one in kept[-self._window() :] if not one.is_evicted and one.is_shown]

    def all_remembered(self) -> list[SlowArrival]:
        """The same of all tangles, oldest first."""
        return sorted((one for life in self.lives for one in self.remembered(life)), key=lambda one: one.serial)

    # -- time ---------------------------------------------------------------------------------------------------

    def _hold(self, item: Item, wall: float) -> list[Item]:
        """What may go on when this item comes."""
        if not (self.limits.reorder and self.model.has_time):
            return [item]
        assert item.time is not None
        held = next((one for one in self.held if one.tangle == item.tangle), None) or SlowHeld(item.tangle)
        self.held = [one for one in self.held if one is not held] + [held]
        held.items.append(item)
        held.clock, held.wall = max(held.clock, item.time), wall
        ready = self._ready(held)
        while sum(len(one.items) for one in self.held) > self.limits.max_cached_items:
            ready.append(_take_first(held.items))
        self.held = [one for one in self.held if one.items]
        if len(self.held) > self.limits.max_tangles:
            ready += self._all_of(self.held[0].tangle)
        return ready

    def _ready(self, held: SlowHeld) -> list[Item]:
        ready = []
        while held.items and min(_stamp(item) for item in held.items) <= held.clock - self.limits.reorder:
            ready.append(_take_first(held.items))
        self.held = [one for one in self.held if one.items]
        return ready

    def _all_of(self, tangle: Any) -> list[Item]:
        waiting = [item for held in self.held if held.tangle == tangle for item in held.items]
        self.held = [held for held in self.held if held.tangle != tangle]
        return sorted(waiting, key=_stamp)

    def _let_go(self, tangle: Any, wall: float) -> None:
        for item in self._all_of(tangle):
            self._take(item, wall)

    def _let_idle_go(self, wall: float) -> None:
        """By the wall clock: what was held back for too long goes on, then what was idle for too long is over."""
        if self.limits.idle is None:
            return
        for held in list(self.held):
            if wall - held.wall > self.limits.idle:
                self._let_go(held.tangle, wall)
        for sequence in self.live():
            if wall - sequence.last.wall > self.limits.idle:
                self._close(sequence, Reason.EXPIRED)
        for life in self.lives:
            if not life.is_over and wall - life.arrivals[-1].wall > self.limits.idle:
                life.is_over = True

    def _expire(self, life: SlowLife, now: float) -> None:
        assert self.expiry is not None
        for sequence in self.live():
            if sequence.life is life and now - _time(sequence.last) > self.expiry:
                self._close(sequence, Reason.EXPIRED)
        if now - life.clock > self.expiry:
            life.is_over = True

    def _timely(self, item: Item) -> float | None:
        """The time at which an item counts; NaN where it is dropped."""
        if not self.model.has_time:
            return None
        life = next((one for one in self.watched() if one.tangle == item.tangle), None)
        time = _stamp(item)
        if life is None:
            return time
        live = self.find(item.tangle, item.key)
        if time < life.clock:
            self.counts["late"] += 1
            self.counts["backwards"] += live is not None and time < _time(live.last)
            if self.limits.late == "drop":
                return math.nan
            time = life.clock
        if self.limits.duplicates == "drop" and live is not None and not item.is_end:
            newest = [one.item for one in live.arrivals[-MOST_TWINS:]]
            if any((one.value, one.time) == (item.value, item.time) for one in newest):
                self.counts["duplicates"] += 1
                return math.nan
        return time

    # -- taking -------------------------------------------------------------------------------------------------

    def _take(self, item: Item, wall: float) -> None:
        self.counts["items"] += 1
        time = self._timely(item)
        if time is not None and math.isnan(time):
            self.counts["dropped"] += 1
            return
        life = next((one for one in self.watched() if one.tangle == item.tangle), None)
        if life is not None and self.expiry is not None and time is not None:
            self._expire(life, time)
        if life is None or life.is_over:
            if len(self.watched()) >= self.limits.max_tangles:
                oldest = min(self.watched(), key=lambda one: one.arrivals[-1].serial)
                for sequence in self.live():
                    if sequence.life is oldest:
                        self._close(sequence, Reason.EVICTED)
                oldest.is_over = True
            life = SlowLife(item.tangle)
            self.lives.append(life)
        live = self.find(item.tangle, item.key)
        if live is None and len(self.live()) >= self.limits.max_live_keys:
            self._close(self.live()[0], Reason.EVICTED)
        self._book(item, life, live, time, wall)

    def _book(self, item: Item, life: SlowLife, live: SlowSequence | None, time: float | None, wall: float) -> None:
        for entry in self.model.vocabulary.fields:
            given = item.value.get(entry.name)
            self.counts["missing_values"] += given is None
            if entry.kind == "categorical":
                self.counts["unknown_values"] += given is not None and given not in entry.values
        if live is None:
            live = SlowSequence(life, item.key, self._next_number(life.tangle, item.key), self._slot(life))
            life.sequences.append(live)
        arrival = SlowArrival(item, self.n_taken, time, wall, live)
        self.n_taken += 1
        life.arrivals.append(arrival)
        live.arrivals.append(arrival)
        is_after = live.decision is not None and len(live.arrivals) > live.decision.n_observed
        if is_after and self.model.config.deciding.after_halt == "drop":
            arrival.is_passed = True
            self.counts["after_halt"] += 1
        else:
            before = life.arrivals[:-1]
            own_before = live.arrivals[:-1]
            self._show(
                arrival,
                time=time,
                before=before[-1].time if before else None,
                own_before=own_before[-1].time if own_before else None,
                position=len(own_before),
                order=len(before),
            )
            if _sigmoid(arrival.said[:1])[0] >= self.threshold and live.decision is None:
                self._decide(live, arrival, len(live.arrivals), None, Reason.HALTED)
        if item.is_end:
            self._close(live, Reason.ENDED)

    def _slot(self, life: SlowLife) -> int:
        return len(life.sequences) % self.model.config.encoder.slots

    def _next_number(self, tangle: Any, key: Any) -> int:
        for entry in self.ended:
            if entry[:2] == (tangle, key):
                self.ended.remove(entry)
                return entry[2]
        return self.floor

    def _close(self, sequence: SlowSequence, reason: Reason) -> None:
        sequence.is_over = True
        self.ended.append((sequence.life.tangle, sequence.key, sequence.number + 1))
        if len(self.ended) > self.limits.max_returning_keys:
            self.floor = max(self.floor, self.ended.pop(0)[2])
        if sequence.decision is None:
            n = len(sequence.arrivals)
            self._decide(sequence, sequence.last, n, n, reason)

    def _decide(self, sequence: SlowSequence, arrival: SlowArrival, n: int, length: int | None, reason: Reason) -> None:
        if sequence.is_foreign:
            return
        labels, probabilities = self.best(arrival.said)
        sequence.decision = Decision(
            sequence.life.tangle, sequence.key, sequence.number, labels, probabilities, n, length, reason
        )
        self.told.append(sequence.decision)

    def best(self, said: Vector) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """The best label of every label column, and its probability."""
        labels, probabilities, start = [], [], 1
        for classes in self.model.vocabulary.labels:
            weights = [math.exp(logit) for logit in said[start : start + len(classes)]]
            best = max(range(len(classes)), key=weights.__getitem__)
            labels.append(classes[best])
            probabilities.append(weights[best] / sum(weights))
            start += len(classes)
        return tuple(labels), tuple(probabilities)

    def _told(self) -> list[Decision]:
        told, self.told = self.told, []
        return told

    # -- a newer model ------------------------------------------------------------------------------------------

    def successor(self, model: Deployed) -> SlowStream:
        """The same stream as a newer model finds it: it is shown the remembered items, and nothing else.

        Each tangle begins, to it, with the oldest remembered item: before that one there was none, of its sequence or
        of the tangle. Numbers of arrival and slots lead up to those with which the stream goes on; later items of live
        sequences have the slot that they always had. What was open before is not this model's to decide.
        """
        shown = {one.serial for one in self.all_remembered()}
        new = copy.deepcopy(self, {id(self.model): model})
        new.threshold = model.threshold
        slots: dict[SlowSequence, int] = {}
        for life in new.lives:
            for one in life.arrivals:
                one.is_shown, one.keys, one.values = False, [], []
            sequences = list(dict.fromkeys(one.sequence for one in life.arrivals if one.serial in shown))
            for sequence in life.sequences:
                sequence.is_foreign = True
                slots[sequence] = sequence.slot % model.config.encoder.slots
                if sequence in sequences:
                    rank = len(life.sequences) - len(sequences) + sequences.index(sequence)
                    sequence.slot = rank % model.config.encoder.slots
        every = sorted((one for life in new.lives for one in life.arrivals), key=lambda one: one.serial)
        clocks: dict[int, float] = {}
        for arrival in (one for one in every if one.serial in shown):
            life, sequence = arrival.sequence.life, arrival.sequence
            before = [one for one in life.arrivals if one.is_shown]
            own = [one for one in sequence.arrivals if one.is_shown]
            among = [one for one in life.arrivals if one.serial in shown]
            n_kept = sum(not one.is_passed for one in life.arrivals)
            time = None if arrival.time is None else max(_stamp(arrival.item), clocks.get(id(life), -math.inf))
            new._show(
                arrival,
                time=time,
                before=clocks.get(id(life)) if before else None,
                own_before=own[-1].shown_time if own else None,
                position=len(own),
                order=n_kept - len(among) + len(before),
            )
            if time is not None:
                clocks[id(life)] = time
        for sequence, slot in slots.items():
            sequence.slot = slot
        return new

    # -- what an item sees, and what the network says -----------------------------------------------------------

    def _window(self) -> int:
        settings = self.model.config.visibility
        return settings.window or WINDOWS[settings.rule]

    def _plain(self, item: Item, names: tuple[str, ...]) -> list[Any]:
        """The named fields as matching compares them: raw, a number as its bin; projected ones are left out."""
        fields = {entry.name: entry for entry in self.model.vocabulary.coded}
        found = []
        for name in names:
            if name in fields:
                given = item.value.get(name)
                is_bin = fields[name].kind == "binned" and given is not None
                found.append(slow_bin(given, fields[name].edges) if is_bin else given)
        return found

    def _visible(self, arrival: SlowArrival) -> list[SlowArrival]:
        settings = self.model.config.visibility
        recent = [one for one in self.remembered(arrival.sequence.life) if one is not arrival]
        if settings.rule == "window":
            return [*recent, arrival]
        seen = [arrival]
        if settings.use_key_correlation:
            own = [one for one in recent if one.sequence is arrival.sequence]
            seen += own[::-1][: settings.own]
        if settings.use_value_correlation:
            seen += self._correlated(arrival, recent)[: settings.others]
        newest = recent[max(len(recent) - settings.recent, 0) :] if settings.rule == "typed" else []
        return seen + [one for one in newest if one not in seen]

    def _correlated(self, arrival: SlowArrival, recent: list[SlowArrival]) -> list[SlowArrival]:
        """The items of sessions of other sequences that hold an equal value, as they are taken."""
        names = self.model.schema.match_names
        value = self._plain(arrival.item, names)
        listed: list[SlowArrival] = []
        if value and None not in value:
            for m in reversed(recent):
                if m.sequence is arrival.sequence or self._plain(m.item, names) != value:
                    continue
                for j in reversed(recent):
                    if j.sequence is m.sequence and j.session == m.session and j not in listed:
                        listed.append(j)
        return listed

    def _relations(self, arrival: SlowArrival, seen: list[SlowArrival]) -> list[int]:
        """How an item stands to each that it sees, by the typed rule; all alike by any other."""
        if self.model.config.visibility.rule != "typed":
            return [0] * len(seen)
        session = self.model.schema.session
        taken: list[SlowArrival] = []
        if self.model.config.visibility.use_value_correlation:
            recent = [one for one in self.remembered(arrival.sequence.life) if one is not arrival]
            taken = self._correlated(arrival, recent)[: self.model.config.visibility.others]
        correlated = [(one.sequence, one.session) for one in taken]
        found = []
        for one in seen:
            if one.sequence is arrival.sequence:
                name = "own"
            elif any(one.sequence is sequence and one.session == number for sequence, number in correlated):
                name = "value-correlated"
            elif session and self._plain(one.item, session) == self._plain(arrival.item, session):
                name = "same session value"
            else:
                name = "other"
            found.append(RELATIONS.index(name))
        return found

    def _show(
        self, arrival: SlowArrival, time: float | None, before: float | None, own_before: float | None,
        position: int, order: int,
    ) -> None:  # fmt: skip
        """Let the network see an item; `before` are the times of the items before in the tangle, in the sequence."""
        schema, sequence = self.model.schema, arrival.sequence
        gap = None if time is None or own_before is None else time - own_before
        tangle_gap = None if time is None or before is None else time - before
        shown = [one for one in sequence.shown if one is not arrival]
        if shown:
            differs = self._plain(shown[-1].item, schema.session) != self._plain(arrival.item, schema.session)
            is_far = schema.session_gap is not None and gap is not None and gap > schema.session_gap
            arrival.session = shown[-1].session + (differs or is_far)
        arrival.is_shown = True
        arrival.shown_time = time
        remembered = self.all_remembered()
        if len(remembered) > self.limits.max_cached_items:
            remembered[0].is_evicted = True
            self.counts["evicted_items"] += 1
        x = self._embed(arrival.item, sequence.slot, position, order, gap, tangle_gap)
        self._encode(arrival, x, self._visible(arrival), shown[-1] if shown else None)

    def _embed(
        self, item: Item, slot: int, position: int, order: int, gap: float | None, tangle_gap: float | None
    ) -> Vector:
        """Value + membership + position + time, each from its own rows of the one table."""
        vocabulary, settings, has_time = self.model.vocabulary, self.model.config.encoder, self.model.has_time
        parts: list[tuple[int, int]] = []  # code, number of codes
        for entry in vocabulary.coded:
            given = item.value.get(entry.name)
            if entry.kind == "categorical":
                parts.append((slow_code(given, entry.values), 2 + len(entry.values)))
            if entry.kind == "binned" or entry.edges:
                parts.append((slow_bin(given, entry.edges), 3 + len(entry.edges)))
        if settings.use_membership:
            parts.append((slot, settings.slots))
        if settings.use_position:
            parts.append((min(position, settings.positions - 1), settings.positions))
        mode = settings.time if settings.time != "auto" else "both" if has_time else "order"
        if settings.use_time and mode in ("order", "both"):
            parts.append((order % settings.time_modulus, settings.time_modulus))
        if settings.use_time and has_time and mode in ("gaps", "both"):
            parts += [(NO_GAP if one is None else slow_gap(one), NO_GAP + 1) for one in (gap, tangle_gap)]
        x, start = np.zeros(settings.width), 0
        for code, size in parts:
            x = x + self._weight("embedding.table")[start + code]
            start += size
        for i, entry in enumerate(vocabulary.projected):
            given = item.value.get(entry.name)
            scaled = 0.0 if given is None else min(max((given - entry.mean) / entry.scale, -FARTHEST), FARTHEST)
            project = self._weight("embedding.project.weight")
            x = x + project[:, 2 * i] * scaled + project[:, 2 * i + 1] * float(given is None)
        return x

    def _encode(self, arrival: SlowArrival, x: Vector, seen: list[SlowArrival], before: SlowArrival | None) -> None:
        settings = self.model.config.encoder
        size = settings.width // settings.heads
        relations = self._relations(arrival, seen)
        for i in range(settings.blocks):
            w = {name[len(f"blocks.{i}.") :]: self._weight(name) for name in self.model.weights
                 if name.startswith(f"blocks.{i}.")}  # fmt: skip
            h = _norm(x, w["norm1.weight"], w["norm1.bias"])
            q, k, v = np.split(w["attention.project.weight"] @ h + w["attention.project.bias"], 3)
            arrival.keys.append(k)
            arrival.values.append(v)
            mixed = []
            for head in range(settings.heads):
                part = slice(head * size, (head + 1) * size)
                scores = np.array([q[part] @ one.keys[i][part] / math.sqrt(size) for one in seen])
                scores = scores + w["attention.relation"][head][relations]
                shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
                mixed.append(sum(share * one.values[i][part] for share, one in zip(shares, seen, strict=True)))
            x = x + w["attention.out.weight"] @ np.concatenate(mixed) + w["attention.out.bias"]
            h = w["widen.weight"] @ _norm(x, w["norm2.weight"], w["norm2.bias"]) + w["widen.bias"]
            x = x + w["narrow.weight"] @ np.maximum(h, 0) + w["narrow.bias"]
        x = _norm(x, self._weight("norm.weight"), self._weight("norm.bias"))
        hidden = np.zeros(settings.fusion) if before is None else before.hidden
        cell = np.zeros(settings.fusion) if before is None else before.cell
        names = ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0")
        wi, bi, wh, bh = (self._weight(f"fusion.cell.{name}") for name in names)
        i_, f, g, o = np.split(wi @ x + bi + wh @ hidden + bh, 4)
        arrival.cell = _sigmoid(f) * cell + _sigmoid(i_) * np.tanh(g)
        arrival.hidden = _sigmoid(o) * np.tanh(arrival.cell)
        heads = ["policy", *(f"classifiers.{i}" for i in range(len(self.model.vocabulary.labels)))]
        arrival.said = np.concatenate(
            [self._weight(f"{name}.weight") @ arrival.hidden + self._weight(f"{name}.bias") for name in heads]
        )

    def _weight(self, name: str) -> Vector:
        return np.asarray(self.model.weights[name], np.float64)


def _time(arrival: SlowArrival) -> float:
    assert arrival.time is not None
    return arrival.time


def _stamp(item: Item) -> float:
    assert item.time is not None
    return float(item.time)


def _take_first(items: list[Item]) -> Item:
    """Take the earliest out, of equals the one that came first."""
    first = min(items, key=_stamp)
    items.remove(first)
    return first


def _sigmoid(x: Vector) -> Vector:
    return 1 / (1 + np.exp(-x))


def _norm(x: Vector, weight: Vector, bias: Vector) -> Vector:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weight + bias
