"""The items that a stream remembers, and which of them an arriving item sees.

Items are added one by one, and linked in the tables when the chunk that is being booked is to run. What is forgotten
meanwhile keeps its row and its session until the chunk has run: its items may see it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kvec.tangle.coder import Coded, Coder
from kvec.tangle.links import (
    ALIKE,
    ARRIVAL,
    BEFORE,
    MATCH,
    MATCH_ARRIVAL,
    NEWEST,
    OWN,
    REMEMBERED,
    SERIAL,
    SESSION,
    Codes,
    Ints,
    Links,
    Rows,
)
from kvec.tangle.live import Holder, Live, Remembered, TangleState
from kvec.tangle.visibility import Rule
from kvec.words.items import Item

LEAST_ROWS = 64  # tables grow from here, twofold, and shrink no further
SAVED = ALIKE  # so many columns of a row are kept with a state; those behind come from the items' values


class Sightings:
    """Remembers items by row, and links each to those that a rule may lead to."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.links = Links(np.zeros((LEAST_ROWS, ALIKE + 1), np.int64), np.zeros((LEAST_ROWS, 3), np.int64))
        self.raw: OrderedDict[int, Remembered] = OrderedDict()  # by row, oldest first
        self.n_items = 0  # ever
        self._free_rows = list(range(LEAST_ROWS - 1, -1, -1))
        self._free_sessions = list(range(LEAST_ROWS - 1, -1, -1))
        self._remembered = [0] * LEAST_ROWS  # for each session, how often: once while it is open, and by each item
        self._left_rows: list[int] = []
        self._left_sessions: list[int] = []
        self._added: list[tuple[int, ...]] = []  # not linked yet, as `added` tells them

    @property
    def n_added(self) -> int:
        """Items that are not linked yet."""
        return len(self._added)

    def added(self) -> Ints:
        """Hand over the items that were added since this was asked, to be linked: as `Rule.see` takes them."""
        added, self._added = np.array(self._added, np.int64).reshape(-1, 2 + ALIKE + 1), []
        return added

    def see(self, added: Ints, first: int, out: Rows, relation: Codes, starts: Ints) -> int:
        """Link items from the `first` on, and write what they see; the first one for which there is no room."""
        return self.rule.see(self.links, added, first, out, relation, starts)

    def open_session(self, live: Live, value: tuple[Any, ...]) -> None:
        """Let a sequence's next session begin."""
        self.leave_session(live.session)
        if not self._free_sessions:
            n = len(self.links.sessions)
            self.links.sessions = np.concatenate([self.links.sessions, np.zeros_like(self.links.sessions)])
            self._free_sessions = list(range(2 * n - 1, n - 1, -1))
            self._remembered += [0] * n
        live.session, live.session_value = self._free_sessions.pop(), value
        self._remembered[live.session] = 1

    def leave_session(self, session: int) -> None:
        """Remember a session once less; -1 is none."""
        if session >= 0:
            self._remembered[session] -= 1
            if not self._remembered[session]:
                self._left_sessions.append(session)

    def add(self, tangle: TangleState, live: Live, item: Item, coded: Coded) -> int:
        """Remember an item; its row."""
        if len(tangle.rows) >= self.rule.window:
            self.forget(tangle)
        if not self._free_rows:
            n = len(self.links.items)
            self.links.items = np.concatenate([self.links.items, np.zeros_like(self.links.items)])
            self._free_rows = list(range(2 * n - 1, n - 1, -1))
        row, arrival, session = self._free_rows.pop(), tangle.n_arrived, live.session
        held = held_arrival = -1
        match = coded.match
        if match is not None:
            holder = tangle.holders.get(match)
            if holder is not None:
                if holder.session == session:  # who saw this session through the holder now does here
                    held, held_arrival = holder.match, holder.match_arrival
                else:
                    held, held_arrival = holder.row, holder.arrival
            tangle.holders[match] = Holder(row, arrival, session, held, held_arrival)
        rows = tangle.rows
        before = rows[-1] if rows else -1
        self._added.append((
            row, arrival - len(rows), arrival, self.n_items, live.serial, session, live.newest, live.newest_arrival,
            held, held_arrival, before, _number(tangle, coded.alike, row, self.n_items),
        ))  # fmt: skip
        self._remembered[session] += 1
        rows.append(row)
        self.raw[row] = Remembered(item, live.number, match, coded.alike, session)
        self.n_items += 1
        return row

    def forget(self, tangle: TangleState) -> None:
        """Forget the oldest remembered item of a tangle."""
        row = tangle.rows.popleft()
        _, _, match, alike, session = self.raw.pop(row)
        if match is not None and tangle.holders[match].row == row:
            del tangle.holders[match]
        if alike is not None and tangle.alike[alike][1] == row:
            del tangle.alike[alike]
        self.leave_session(session)
        self._left_rows.append(row)

    def settle(self) -> None:
        """After the network has run: give rows and sessions that were left to others."""
        self._free_rows += self._left_rows
        self._free_sessions += self._left_sessions
        self._left_rows, self._left_sessions = [], []

    def to_plain(self) -> tuple[dict[str, Any], dict[str, Ints], Ints, Ints]:
        """Plain data and arrays, rows and sessions numbered anew without holes; new numbers of rows, of sessions.

        Under `rows` are the old numbers, for whoever keeps something under them.
        """
        rows = np.fromiter(self.raw, np.int64, len(self.raw))
        remembered = np.array(self._remembered)
        sessions = np.flatnonzero(remembered)
        new_row, new_session = _renumber(rows, len(self.links.items)), _renumber(sessions, len(self.links.sessions))
        items, held = self.links.items[rows, :SAVED], self.links.sessions[sessions]
        items[:, SESSION] = new_session[items[:, SESSION]]
        for column in (OWN, MATCH, BEFORE):  # a link that led nowhere still does: its arrival says so
            items[:, column] = new_row[items[:, column]]
        held[:, NEWEST], held[:, REMEMBERED] = new_row[held[:, NEWEST]], remembered[sessions]
        facts = {
            "raw": [[item.key, item.value, item.time, number] for item, number, *_ in self.raw.values()],
            "n_items": self.n_items,
        }
        return facts, {"items": items, "sessions": held, "rows": rows}, new_row, new_session

    def restore(
        self, facts: Mapping[str, Any], arrays: Mapping[str, Ints], tangles: Iterable[TangleState], coder: Coder
    ) -> None:
        """Remember what `to_plain` told, and nothing else; `coder` tells again which values are equal."""
        items = _with_room(np.pad(arrays["items"], ((0, 0), (0, ALIKE + 1 - SAVED))))
        self.links = Links(items, _with_room(arrays["sessions"]))
        self._remembered = self.links.sessions[:, REMEMBERED].tolist()
        self._free_rows = list(range(len(self.links.items) - 1, len(arrays["items"]) - 1, -1))
        self._free_sessions = list(range(len(self.links.sessions) - 1, len(arrays["sessions"]) - 1, -1))
        self._left_rows, self._left_sessions, self._added = [], [], []
        owner = {row: tangle for tangle in tangles for row in tangle.rows}
        self.raw = OrderedDict()
        for row, (key, value, time, number) in enumerate(facts["raw"]):
            coded, session = coder.code(value), int(items[row, SESSION])
            self.raw[row] = Remembered(Item(owner[row].id, key, value, time), number, coded.match, coded.alike, session)
            if coded.match is not None:
                arrival, held, held_arrival = items[row, [ARRIVAL, MATCH, MATCH_ARRIVAL]].tolist()
                owner[row].holders[coded.match] = Holder(row, arrival, session, held, held_arrival)
            items[row, ALIKE] = _number(owner[row], coded.alike, row, int(items[row, SERIAL]))
        self.n_items = facts["n_items"]


def _number(tangle: TangleState, alike: tuple[Any, ...] | None, row: int, fresh: int) -> int:
    """The number of an item's session fields: that of the items alike which are remembered, or a fresh one."""
    if alike is None:
        return -1
    number, _ = tangle.alike.get(alike, (fresh, row))
    tangle.alike[alike] = number, row
    return number


def _renumber(kept: Ints, n: int) -> Ints:
    """New numbers of old ones, -1 for those that go; -1 stays -1."""
    new = np.full(n + 1, -1, np.int64)
    new[kept] = np.arange(len(kept))
    return new


def _with_room(table: Ints) -> Ints:
    n = max(LEAST_ROWS, 1 << max(len(table) - 1, 0).bit_length())
    return np.concatenate([table, np.zeros((n - len(table), table.shape[1]), np.int64)])
