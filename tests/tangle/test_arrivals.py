"""Which sequences are live, which an item opens, and which it drives out: small examples of each rule."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.properties.stories import MODEL, made_item

from kvec.tangle.arrivals import Arrivals
from kvec.tangle.coder import Coded, Coder
from kvec.tangle.live import Booked, Closed
from kvec.tangle.visibility import PaperRule, WindowRule
from kvec.words.items import Item, Reason
from kvec.words.limits import Limits

NONE = Coded([], [], (), None, 0, 0)


def arrivals_of(**limits: Any) -> Arrivals:
    return Arrivals(WindowRule(100), Limits(**limits), slots=3, session_gap=None)


def take(
    arrivals: Arrivals, key: Any, time: float | None = None, tangle: Any = "t", wall: float = 0.0
) -> tuple[list[Closed], Booked]:
    """Make room for an item, and book it."""
    item = Item(tangle, key, {"at": time}, time)
    closed = arrivals.make_room(item, time)
    return closed, arrivals.book(item, NONE, time, wall)


def run(arrivals: Arrivals) -> None:
    """Link what was booked, as when the network runs."""
    sightings = arrivals.sightings
    added = sightings.added()
    room = len(added) * sightings.rule.most
    starts = np.zeros(len(added) + 1, np.int64)
    assert sightings.see(added, 0, np.zeros(room, np.int32), np.zeros(room, np.uint8), starts) == len(added)


def names(closed: list[Closed]) -> list[tuple[Any, Any, int, str]]:
    return [(one.live.tangle.id, one.live.key, one.live.number, one.reason.value) for one in closed]


def test_the_sequence_whose_last_item_is_oldest_goes_first() -> None:
    arrivals = arrivals_of(max_live_keys=3)
    for key, tangle in (("a", 0), ("b", 1), ("c", 0), ("a", 0)):
        assert take(arrivals, key, tangle=tangle)[0] == []
    assert names(take(arrivals, "d", tangle=2)[0]) == [(1, "b", 0, "evicted")]
    assert names(take(arrivals, "b", tangle=1)[0]) == [(0, "c", 0, "evicted")]
    assert take(arrivals, "a", tangle=0)[0] == []  # who is live needs no room
    assert take(arrivals, "b", tangle=1)[1].live.number == 1
    assert [live.key for live in arrivals.live.values()] == ["d", "a", "b"]


def test_the_tangle_whose_last_item_is_oldest_goes_first_with_all_it_has() -> None:
    arrivals = arrivals_of(max_tangles=2)
    for key, tangle in (("a", 0), ("b", 0), ("a", 1), ("a", 0)):
        take(arrivals, key, tangle=tangle)
    assert names(take(arrivals, "c", tangle=2)[0]) == [(1, "a", 0, "evicted")]
    closed, booked = take(arrivals, "c", tangle=1)
    assert names(closed) == [(0, "b", 0, "evicted"), (0, "a", 0, "evicted")]
    assert (booked.arrival, booked.live.slot, booked.live.number) == (0, 0, 0)
    assert arrivals.n_cached == 2


def test_items_of_a_tangle_that_is_over_are_forgotten_a_few_at_a_time() -> None:
    """But nothing that others may see is forgotten in their place."""
    arrivals = arrivals_of(max_tangles=1, max_cached_items=7)
    for _ in range(5):
        take(arrivals, "a", tangle=0)
    assert take(arrivals, "b", tangle=1)[0] != []
    held = [(arrivals.n_cached, len(arrivals.sightings.raw))]
    for _ in range(2):
        take(arrivals, "b", tangle=1)
        held.append((arrivals.n_cached, len(arrivals.sightings.raw)))
    assert held == [(1, 4), (2, 3), (3, 3)]
    for _ in range(4):
        take(arrivals, "b", tangle=1)
    assert (arrivals.n_cached, len(arrivals.sightings.raw)) == (7, 7)  # as many as may be
    for tangle in (2, 3, 4):
        take(arrivals, "c", tangle=tangle)
    assert (arrivals.n_cached, len(arrivals.sightings.raw), arrivals.evicted_items) == (1, 4, 0)
    arrivals.tidy()
    assert [one.item.tangle for one in arrivals.sightings.raw.values()] == [4]


def test_slots_and_positions_count_within_the_tangle() -> None:
    arrivals = arrivals_of()
    booked = [
        take(arrivals, key, tangle=tangle)[1]
        for key, tangle in (("a", 0), ("b", 0), ("a", 1), ("c", 0), ("a", 0), ("d", 0))
    ]
    assert [one.live.slot for one in booked] == [0, 1, 0, 2, 0, 0]
    assert [one.position for one in booked] == [0, 0, 0, 0, 1, 0]
    assert [one.arrival for one in booked] == [0, 1, 0, 2, 3, 4]
    arrivals.close(booked[0].live, Reason.ENDED)
    assert take(arrivals, "a", tangle=0)[1].live.slot == 4 % 3


def test_gaps_reach_back_to_the_item_before() -> None:
    arrivals = arrivals_of()
    booked = [take(arrivals, key, time)[1] for key, time in (("a", -5.0), ("b", -4.0), ("a", 0.0), ("a", 0.0))]
    assert [(one.gap, one.tangle_gap) for one in booked] == [(None, None), (None, 1.0), (5.0, 4.0), (0.0, 0.0)]
    arrivals.pass_by(booked[0].live, 2.0, 0.0)
    after = take(arrivals, "b", 3.0)[1]
    assert (after.gap, after.tangle_gap, after.arrival, after.position) == (7.0, 1.0, 5, 1)


def test_a_sequence_is_over_when_it_was_idle_for_longer_than_the_expiry() -> None:
    arrivals = arrivals_of(expiry=2.0)
    for key, time in (("a", 0.0), ("b", 1.0), ("c", 2.0)):
        assert take(arrivals, key, time)[0] == []
    assert names(take(arrivals, "c", 3.5)[0]) == [("t", "a", 0, "expired"), ("t", "b", 0, "expired")]
    assert take(arrivals, "other", 100.0, tangle="u")[0] == []  # by a clock of its own
    closed, booked = take(arrivals, "a", 5.75)
    assert names(closed) == [("t", "c", 0, "expired")]
    assert (booked.arrival, booked.live.number, booked.live.slot) == (0, 1, 0)  # the tangle had been released
    assert take(arrivals, "a", 7.75)[0] == []


def test_a_tangle_without_live_sequences_is_released_by_its_clock() -> None:
    arrivals = arrivals_of(expiry=2.0)
    arrivals.close(take(arrivals, "a", 0.0)[1].live, Reason.ENDED)
    assert take(arrivals, "b", 2.0)[1].arrival == 1
    arrivals.close(arrivals.tangles["t"].live["b"], Reason.ENDED)
    assert arrivals.expire(4.0) == [] and "t" in arrivals.tangles
    assert arrivals.expire(4.5) == [] and "t" not in arrivals.tangles
    assert arrivals_of().expire(1e9) == []


def test_what_is_idle_by_the_wall_clock_takes_its_tangle_along() -> None:
    arrivals = arrivals_of(idle=10.0)
    for key, tangle, wall in (("a", 0, 0.0), ("b", 1, 1.0), ("c", 0, 5.0), ("b", 1, 6.0)):
        take(arrivals, key, tangle=tangle, wall=wall)
    assert arrivals.expire_idle(10.0) == []
    assert names(arrivals.expire_idle(15.0)) == [(0, "a", 0, "expired")]
    assert set(arrivals.tangles) == {0, 1}
    assert names(arrivals.expire_idle(15.5)) == [(0, "c", 0, "expired")]
    assert set(arrivals.tangles) == {1}


def test_numbers_go_on_and_are_never_given_twice() -> None:
    arrivals = arrivals_of(max_returning_keys=2)

    def once(key: str) -> int:
        live = take(arrivals, key)[1].live
        arrivals.close(live, Reason.ENDED)
        return live.number

    assert [once(key) for key in "aaab"] == [0, 1, 2, 0]  # a and b are remembered
    assert once("c") == 0  # now b and c are, and a's next number is the least of all new ones
    assert arrivals.next_number == 3
    assert [once(key) for key in "bcb"] == [1, 1, 2]
    assert once("a") == 3
    assert once("new") == 3
    assert arrivals.next_number == 3  # c's 2 and b's 3 are no more than that
    assert [once(key) for key in "abc"] == [4, 3, 4]
    assert arrivals.next_number == 5
    assert len(arrivals.numbers) == 2


def test_places_are_given_to_others_after_the_chunk() -> None:
    arrivals = arrivals_of()
    live = take(arrivals, "a")[1].live
    arrivals.close(live, Reason.ENDED)
    assert take(arrivals, "b")[1].live.place != live.place
    arrivals.settle()
    assert take(arrivals, "c")[1].live.place == live.place
    assert arrivals.n_places == 2


def test_the_oldest_item_of_all_tangles_is_forgotten_first() -> None:
    arrivals = arrivals_of(max_cached_items=3)
    for tangle in (0, 1, 0, 1, 1):
        take(arrivals, "a", tangle=tangle)
    assert [one.item.tangle for one in arrivals.sightings.raw.values()] == [0, 1, 1]
    assert arrivals.evicted_items == 2
    narrow = Arrivals(WindowRule(2), Limits(max_cached_items=3), slots=3, session_gap=None)
    for tangle in (0, 1, 1, 1, 1):
        take(narrow, "a", tangle=tangle)
    assert [one.item.tangle for one in narrow.sightings.raw.values()] == [0, 1, 1]
    assert narrow.evicted_items == 0  # their window had passed


@pytest.mark.parametrize("rule", [PaperRule(9, 3, 4), WindowRule(9)])
def test_plain_data_and_back(rule: Any) -> None:
    rng = np.random.default_rng(1)
    limits = Limits(max_live_keys=6, max_tangles=3, max_cached_items=8, max_returning_keys=4)
    coder = Coder(MODEL.vocabulary, MODEL.schema)
    arrivals = Arrivals(rule, limits, slots=3, session_gap=1.5)
    for i in range(200):
        item = made_item(rng, int(rng.integers(4)), int(rng.integers(9)), float(i // 2), ends=0.0)
        arrivals.make_room(item, item.time)
        live = arrivals.book(item, coder.code(item.value), item.time, float(i)).live
        live.alike += bytes([i])
        if i % 5 == 0:
            arrivals.close(next(iter(arrivals.live.values())), Reason.ENDED)
            run(arrivals)
            arrivals.settle()
    run(arrivals)
    facts, arrays = arrivals.to_plain()
    again = Arrivals(rule, limits, slots=3, session_gap=1.5)
    again.restore(json.loads(json.dumps(facts)), arrays, coder)
    told, kept = again.to_plain()
    assert told == facts
    assert all(facts[name] for name in ("tangles", "live", "numbers", "next_number", "evicted_items", "n_items"))
    assert kept["rows"].tolist() == list(range(len(facts["raw"])))
    assert kept["places"].tolist() == list(range(len(facts["live"])))
    for name in ("items", "sessions"):
        np.testing.assert_array_equal(kept[name], arrays[name])
    assert {id: tangle.holders.keys() for id, tangle in again.tangles.items()} == {
        id: tangle.holders.keys() for id, tangle in arrivals.tangles.items()
    }
