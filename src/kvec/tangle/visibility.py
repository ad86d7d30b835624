"""Which earlier items an item may look at: the one place where the rules stand (§IV-B, the dynamic mask).

A rule yields, for each arriving item, the list of visible items and one additive bias for each. Lists are laid
out one after the other: item `first + q` sees `items[starts[q]:starts[q + 1]]`, itself included, newest own first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

from kvec.tangle.tangles import Tangles
from kvec.words.config import Visibility

F = TypeVar("F", bound=Any)
WINDOWS = {"paper": 1024, "window": 256}
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Biases = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
NONE_DROPPED: Flags = np.zeros(0, bool)


def _compiled(function: F) -> F:
    try:
        return cast(F, njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no folder that the compiled code could be kept in
        return cast(F, njit(nogil=True)(function))


@dataclass(frozen=True)
class Visible:
    """The visible items of consecutive arrivals; indices are those of the whole table."""

    starts: Ints  # (Q + 1,)
    items: Ints  # (pairs,)
    bias: npt.NDArray[np.float32]  # (pairs,) added to the attention score

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
    def dropped(self) -> Flags:
        """Items of a table that only their own sequence sees, since they came after its halt; empty: there are none."""
        ...

    def look(self, tangles: Tangles, tangle: int, first: int, last: int) -> Visible:
        """The visible items of these arrivals."""
        ...

    def see(self, links: Links, row: int, oldest: int, out: Rows, bias: Biases, n: int) -> int:
        """Write the rows that the item in `row` of a stream sees behind the first n of `out`; how many there are then.

        Nothing that arrived before `oldest` is seen. What is added to the scores goes to the same places of `bias`.
        """
        ...


@dataclass
class Links:
    """The items that a stream remembers, as rows of arrays.

    A link is a row and, beside it, when that row arrived: one before the oldest remembered item leads nowhere.
    """

    items: Ints  # (rows, columns below)
    sessions: Ints  # (sessions, newest item, items remembered, the last item that has listed it)

    @property
    def bytes(self) -> int:
        """Memory of both."""
        return self.items.nbytes + self.sessions.nbytes


ARRIVAL, SERIAL, SEQUENCE, SESSION, OWN, OWN_ARRIVAL, MATCH, MATCH_ARRIVAL, BEFORE = range(9)
NEWEST, REMEMBERED, LISTED = range(3)


@dataclass(frozen=True)
class PaperRule:
    """Own earlier items, and the sessions of other sequences that hold the arriving value."""

    window: int
    own: int
    others: int
    dropped: Flags = field(default_factory=lambda: NONE_DROPPED, compare=False)

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
        return Visible(starts, items, np.zeros(len(items), np.float32))

    def see(self, links: Links, row: int, oldest: int, out: Rows, bias: Biases, n: int) -> int:
        """The rows that an arriving item sees."""
        last = _paper_rows(links.items, links.sessions, row, oldest, self.own, self.others, out, n)
        bias[n:last] = 0.0
        return last


@dataclass(frozen=True)
class WindowRule:
    """Every item of the recent past, whatever its key."""

    window: int
    dropped: Flags = field(default_factory=lambda: NONE_DROPPED, compare=False)

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
        return Visible(starts, items, np.zeros(len(items), np.float32))

    def see(self, links: Links, row: int, oldest: int, out: Rows, bias: Biases, n: int) -> int:
        """The rows that an arriving item sees."""
        last = _window_rows(links.items, row, oldest, out, n)
        bias[n:last] = 0.0
        return last


def without(rule: Rule, dropped: Flags) -> Rule:
    """The same rule over a table some of whose items are dropped."""
    if isinstance(rule, PaperRule | WindowRule):
        return replace(rule, dropped=dropped)
    raise TypeError(f"{type(rule).__name__} cannot drop items")


def make_rule(settings: Visibility) -> Rule:
    """The rule that the settings name."""
    window = settings.window or WINDOWS[settings.rule]
    if settings.rule == "window":
        return WindowRule(window)
    return PaperRule(
        window,
        settings.own if settings.use_key_correlation else 0,
        settings.others if settings.use_value_correlation else 0,
    )


@_compiled
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


@_compiled
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


@_compiled
def _window_rows(items: Ints, row: int, oldest: int, out: Rows, n: int) -> int:
    for _ in range(items[row, ARRIVAL] - oldest + 1):
        out[n] = row
        n += 1
        row = items[row, BEFORE]
    return n
