"""The sequences of a stream: which are live, which an item opens, and which it drives out.

Nothing here looks at scores. So the arrivals of a chunk are all booked first, and the network then runs over the chunk
as one causal block: what an item sees was settled when it was booked.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.tangle.coder import Coded, Coder
from kvec.tangle.live import Booked, Closed, Live, TangleState
from kvec.tangle.sightings import Sightings
from kvec.tangle.visibility import Rule
from kvec.words.items import Decision, Item, Key, Reason, TangleId
from kvec.words.limits import Limits

FORGOTTEN = 2  # items of released tangles for each that comes: to forget all of them at once would hold it up


class Arrivals:
    """Books items one by one; tells which sequences close, and what each item sees."""

    def __init__(self, rule: Rule, limits: Limits, slots: int, session_gap: float | None) -> None:
        self.limits, self.slots, self.session_gap = limits, slots, session_gap
        self.sightings = Sightings(rule)
        self.tangles: OrderedDict[TangleId, TangleState] = OrderedDict()  # the one whose last item is oldest first
        self.live: OrderedDict[int, Live] = OrderedDict()  # by serial; the one whose last item is oldest first
        self.numbers: OrderedDict[tuple[TangleId, Key], int] = OrderedDict()  # next sequence number of keys that ended
        self.next_number = 0  # of a key that is not remembered
        self.n_sequences = self.evicted_items = 0  # ever
        self.n_places = 0
        self._free_places: list[int] = []
        self._left_places: list[int] = []  # to be given to others after the chunk
        self._released: deque[TangleState] = deque()  # tangles that are over, and have items to be forgotten
        self._n_released = 0  # such items

    # -- booking ------------------------------------------------------------------------------------------------

    def make_room(self, item: Item, time: float | None) -> list[Closed]:
        """Close the sequences that an item drives out before it is booked: by its time, and by the limits."""
        limits = self.limits
        closed: list[Closed] = []
        tangle = self.tangles.get(item.tangle)
        if tangle is not None and limits.expiry is not None and time is not None:
            closed = self._expire(tangle, time, limits.expiry)
            tangle = self.tangles.get(item.tangle)
        if tangle is None:
            if len(self.tangles) >= limits.max_tangles:
                oldest = next(iter(self.tangles.values()))
                closed += [self.close(live, Reason.EVICTED) for live in list(oldest.live.values())]
                self._release(oldest)
            tangle = self.tangles[item.tangle] = TangleState(item.tangle, began=time)
        if item.key not in tangle.live and len(self.live) >= limits.max_live_keys:
            closed.append(self.close(next(iter(self.live.values())), Reason.EVICTED))
        return closed

    def book(self, item: Item, coded: Coded, time: float | None, wall: float) -> Booked:
        """Take an item for which there is room; `time` never runs backwards within a tangle."""
        tangle = self.tangles[item.tangle]
        live = tangle.live.get(item.key)
        if live is None:
            live = self.open(tangle, item.key)
        gap = tangle_gap = None
        if time is not None:
            gap = time - live.time if live.n_items else None
            tangle_gap = time - tangle.clock if tangle.clock > -math.inf else None
        if (
            live.session < 0
            or coded.session != live.session_value
            or (self.session_gap is not None and gap is not None and gap > self.session_gap)
        ):
            self.sightings.open_session(live, coded.session)
        if self._released:
            self.tidy(FORGOTTEN)
        if len(self.sightings.raw) >= self.limits.max_cached_items and len(tangle.rows) < self.sightings.rule.window:
            self.evicted_items += 1  # as long as a tangle that is over has items left, there is room
            self.sightings.forget(self.tangles[next(iter(self.sightings.raw.values())).item.tangle])
        row = self.sightings.add(tangle, live, item, coded)
        position, arrival = live.n_items, tangle.n_arrived
        tangle.n_arrived += 1
        live.newest, live.newest_arrival = row, arrival
        self._note(live, time, wall)
        return Booked(item, coded, live, row, position, arrival + tangle.n_passed, gap, tangle_gap, time)

    def tidy(self, most: float = math.inf) -> None:
        """Forget the items of tangles that are over, so many at the most."""
        while self._released and most > 0:
            tangle = self._released[0]
            self.sightings.forget(tangle)
            self._n_released -= 1
            most -= 1
            if not tangle.rows:
                self._released.popleft()

    @property
    def n_cached(self) -> int:
        """Items that others may still see."""
        return len(self.sightings.raw) - self._n_released

    def pass_by(self, live: Live, time: float | None, wall: float) -> None:
        """Note an item of a decided sequence that is dropped: it keeps its sequence live, and nobody sees it."""
        live.tangle.n_passed += 1
        self._note(live, time, wall)

    def _note(self, live: Live, time: float | None, wall: float) -> None:
        """Let an item be the newest of its sequence and of its tangle."""
        tangle = live.tangle
        self.tangles.move_to_end(tangle.id)
        tangle.live.move_to_end(live.key)
        self.live.move_to_end(live.serial)
        live.n_items += 1
        live.wall = tangle.wall = wall
        if time is not None:
            live.time = tangle.clock = time

    def find(self, tangle: TangleId, key: Key) -> Live | None:
        """The live sequence of a key."""
        state = self.tangles.get(tangle)
        return None if state is None else state.live.get(key)

    # -- closing ------------------------------------------------------------------------------------------------

    def close(self, live: Live, reason: Reason) -> Closed:
        """Close one sequence; its items remain to be seen by others."""
        del live.tangle.live[live.key]
        del self.live[live.serial]
        self.sightings.leave_session(live.session)
        self._left_places.append(live.place)
        self.numbers[live.tangle.id, live.key] = live.number + 1
        if len(self.numbers) > self.limits.max_returning_keys:
            _, number = self.numbers.popitem(last=False)
            self.next_number = max(self.next_number, number)  # so that no sequence is ever named twice
        return Closed(live, reason)

    def expire(self, now: float) -> list[Closed]:
        """Let the items' clock of every tangle move on to `now`: close what has been idle for too long."""
        expiry = self.limits.expiry
        if expiry is None:
            return []
        return [closed for tangle in list(self.tangles.values()) for closed in self._expire(tangle, now, expiry)]

    def expire_idle(self, wall: float) -> list[Closed]:
        """Close what has been idle for too long by the wall clock, sequences and then tangles."""
        assert self.limits.idle is not None
        closed = []
        while self.live and wall - (oldest := next(iter(self.live.values()))).wall > self.limits.idle:
            closed.append(self.close(oldest, Reason.EXPIRED))
        while self.tangles and wall - (idle := next(iter(self.tangles.values()))).wall > self.limits.idle:
            if idle.live:  # the clock ran backwards in between
                break
            self._release(idle)
        return closed

    def settle(self) -> None:
        """After the network has run: give rows, sessions and places that were left to others."""
        self.sightings.settle()
        self._free_places += self._left_places
        self._left_places = []

    def _expire(self, tangle: TangleState, now: float, expiry: float) -> list[Closed]:
        closed = []
        while tangle.live and now - (oldest := next(iter(tangle.live.values()))).time > expiry:
            closed.append(self.close(oldest, Reason.EXPIRED))
        if now - tangle.clock > expiry:
            self._release(tangle)
        return closed

    def _release(self, tangle: TangleState) -> None:
        del self.tangles[tangle.id]
        if tangle.rows:
            self._released.append(tangle)
            self._n_released += len(tangle.rows)

    def open(self, tangle: TangleState, key: Key) -> Live:
        """Watch a key's next sequence."""
        number = self.numbers.pop((tangle.id, key), self.next_number)
        if self._free_places:
            place = self._free_places.pop()
        else:
            place, self.n_places = self.n_places, self.n_places + 1
        live = Live(tangle, key, number, self.n_sequences, place, tangle.n_opened % self.slots)
        self.n_sequences += 1
        tangle.n_opened += 1
        tangle.live[key] = self.live[live.serial] = live
        return live

    # -- plain data ---------------------------------------------------------------------------------------------

    def to_plain(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.int64]]]:
        """All that is remembered as plain data and arrays, rows, sessions and places numbered anew without holes.

        Under `rows` and `places` are the old numbers, for whoever keeps something under them.
        """
        self.tidy()
        facts, arrays, new_row, new_session = self.sightings.to_plain()
        tangle_number = {id: number for number, id in enumerate(self.tangles)}
        facts |= {
            "tangles": [
                [t.id, new_row[list(t.rows)].tolist(), t.n_arrived, t.n_opened, t.n_passed, t.clock, t.wall, t.began]
                for t in self.tangles.values()
            ],
            "live": [
                [
                    tangle_number[live.tangle.id], live.key, live.number, live.serial, live.slot, live.n_items,
                    int(new_row[live.newest]), live.newest_arrival, live.time, live.wall,
                    int(new_session[live.session]), list(live.session_value), live.alike.hex(),
                    None if live.decision is None else live.decision.to_plain(), live.is_foreign,
                ]
                for live in self.live.values()
            ],
            "numbers": [[tangle, key, number] for (tangle, key), number in self.numbers.items()],
            "next_number": self.next_number, "n_sequences": self.n_sequences, "evicted_items": self.evicted_items,
        }  # fmt: skip
        places = np.fromiter((live.place for live in self.live.values()), np.int64, len(self.live))
        return facts, arrays | {"places": places}

    def restore(self, facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], coder: Coder) -> None:
        """Remember what `to_plain` told, and nothing else; `coder` tells again which values match."""
        self.n_places, self._free_places, self._left_places = len(facts["live"]), [], []
        self._released, self._n_released = deque(), 0
        tangles = [TangleState(id, deque(rows), *counts) for id, rows, *counts in facts["tangles"]]
        self.tangles = OrderedDict((tangle.id, tangle) for tangle in tangles)
        self.live = OrderedDict()
        for place, told in enumerate(facts["live"]):
            tangle, key, number, serial, slot, n_items, newest, arrival, time, wall, session, value, alike = told[:13]
            decision = None if told[13] is None else Decision.from_plain(told[13])
            live = Live(
                tangles[tangle], key, number, serial, place, slot, n_items, newest, arrival, time, wall, session,
                tuple(value), bytes.fromhex(alike), decision, is_foreign=told[14],
            )  # fmt: skip
            tangles[tangle].live[key] = self.live[serial] = live
        self.sightings.restore(facts, arrays, tangles, coder)
        self.numbers = OrderedDict(((tangle, key), number) for tangle, key, number in facts["numbers"])
        self.next_number = facts["next_number"]
        self.n_sequences, self.evicted_items = facts["n_sequences"], facts["evicted_items"]
