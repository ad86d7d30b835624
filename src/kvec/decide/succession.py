"""How a newer model takes over a stream: it replays the remembered items, and leaves open sequences to the old one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kvec.decide.engine import Counters, Engine
from kvec.tangle.live import Remembered, TangleState
from kvec.words.items import Reason


def succeed(new: Engine, old: Engine) -> None:
    """Let a fresh engine start from what another remembers; from now on the old one only decides what is open."""
    for tangle, held in old.held.items():
        heap = [(t, n, item, new.coder.code(item.value)) for t, n, item, _ in held.heap]
        new.held[tangle] = replace(held, heap=heap)
    new.n_held = old.n_held
    old.arrivals.tidy()
    old.arrivals.settle()
    replay(new, old.arrivals.tangles.values(), list(old.arrivals.sightings.raw.values()))
    _align(new, old)
    new.counters, old.counters = old.counters, Counters()  # from here on the old engine is another
    old.until = old.arrivals.n_sequences
    old.n_waiting = sum(live.decision is None and old.owns(live) for live in old.arrivals.live.values())


def adopt(newest: Engine, older: Sequence[Engine]) -> None:
    """Let the newest engine tell of decided sequences, where the engine that decided them is gone."""
    for live in newest.arrivals.live.values():
        if live.is_foreign and live.decision is not None:
            theirs = [engine.arrivals.find(live.tangle.id, live.key) for engine in older]
            live.is_foreign = any(
                one is not None and one.number == live.number and engine.owns(one)
                for one, engine in zip(theirs, older, strict=True)
            )


def replay(new: Engine, tangles: Iterable[TangleState], remembered: Sequence[Remembered]) -> None:
    """Book the items that are remembered of some tangles again, in their order, under their sequences' own numbers."""
    opened: dict[object, set[object]] = {}
    for item, number, *_ in remembered:
        opened.setdefault(item.tangle, set()).add((item.key, number))
    for tangle in tangles:
        first = tangle.n_arrived - len(tangle.rows)
        n_opened = tangle.n_opened - len(opened.get(tangle.id, ()))
        new.arrivals.tangles[tangle.id] = TangleState(tangle.id, n_arrived=first, n_opened=max(n_opened, 0))
    for start in range(0, len(remembered), new.chunk):
        for item, number, *_ in remembered[start : start + new.chunk]:
            live = new.arrivals.find(item.tangle, item.key)
            if live is not None and live.number != number:
                new.arrivals.close(live, Reason.CLOSED)
            new.arrivals.numbers[item.tangle, item.key] = number
            time = None
            if new.model.has_time and item.time is not None:
                time = max(item.time, new.arrivals.tangles[item.tangle].clock)
            new.runner.book(item, new.coder.code(item.value), time, 0.0)
        new.runner.run()


def _align(new: Engine, old: Engine) -> None:
    """Watch the same sequences as the old engine, all of them foreign, with the same clocks and counts."""
    arrivals, before = new.arrivals, old.arrivals
    for live in list(arrivals.live.values()):
        same = before.find(live.tangle.id, live.key)
        if same is None or same.number != live.number:
            arrivals.close(live, Reason.CLOSED)
    for theirs in before.live.values():
        tangle = arrivals.tangles[theirs.tangle.id]
        mine = tangle.live.get(theirs.key)
        if mine is None:
            arrivals.numbers[tangle.id, theirs.key] = theirs.number
            mine = arrivals.open(tangle, theirs.key)
            new.runner.begin(mine)
        mine.slot = theirs.slot % arrivals.slots
        mine.n_items, mine.time, mine.wall = theirs.n_items, theirs.time, theirs.wall
        mine.alike, mine.decision, mine.is_foreign = theirs.alike, theirs.decision, True
        arrivals.live.move_to_end(mine.serial)
        tangle.live.move_to_end(theirs.key)
    arrivals.settle()
    arrivals.tangles = OrderedDict((id, arrivals.tangles[id]) for id in before.tangles)
    for id, tangle in arrivals.tangles.items():
        theirs_too = before.tangles[id]
        tangle.n_opened, tangle.n_passed = theirs_too.n_opened, theirs_too.n_passed
        tangle.clock, tangle.wall, tangle.began = theirs_too.clock, theirs_too.wall, theirs_too.began
    arrivals.numbers, arrivals.next_number = before.numbers.copy(), before.next_number
    arrivals.evicted_items = before.evicted_items
