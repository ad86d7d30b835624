"""The values that a stream's bookkeeping passes around: live sequences, tangles, booked items."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvec.tangle.coder import Coded
from kvec.words.items import Decision, Item, Key, Reason, TangleId


@dataclass(slots=True, eq=False)
class Live:
    """One sequence that is being watched, decided or not."""

    tangle: TangleState
    key: Key
    number: int  # 0 for the key's first sequence in the tangle
    serial: int  # no other sequence of the stream has it
    place: int  # the row of its gated state
    slot: int  # membership
    n_items: int = 0
    newest: int = -1  # its newest item's row, and when that arrived
    newest_arrival: int = -1
    time: float = 0.0  # of its newest item
    wall: float = 0.0  # when that came, by the wall clock
    session: int = -1
    session_value: tuple[Any, ...] = ()
    alike: bytes = b""  # fingerprints of its newest items, where duplicates are dropped
    decision: Decision | None = None
    is_foreign: bool = False  # another model decides it


@dataclass(slots=True, eq=False)
class TangleState:
    """One tangle of the stream."""

    id: TangleId
    rows: deque[int] = field(default_factory=deque)  # its remembered items, oldest first
    n_arrived: int = 0
    n_opened: int = 0
    n_passed: int = 0  # items that were dropped since their sequences were decided
    clock: float = -math.inf  # the time of its newest item
    wall: float = 0.0  # when that came, by the wall clock
    began: float | None = None  # the time of its first item
    live: OrderedDict[Key, Live] = field(default_factory=OrderedDict)  # the one whose last item is oldest first
    holders: dict[tuple[Any, ...], Holder] = field(default_factory=dict)  # match value → the newest item that holds it
    alike: dict[tuple[Any, ...], tuple[int, int]] = field(default_factory=dict)  # session fields → number, newest item


class Remembered(NamedTuple):
    """An item that is kept, the number of its sequence, and what it is compared with others by."""

    item: Item
    number: int
    match: tuple[Any, ...] | None
    alike: tuple[Any, ...] | None
    session: int


class Holder(NamedTuple):
    """An item that others of its value are linked to, as its row has it."""

    row: int
    arrival: int
    session: int
    match: int  # the row that it is linked to itself, and when that arrived
    match_arrival: int


class Closed(NamedTuple):
    """A sequence that gets no further items, and why."""

    live: Live
    reason: Reason


@dataclass(slots=True)
class Booked:
    """One booked item, as the network needs it."""

    item: Item
    coded: Coded
    live: Live
    row: int
    position: int  # in its sequence
    arrival: int  # in its tangle
    gap: float | None  # seconds since the item before in its sequence, and in its tangle; None for the first
    tangle_gap: float | None
    time: float | None  # at which it counts
