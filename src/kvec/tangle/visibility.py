"""Which earlier items an item may look at: the one place where the rules stand (§IV-B, the dynamic mask).

A rule yields, for each arriving item, the list of visible items and how it stands to each; the network adds a bias to
the score of a pair by its relation. Lists are laid out one after the other: item `first + q` sees
`items[starts[q]:starts[q + 1]]`, itself included, newest own first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvec.tangle.links import (
    ARRIVAL,
    BEFORE,
    LISTED,
    MATCH,
    MATCH_ARRIVAL,
    NEWEST,
    OWN,
    OWN_ARRIVAL,
    SEQUENCE,
    SERIAL,
    SESSION,
    Codes,
    Flags,
    Ints,
    Links,
    Rows,
    compiled,
    link,
)
from kvec.tangle.relations import RELATIONS, typed_block, typed_lists
from kvec.tangle.tangles import Tangles
from kvec.words.config import Visibility

WINDOWS = {"paper": 1024, "window": 256, "typed": 256}
NONE_DROPPED: Flags = np.zeros(0, bool)


@dataclass(frozen=True)
class Visible:
    """The visible items of consecutive arrivals; indices are those of the whole table."""

    starts: Ints  # (Q + 1,)
    items: Ints  # (pairs,)
    relation: Codes  # (pairs,) the number of its name in the rule's `relations`; 0 where the rule tells none apart

    def of(self, q: int) -> Ints:
        """The items that the q-th arrival sees."""
        return self.items[self.starts[q] : self.starts[q + 1]]


class Rule(Protocol):
    """Looks up what the items `first` to `last - 1` of one tangle see, from items up to themselves alone."""

    @property
    def window(self) -> int:
        """W: how far back anything is seen."""
        ...

    @property
    def most(self) -> int:
        """So many items one item sees at the most, itself included."""
        ...

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations of two items that the rule tells apart, by name; empty: it tells none apart."""
        ...

    @property
    def dropped(self) -> Flags:
        """Items of a table that only their own sequence sees, since they came after its halt; empty: there are none."""
        ...

    def look(self, tangles: Tangles, tangle: int, first: int, last: int) -> Visible:
        """The visible items of these arrivals."""
        ...

    def see(self, links: Links, added: Ints, first: int, out: Rows, relation: Codes, starts: Ints) -> int:
        """Link items of a stream from the `first` on, and write what they see; the first one without room for that.

        `added` has the row of each, the oldest arrival that it may see, and the columns of the row. Item i sees the
        rows `out[starts[i]:starts[i + 1]]`; relations, if any are told apart, are at the same places.
        """
        ...


@dataclass(frozen=True)
class PaperRule:
    """Own earlier items, and the sessions of other sequences that hold the arriving value."""

    window: int
    own: int
    others: int
    dropped: Flags = field(default_factory=lambda: NONE_DROPPED, compare=False)
    relations = ()

    @property
    def most(self) -> int:
        """So many items one item sees at the most, itself included."""
        return min(1 + self.own + self.others, self.window)

    def look(self, tangles: Tangles, tangle: int, first: int, last: int) -> Visible:
        """The visible items of these arrivals."""
        origin = max(int(tangles.starts[tangle]), first - self.window + 1)
        starts, items = _paper_lists(
            origin, first, last, self.window, min(self.own, self.window), min(self.others, self.window),
            tangles.previous, tangles.previous_match, tangles.sequences.sequence, tangles.session,
            self.dropped,
        )  # fmt: skip
        return Visible(starts, items, np.zeros(len(items), np.uint8))

    def see(self, links: Links, added: Ints, first: int, out: Rows, relation: Codes, starts: Ints) -> int:
        """The rows that arriving items see."""
        return _paper_block(links.items, links.sessions, added, first, self.own, self.others, self.most, out, starts)


@dataclass(frozen=True)
class WindowRule:
    """Every item of the recent past, whatever its key."""

    window: int
    dropped: Flags = field(default_factory=lambda: NONE_DROPPED, compare=False)
    relations = ()

    @property
    def most(self) -> int:
        """So many items one item sees at the most, itself included."""
        return self.window

    def look(self, tangles: Tangles, tangle: int, first: int, last: int) -> Visible:
        """The visible items of these arrivals."""
        arrivals = np.arange(first, last, dtype=np.int64)
        oldest = np.maximum(arrivals - self.window + 1, tangles.starts[tangle])
        counts = arrivals - oldest + 1
        starts = np.concatenate([[0], np.cumsum(counts)])
        items = np.repeat(arrivals + starts[:-1], counts) - np.arange(starts[-1])
        if len(self.dropped):
            sequence = tangles.sequences.sequence
            stays = ~self.dropped[items] | (sequence[items] == np.repeat(sequence[first:last], counts))
            starts = np.concatenate([[0], np.cumsum(stays)])[starts]
            items = items[stays]
        return Visible(starts, items, np.zeros(len(items), np.uint8))

    def see(self, links: Links, added: Ints, first: int, out: Rows, relation: Codes, starts: Ints) -> int:
        """The rows that arriving items see."""
        return _window_block(links.items, links.sessions, added, first, out, starts)


@dataclass(frozen=True)
class TypedRule:
    """Every item of the recent past, told apart by how it stands to the arriving one."""

    window: int
    dropped: Flags = field(default_factory=lambda: NONE_DROPPED, compare=False)
    relations = RELATIONS

    @property
    def most(self) -> int:
        """So many items one item sees at the most, itself included."""
        return self.window

    def look(self, tangles: Tangles, tangle: int, first: int, last: int) -> Visible:
        """The visible items of these arrivals."""
        return Visible(
            *typed_lists(
                int(tangles.starts[tangle]), first, last, self.window, tangles.previous_match,
                tangles.sequences.sequence, tangles.session, tangles.alike, self.dropped,
            )
        )  # fmt: skip

    def see(self, links: Links, added: Ints, first: int, out: Rows, relation: Codes, starts: Ints) -> int:
        """The rows that arriving items see."""
        return typed_block(links.items, links.sessions, added, first, out, relation, starts)


def without(rule: Rule, dropped: Flags) -> Rule:
    """The same rule over a table some of whose items are dropped."""
    if isinstance(rule, PaperRule | WindowRule | TypedRule):
        return replace(rule, dropped=dropped)
    raise TypeError(f"{type(rule).__name__} cannot drop items")


def make_rule(settings: Visibility) -> Rule:
    """The rule that the settings name."""
    window = settings.window or WINDOWS[settings.rule]
    if settings.rule == "window":
        return WindowRule(window)
    if settings.rule == "typed":
        return TypedRule(window)
    return PaperRule(
        window,
        settings.own if settings.use_key_correlation else 0,
        settings.others if settings.use_value_correlation else 0,
    )


@compiled
def _paper_lists(
    origin: int, first: int, last: int, window: int, own: int, others: int,
    previous: Ints, previous_match: Ints, sequence: npt.NDArray[np.int32], session: npt.NDArray[np.int32],
    dropped: Flags,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Walk the items from `origin` on, in order; list what those from `first` on see."""
    drops = len(dropped) > 0
    low, high = session[origin], session[origin]
    for i in range(origin, last):
        low, high = min(low, session[i]), max(high, session[i])
    newest = np.full(high - low + 1, -1, np.int64)  # of each session, its newest item so far
    taken = np.full(high - low + 1, -1, np.int64)  # of each session, the last item that has listed it
    starts = np.zeros(last - first + 1, np.int64)
    items = np.empty((last - first) * min(window, 16) + own + others + 1, np.int64)
    n = 0
    for i in range(origin, last):
        newest[session[i] - low] = i
        if i < first:
            continue
        if n + 1 + own + others > len(items):
            items = np.concatenate((items, np.empty(len(items) + own + others + 1, np.int64)))
        oldest = i - window + 1
        items[n] = i
        n += 1
        j, left = previous[i], own
        while left > 0 and j >= 0 and j >= oldest:
            items[n] = j
            n += 1
            left -= 1
            j = previous[j]
        m, left = previous_match[i], others
        while left > 0 and m >= 0 and m >= oldest:
            s = session[m] - low
            if sequence[m] != sequence[i] and taken[s] != i and not (drops and dropped[m]):
                taken[s] = i
                j = newest[s]
                while left > 0 and j >= 0 and j >= oldest and session[j] == session[m]:
                    if not (drops and dropped[j]):
                        items[n] = j
                        n += 1
                        left -= 1
                    j = previous[j]
            m = previous_match[m]
        starts[i - first + 1] = n
    return starts, items[:n]


@compiled
def _paper_rows(items: Ints, sessions: Ints, row: int, oldest: int, own: int, others: int, out: Rows, n: int) -> int:
    serial, sequence = items[row, SERIAL], items[row, SEQUENCE]
    out[n] = row
    n += 1
    j, arrival, left = items[row, OWN], items[row, OWN_ARRIVAL], own
    while left > 0 and arrival >= oldest:
        out[n] = j
        n += 1
        left -= 1
        arrival, j = items[j, OWN_ARRIVAL], items[j, OWN]
    m, arrival, left = items[row, MATCH], items[row, MATCH_ARRIVAL], others
    while left > 0 and arrival >= oldest:
        s = items[m, SESSION]
        if items[m, SEQUENCE] != sequence and sessions[s, LISTED] != serial:
            sessions[s, LISTED] = serial
            j = sessions[s, NEWEST]
            while left > 0 and items[j, SESSION] == s:
                out[n] = j
                n += 1
                left -= 1
                if items[j, OWN_ARRIVAL] < oldest:
                    break
                j = items[j, OWN]
        arrival, m = items[m, MATCH_ARRIVAL], items[m, MATCH]
    return n


@compiled
def _paper_block(
    items: Ints, sessions: Ints, added: Ints, first: int, own: int, others: int, most: int, out: Rows, starts: Ints
) -> int:
    for i in range(first, len(added)):
        row, oldest = link(items, sessions, added[i])
        if starts[i] + min(most, items[row, ARRIVAL] - oldest + 1) > len(out):
            return i
        starts[i + 1] = _paper_rows(items, sessions, row, oldest, own, others, out, starts[i])
    return len(added)


@compiled
def _window_block(items: Ints, sessions: Ints, added: Ints, first: int, out: Rows, starts: Ints) -> int:
    for i in range(first, len(added)):
        row, oldest = link(items, sessions, added[i])
        start, n = starts[i], items[row, ARRIVAL] - oldest + 1
        if start + n > len(out):
            return i
        for place in range(start, start + n):
            out[place] = row
            row = items[row, BEFORE]
        starts[i + 1] = start + n
    return len(added)
