"""What an arriving item sees, from links alone, against the definition; and that nothing forgotten is held on to."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.paper.slow import SlowItem, slow_relations, slow_sessions, slow_visible, slow_window

from kvec.tangle.arrivals import Arrivals
from kvec.tangle.coder import Coded
from kvec.tangle.links import ALIKE, ARRIVAL, MATCH, MATCH_ARRIVAL, SESSION
from kvec.tangle.live import Booked
from kvec.tangle.sightings import LEAST_ROWS
from kvec.tangle.visibility import PaperRule, Rule, TypedRule, WindowRule
from kvec.words.items import Item
from kvec.words.limits import Limits

ITEMS = st.lists(
    st.builds(
        SlowItem,
        key=st.integers(0, 3),
        value=st.tuples(st.sampled_from([0, 0, 0, 1, 2, None])),
        session_value=st.tuples(st.sampled_from([0, 0, 1])),
    ),
    max_size=60,
)

CHUNKS = st.sampled_from([1, 2, 7, 60])


def book(arrivals: Arrivals, key: Any, match: Any = None, session: Any = 0, tangle: Any = "t") -> Booked:
    """Book an item that needs no room."""
    item = Item(tangle, key, {})
    arrivals.make_room(item, None)
    coded = Coded([], [], (session,), None if match is None else (match,), 0, 0, (session,))
    return arrivals.book(item, coded, None, 0.0)


def seen(arrivals: Arrivals) -> list[dict[int, str]]:
    """The rows that each item of a chunk sees, in order, and as what; room is made as they need it."""
    sightings, names = arrivals.sightings, arrivals.sightings.rule.relations
    added = sightings.added()
    out, relation = np.full(1, -1, np.int32), np.full(1, 99, np.uint8)
    starts = np.zeros(len(added) + 1, np.int64)
    n = 0
    while (n := sightings.see(added, n, out, relation, starts)) < len(added):
        assert (out[starts[n] :] == -1).all() and (relation[starts[n] :] == 99).all()
        out, relation = np.append(out, [-1] * 5).astype(np.int32), np.append(relation, [99] * 5).astype(np.uint8)
    found = []
    for start, end in pairwise(starts.tolist()):
        rows = out[start:end].tolist()
        assert len(set(rows)) == len(rows)
        found.append({row: names[code] if names else "" for row, code in zip(rows, relation[start:end], strict=True)})
    return found


def seen_by_the_last(arrivals: Arrivals) -> list[int]:
    """The rows that the last item of a chunk sees, in order."""
    return list(seen(arrivals)[-1])


def lists(rule: Rule, items: list[SlowItem], chunk: int) -> list[dict[int, str]]:
    """What each item sees, as numbers of items."""
    arrivals = Arrivals(rule, Limits(), slots=4, session_gap=None)
    number: dict[int, int] = {}
    found = []
    for start in range(0, len(items), chunk):
        for i, item in enumerate(items[start : start + chunk], start):
            number[book(arrivals, item.key, item.value[0], item.session_value[0]).row] = i
        found += [{number[row]: name for row, name in one.items()} for one in seen(arrivals)]
        arrivals.settle()
    return found


@given(items=ITEMS, window=st.integers(1, 20), own=st.integers(0, 5), others=st.integers(0, 9), chunk=CHUNKS)
def test_the_paper_rule_sees_what_its_definition_says(
    items: list[SlowItem], window: int, own: int, others: int, chunk: int
) -> None:
    found = lists(PaperRule(window, own, others), items, chunk)
    assert [set(seen) for seen in found] == slow_visible(items, window, own, others)
    assert all(len(seen) <= PaperRule(window, own, others).most for seen in found)
    assert [next(iter(seen)) for seen in found] == list(range(len(items)))


@given(items=ITEMS, window=st.integers(1, 20), chunk=CHUNKS)
def test_the_window_rule_sees_the_newest_items(items: list[SlowItem], window: int, chunk: int) -> None:
    found = lists(WindowRule(window), items, chunk)
    assert [set(seen) for seen in found] == slow_window(len(items), window)
    assert all(list(seen) == sorted(seen, reverse=True) for seen in found)


@given(
    items=ITEMS, window=st.integers(1, 20), own=st.integers(0, 5), others=st.integers(0, 9), recent=st.integers(0, 9),
    chunk=CHUNKS,
)  # fmt: skip
def test_the_typed_rule_tells_relations_as_their_definition_does(
    items: list[SlowItem], window: int, own: int, others: int, recent: int, chunk: int
) -> None:
    rule = TypedRule(window, own, others, recent)
    found = lists(rule, items, chunk)
    assert found == slow_relations(items, window, own, others, recent)
    assert all(len(seen) <= rule.most for seen in found)


def test_sessions_are_taken_by_their_newest_match_and_newest_first() -> None:
    arrivals = Arrivals(PaperRule(100, own=1, others=4), Limits(), slots=4, session_gap=None)
    a1, b1, a2 = (book(arrivals, key, "x").row for key in ("a", "b", "a"))
    b2 = book(arrivals, "b", "y").row
    own, newer, last = (book(arrivals, "c", match).row for match in ("y", "x", "x"))
    book(arrivals, "d", "x")
    assert seen_by_the_last(arrivals)[1:] == [last, newer, own, a2]
    many = Arrivals(PaperRule(100, own=1, others=9), Limits(), slots=4, session_gap=None)
    rows = [book(many, key, match).row for key, match in zip("abab", "xxxy", strict=True)]
    book(many, "d", "x")
    assert seen_by_the_last(many)[1:] == [rows[2], rows[0], rows[3], rows[1]]
    assert (a1, b1, b2) == (rows[0], rows[1], rows[3])


@pytest.mark.parametrize("rule", [PaperRule(7, 2, 3), WindowRule(7), TypedRule(7, 2, 3, 4)])
def test_nothing_that_is_forgotten_is_held_on_to(rule: Rule) -> None:
    rng = np.random.default_rng(0)
    arrivals = Arrivals(rule, Limits(max_live_keys=5, max_tangles=3), slots=4, session_gap=None)
    for i in range(3000):
        book(arrivals, int(rng.integers(40)), int(rng.integers(9)), int(rng.integers(2)), int(rng.integers(5)))
        if i % 7 == 0:
            seen(arrivals)
            arrivals.settle()
    arrivals.tidy()
    seen(arrivals)
    arrivals.settle()
    sightings, tangles = arrivals.sightings, arrivals.tangles.values()
    rows = [row for tangle in tangles for row in tangle.rows]
    assert sorted(rows) == sorted(sightings.raw)
    assert sorted([*rows, *sightings._free_rows]) == list(range(len(sightings.links.items)))
    used = {int(session) for session in sightings.links.items[rows, 3]} | {
        live.session for live in arrivals.live.values()
    }
    assert sorted([*used, *sightings._free_sessions]) == list(range(len(sightings.links.sessions)))
    assert set(np.flatnonzero(sightings._remembered)) == used
    for tangle in tangles:
        holds = {sightings.raw[row].match: row for row in tangle.rows}
        assert {match: holder.row for match, holder in tangle.holders.items()} == holds
        columns = [ARRIVAL, SESSION, MATCH, MATCH_ARRIVAL]
        assert all(list(h[1:]) == sightings.links.items[h.row, columns].tolist() for h in tangle.holders.values())
        number = sightings.links.items[:, ALIKE]
        assert tangle.alike == {sightings.raw[row].alike: (number[row], row) for row in tangle.rows}
        assert len({number[row] for row in tangle.rows}) == len(tangle.alike)
    for tangle in list(tangles):
        for live in list(tangle.live.values()):
            arrivals.close(live, "closed")  # type: ignore[arg-type]
        arrivals._release(tangle)
    arrivals.tidy()
    arrivals.settle()
    assert sorted(sightings._free_rows) == list(range(len(sightings.links.items)))
    assert sorted(sightings._free_sessions) == list(range(len(sightings.links.sessions)))
    assert not sightings.raw and not any(sightings._remembered)


def test_rows_of_the_forgotten_are_given_to_others_after_the_chunk() -> None:
    arrivals = Arrivals(WindowRule(2), Limits(), slots=4, session_gap=None)
    first, second, third = (book(arrivals, "a").row for _ in range(3))
    assert list(arrivals.sightings.raw) == [second, third]
    assert book(arrivals, "a").row not in (first, second, third)
    arrivals.settle()
    assert book(arrivals, "a").row in (first, second)


def test_tables_grow_twofold() -> None:
    arrivals = Arrivals(WindowRule(5000), Limits(), slots=4, session_gap=None)
    for i in range(LEAST_ROWS):
        book(arrivals, 0, session=i % 2)
    assert len(arrivals.sightings.links.items) == len(arrivals.sightings.links.sessions) == LEAST_ROWS
    book(arrivals, 0, session=2)
    assert len(arrivals.sightings.links.items) == len(arrivals.sightings.links.sessions) == 2 * LEAST_ROWS
    assert len(seen_by_the_last(arrivals)) == LEAST_ROWS + 1
    sessions = arrivals.sightings.links.items[list(arrivals.sightings.raw), 3]
    assert len(set(sessions.tolist())) == LEAST_ROWS + 1


@given(items=ITEMS)
def test_sessions_are_runs_of_equal_values(items: list[SlowItem]) -> None:
    arrivals = Arrivals(WindowRule(100), Limits(), slots=4, session_gap=None)
    rows = [book(arrivals, item.key, session=item.session_value[0]).row for item in items]
    seen(arrivals)
    found = arrivals.sightings.links.items[rows, 3].tolist()
    wanted = slow_sessions(items)
    assert [[a == b for b in found] for a in found] == [[a == b for b in wanted] for a in wanted]
