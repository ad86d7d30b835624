"""Which earlier items an item may look at: the one place where the rules stand (§IV-B, the dynamic mask).

A rule yields, for each arriving item, the list of visible items and how it stands to each; the network adds a bias to
the score of a pair by its relation. Lists are laid out one after the other: item `first + q` sees
`items[starts[q]:starts[q + 1]]`, itself included, newest own first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from kvec.tangle.links import ARRIVAL, BEFORE, Codes, Flags, Ints, Links, Rows, compiled, link
from kvec.tangle.relations import BIASES, RELATIONS, listed, listed_block
from kvec.tangle.tangles import Tangles
from kvec.words.config import Visibility

WINDOWS = {"paper": 1024, "window": 256, "typed": 1024}
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
    def biases(self) -> tuple[float, ...]:
        """Of each relation, the bias of attention with which training begins."""
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
    recent: int = 0  # beside these, so many of the newest items, whatever their key
    dropped: Flags = field(default_factory=lambda: NONE_DROPPED, compare=False)
    relations: ClassVar[tuple[str, ...]] = ()
    biases: ClassVar[tuple[float, ...]] = ()

    @property
    def most(self) -> int:
        """So many items one item sees at the most, itself included."""
        return min(1 + self.own + self.others + self.recent, self.window)

    def look(self, tangles: Tangles, tangle: int, first: int, last: int) -> Visible:
        """The visible items of these arrivals."""
        own, others, recent = (min(most, self.window) for most in (self.own, self.others, self.recent))
        starts, items, relation = listed(
            int(tangles.starts[tangle]), first, last, self.window, own, others, recent,
            tangles.previous, tangles.previous_match, tangles.sequences.sequence, tangles.session, tangles.alike,
            self.dropped,
        )  # fmt: skip
        return Visible(starts, items, relation if self.relations else np.zeros(len(items), np.uint8))

    def see(self, links: Links, added: Ints, first: int, out: Rows, relation: Codes, starts: Ints) -> int:
        """The rows that arriving items see."""
        return listed_block(
            links.items, links.sessions, added, first, self.own, self.others, self.recent, self.most, out, relation,
            starts,
        )  # fmt: skip


class TypedRule(PaperRule):
    """The same, told apart by how each stands to the arriving one."""

    relations = RELATIONS
    biases = BIASES


@dataclass(frozen=True)
class WindowRule:
    """Every item of the recent past, whatever its key."""

    window: int
    dropped: Flags = field(default_factory=lambda: NONE_DROPPED, compare=False)
    relations = ()
    biases = ()

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
    own = settings.own if settings.use_key_correlation else 0
    others = settings.others if settings.use_value_correlation else 0
    if settings.rule == "typed":
        return TypedRule(window, own, others, settings.recent)
    return PaperRule(window, own, others)


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
