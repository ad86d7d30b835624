"""All tangles of one worker: those at hand, and when each is looked at again. Knows Flink by two small protocols."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from kvec.doors.flink.keeping import Keeper, Kept, Tangle, Told

MOMENT = 0.001  # seconds: alarms are as fine as Flink's timers


class Alarms(Protocol):
    """Flink's timers of the tangle at hand."""

    def at(self, wall: float) -> None:
        """Ring at this time of the wall clock."""

    def at_end(self) -> None:
        """Ring when no more rows can come."""


@dataclass(frozen=True)
class Manner:
    """How tangles are watched."""

    linger: float = 0.0  # seconds that rows wait for others of their tangle
    most_rows: int = 256  # that wait
    by_wall: bool = False  # the wall clock moves the items' clock too
    is_live: bool = False  # nobody marks the end of the rows; a job that is drained tells it by a timer
    most_bytes: int = 256 << 20  # of all tangles at hand


class Watcher:
    """Takes rows, rings and ends of any tangle; what it does not have at hand it restores.

    A checkpoint of PyFlink 2.3 lacks the timers of the bundle that it ends. So rows do not linger by default, files end
    by a mark behind their rows, and every tangle that is touched sets its timers again.
    """

    def __init__(self, keeper: Keeper, manner: Manner) -> None:
        self._keeper, self._manner = keeper, manner
        self._at_hand: OrderedDict[str, Tangle] = OrderedDict()  # the one touched longest ago first
        self._bytes = 0

    def take(self, name: str, rows: bytes, kept: Kept, alarms: Alarms, wall: float) -> Told:
        """Take rows of a tangle, lines of JSON; they are fed at once, or after lingering. No rows: no more can come."""
        if not rows:
            return self.end(name, kept, wall)
        manner = self._manner
        is_at_hand = name in self._at_hand
        tangle, told = self._tangle(name, kept)
        if tangle is None:
            tangle = self._at_hand[name] = self._keeper.begin(kept)
        if manner.is_live and not is_at_hand:
            alarms.at_end()
        self._keeper.wait(tangle, rows, kept)
        if not manner.linger or tangle.n_waiting >= manner.most_rows:
            told += self._keeper.do(name, tangle, kept, "feed", self._wall(tangle, wall))
        self._wake(tangle, alarms, wall)
        self._weigh(tangle)
        return told

    def ring(self, name: str, kept: Kept, alarms: Alarms, wall: float) -> Told:
        """Look at a tangle again: rows that have waited, sequences that have been silent."""
        tangle, told = self._tangle(name, kept)
        if tangle is None:
            return told
        tangle.alarm = None
        now, idle = tangle.stream.due()
        if idle <= wall or (self._manner.by_wall and now <= wall):
            by_items = wall if self._manner.by_wall else None
            told += self._keeper.do(name, tangle, kept, "tick", self._wall(tangle, wall), by_items)
        elif tangle.waiting:
            told += self._keeper.do(name, tangle, kept, "feed", self._wall(tangle, wall))
        self._wake(tangle, alarms, wall)
        self._weigh(tangle)
        return told

    def end(self, name: str, kept: Kept, wall: float) -> Told:
        """Decide all that waits: no more rows can come."""
        tangle, told = self._tangle(name, kept)
        if tangle is not None:
            told += self._keeper.do(name, tangle, kept, "close", self._wall(tangle, wall))
            self._weigh(tangle)
        return told

    def _tangle(self, name: str, kept: Kept) -> tuple[Tangle | None, Told]:
        told = Told()
        tangle = self._at_hand.get(name)
        if tangle is None:
            tangle, told.decisions = self._keeper.restore(name, kept)
            if tangle is not None:
                self._at_hand[name] = tangle
        else:
            self._at_hand.move_to_end(name)
        return tangle, told

    def _wall(self, tangle: Tangle, wall: float) -> float:
        """The wall clock where it counts, so that it cannot matter elsewhere."""
        return wall if tangle.stream.limits.idle is not None else 0.0

    def _wake(self, tangle: Tangle, alarms: Alarms, wall: float) -> None:
        """Set an alarm for what comes next, unless an earlier one is set."""
        now, idle = tangle.stream.due()
        next_ = min(
            wall + self._manner.linger if tangle.waiting else math.inf, idle, now if self._manner.by_wall else math.inf
        )
        if next_ < math.inf and (tangle.alarm is None or next_ < tangle.alarm):
            tangle.alarm = max(next_, wall) + MOMENT
            alarms.at(tangle.alarm)

    def _weigh(self, tangle: Tangle) -> None:
        """Let go of the tangles touched longest ago, if all together are too large; their state is Flink's."""
        self._bytes += tangle.stream.bytes - tangle.bytes
        tangle.bytes = tangle.stream.bytes
        while self._bytes > self._manner.most_bytes and len(self._at_hand) > 1:
            _, gone = self._at_hand.popitem(last=False)
            self._bytes -= gone.bytes
