"""Sequences, sessions and visibility against their definitions, on random tangles (§III, §IV-B)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paper.slow import (
    SlowItem,
    slow_bin,
    slow_code,
    slow_gap,
    slow_reasons,
    slow_relations,
    slow_sequences,
    slow_sessions,
    slow_visible,
    slow_window,
)
from tests.properties.strategies import EDGES, SIZE_EDGES, VISIBILITIES, Arrival, encode, frame_of, slow_items, tangled

from kvec.tangle.tangles import GAP_STEPS, Tangles
from kvec.tangle.visibility import make_rule
from kvec.words.config import Visibility

EXPIRIES = st.sampled_from([None, 0.0, 0.75, 2.0, 2.5])
MATCHES = st.sampled_from([("size",), ("size", "direction"), ("direction", "load"), ("load",), ("heat",), ()])
SESSIONS = st.sampled_from([(), ("direction",), ("direction", "load")])


def two_tangles(max_items: int = 24) -> st.SearchStrategy[tuple[list[Arrival], list[Arrival]]]:
    return st.tuples(tangled(max_items), tangled(max_items))


def spans(tangles: Tangles) -> list[slice]:
    """The items of each given tangle; where there is an expiry, it may have been released in between."""
    first = np.flatnonzero(np.diff(tangles.given, prepend=-1))
    bounds = [*tangles.starts[first].tolist(), tangles.n_items]
    return [slice(a, b) for a, b in pairwise(bounds)]


def slow_releases(items: list[Arrival], expiry: float | None) -> list[int]:
    """How often the tangle was released before each item: no item of it had come for longer than the expiry."""
    releases, times = [0], [float(item.time) for item in slow_items(items, (), ())]
    for before, now in pairwise(times):
        releases.append(releases[-1] + (expiry is not None and now - before > expiry))
    return releases


def dense(numbers: list[object]) -> list[int]:
    """The same grouping with numbers by first appearance."""
    seen: dict[object, int] = {}
    return [seen.setdefault(number, len(seen)) for number in numbers]


@given(two_tangles(), EXPIRIES)
def test_sequences(arrivals: tuple[list[Arrival], list[Arrival]], expiry: float | None) -> None:
    tangles = encode(frame_of(*arrivals), expiry=expiry)
    found, opened = tangles.sequences, 0
    for part, items in zip(spans(tangles), arrivals, strict=True):
        slow = slow_sequences(slow_items(items, (), ()), expiry)
        assert (found.sequence[part] - opened).tolist() == [s for s, _, _ in slow]
        assert found.position[part].tolist() == [p for _, p, _ in slow]
        assert found.number[found.sequence[part]].tolist() == [n for _, _, n in slow]
        opened += 1 + max(s for s, _, _ in slow)
    assert tangles.n_sequences == opened
    for s in range(opened):
        mine = np.flatnonzero(found.sequence == s)
        assert (found.first[s], found.last[s], found.length[s]) == (mine[0], mine[-1], len(mine))
        assert found.by_sequence[tangles.offsets[s] : tangles.offsets[s + 1]].tolist() == mine.tolist()
        assert tangles.sequence_starts[tangles.tangle_of[s]] <= s < tangles.sequence_starts[tangles.tangle_of[s] + 1]


@given(two_tangles(), EXPIRIES)
def test_reasons(arrivals: tuple[list[Arrival], list[Arrival]], expiry: float | None) -> None:
    tangles = encode(frame_of(*arrivals), expiry=expiry)
    slow = [reason for items in arrivals for reason in slow_reasons(slow_items(items, (), ()), expiry)]
    assert tangles.reason.tolist() == slow


@given(two_tangles(), SESSIONS, st.sampled_from([None, 0.0, 0.5, 2.0]), EXPIRIES)
def test_sessions(
    arrivals: tuple[list[Arrival], list[Arrival]], session: tuple[str, ...], gap: float | None, expiry: float | None
) -> None:
    tangles = encode(frame_of(*arrivals), session=session, session_gap=gap, expiry=expiry)
    slow: list[object] = []
    for number, items in enumerate(arrivals):
        slow += [(number, *pair) for pair in slow_sessions(slow_items(items, (), session), gap, expiry)]
    assert dense(tangles.session.tolist()) == dense(slow)


@settings(max_examples=150)
@given(two_tangles(30), VISIBILITIES, MATCHES, SESSIONS, st.sampled_from([None, 0.5]), EXPIRIES, st.data())
def test_visibility(
    arrivals: tuple[list[Arrival], list[Arrival]], visibility: Visibility, match: tuple[str, ...],
    session: tuple[str, ...], gap: float | None, expiry: float | None, data: st.DataObject,
) -> None:  # fmt: skip
    tangles = encode(frame_of(*arrivals), match=match, session=session, session_gap=gap, expiry=expiry)
    rule = make_rule(visibility)
    own = visibility.own if visibility.use_key_correlation else 0
    others = visibility.others if visibility.use_value_correlation else 0
    for part, items in zip(spans(tangles), arrivals, strict=True):
        plain = slow_items(items, match or ("size", "direction", "load"), session)
        relations = slow_relations(plain, visibility.window, own, others, visibility.recent, gap, expiry)
        if visibility.rule == "paper":
            slow = slow_visible(plain, visibility.window, own, others, gap, expiry)
        elif visibility.rule == "typed":
            slow = [set(seen) for seen in relations]
        else:
            slow = slow_window(len(items), visibility.window)
        releases = slow_releases(items, expiry)
        slow = [[j for j in seen if releases[j] == releases[i]] for i, seen in enumerate(slow)]
        assert len(set(releases)) == np.sum((tangles.starts[:-1] >= part.start) & (tangles.starts[:-1] < part.stop))
        for release in set(releases):
            begin, count = releases.index(release), releases.count(release)
            tangle = int(np.searchsorted(tangles.starts, part.start + begin, side="right")) - 1
            first = begin + data.draw(st.integers(0, count - 1), label="first")
            last = data.draw(st.integers(first + 1, begin + count), label="last")
            for a, b in ((begin, begin + count), (first, last)):
                seen = rule.look(tangles, tangle, part.start + a, part.start + b)
                assert len(seen.starts) == b - a + 1
                assert len(seen.items) == len(seen.relation) == seen.starts[-1]
                for q in range(b - a):
                    listed = (seen.of(q) - part.start).tolist()
                    codes = seen.relation[seen.starts[q] : seen.starts[q + 1]].tolist()
                    if rule.relations:
                        assert [rule.relations[code] for code in codes] == [relations[a + q][j] for j in listed]
                    else:
                        assert not any(codes)
                    assert sorted(listed) == sorted(slow[a + q])
                    assert listed[0] == a + q


@given(two_tangles())
def test_codes_numbers_and_gaps(arrivals: tuple[list[Arrival], list[Arrival]]) -> None:
    tangles = encode(frame_of(*arrivals))
    assert tangles.gaps is not None and tangles.time is not None
    for number, (part, items) in enumerate(zip(spans(tangles), arrivals, strict=True)):
        slow = [
            [
                slow_code(a.size, (0, 1, 2)),
                slow_bin(a.size, SIZE_EDGES),
                slow_code(a.direction, ("in", "out")),
                slow_bin(a.load, EDGES),
            ]
            for a in items
        ]
        assert tangles.codes[part].tolist() == slow
        heat = [[0.0, 1.0] if a.heat is None else [(a.heat - 0.5) / 2, 0.0] for a in items]
        np.testing.assert_allclose(tangles.numbers[part], heat, rtol=1e-6)
        times = tangles.time[part].tolist()
        owners = [s for s, _, _ in slow_sequences(slow_items(items, (), ()))]
        for i, (in_sequence, in_tangle) in enumerate(tangles.gaps[part].tolist()):
            before = [j for j in range(i) if owners[j] == owners[i]]
            assert in_sequence == (slow_gap(times[i] - times[before[-1]]) if before else GAP_STEPS)
            assert in_tangle == (slow_gap(times[i] - times[i - 1]) if i else GAP_STEPS)
        kinds = [-1, 0, 1, 2, -1]
        for s in set(tangles.sequences.sequence[part].tolist()):
            key = arrivals[number][int(tangles.sequences.first[s]) - part.start].key
            assert tangles.labels[s].tolist() == [kinds[(number + key) % 5], [0, 1, -1][(number + 2 * key) % 3]]


def test_the_picture_of_the_paper() -> None:
    """The mask of the overview figure; its e8 sees e4 and e5 through their sessions too, as the text has it."""
    i, j, k = 0, 1, 2
    circle, square, triangle, diamond = "circle", "square", "triangle", "diamond"
    drawn = [(j, circle, 1), (k, square, 1), (i, circle, 1), (i, triangle, 1), (j, triangle, 2), (j, diamond, 2),
             (i, square, 2), (k, triangle, 2)]  # fmt: skip
    items = [SlowItem(key, (shape,), (session,)) for key, shape, session in drawn]
    seen = [sorted(s + 1 for s in each) for each in slow_visible(items, 100, 100, 100)]
    assert seen == [[1], [2], [1, 3], [3, 4], [1, 3, 4, 5], [1, 5, 6], [2, 3, 4, 7], [2, 3, 4, 5, 6, 8]]


@pytest.mark.parametrize(("gap", "step"), [(0.0, 0), (1e-6, 0), (2.1e-6, 1), (1.0, 19), (3600.0, 31), (1e12, 47)])
def test_slow_gap(gap: float, step: int) -> None:
    assert slow_gap(gap) == step
