"""Items that come late, twice or out of order, and what is counted of them: small examples of each policy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.properties.stories import DROPPING, MODEL, assert_same, changed

from kvec.decide.ready import hazards
from kvec.decide.stream import Stream, resume
from kvec.tangle.duplicates import DIGEST, MOST_ALIKE
from kvec.words.errors import ModelError
from kvec.words.items import Item, Reason
from kvec.words.limits import Limits

DROPS = changed(MODEL, *DROPPING)


def item(key: Any, time: float, size: Any = 1, tangle: Any = "t", is_end: bool = False, **value: Any) -> Item:
    return Item(tangle, key, {"size": size, "way": "in", "load": 0.5, "rate": 1.0, **value}, time, is_end)


def waiting(**limits: Any) -> Stream:
    """A stream that never halts."""
    return Stream(MODEL, Limits(**{"expiry": 100.0, **limits}), threshold=1.0, dtype=np.float64)


def counted(stream: Stream) -> dict[str, int]:
    return {name: count for name, count in asdict(stream.counters).items() if count}


def remembered(stream: Stream) -> list[tuple[Any, Any]]:
    """Key and size of the items that others may still see, oldest first."""
    return [(one.item.key, one.item.value["size"]) for one in stream._engines[-1].arrivals.sightings.raw.values()]


# -- late, and backwards ------------------------------------------------------------------------------------------


def test_late_items_count_as_if_they_came_on_time() -> None:
    late, on_time = waiting(), waiting()
    late.feed_many([item("a", 5.0), item("b", 7.0), item("a", 6.0), item("b", 6.0), item("b", 7.0)])
    on_time.feed_many([item("a", 5.0), item("b", 7.0), item("a", 7.0), item("b", 7.0), item("b", 7.0)])
    assert_same(late.close(), on_time.close())
    assert counted(late) == {"items": 5, "late": 2, "backwards": 1}
    assert counted(on_time) == {"items": 5}


def test_late_items_may_be_dropped() -> None:
    stream, without = waiting(late="drop"), waiting()
    stream.feed_many([item("a", 5.0), item("b", 7.0), item("a", 6.5), item("a", 4.0), item("c", 6.0, tangle="u")])
    without.feed_many([item("a", 5.0), item("b", 7.0), item("c", 6.0, tangle="u")])
    assert counted(stream) == {"items": 5, "late": 2, "backwards": 1, "dropped": 2}
    assert_same(stream.close(), without.close())


def test_a_late_end_mark_that_is_dropped_ends_nothing() -> None:
    stream = waiting(late="drop")
    assert stream.feed_many([item("a", 5.0), item("a", 4.0, is_end=True)]) == []
    assert stream.n_live == 1
    [decision] = stream.feed(item("a", 5.0, is_end=True))
    assert (decision.reason, decision.n_observed) == (Reason.ENDED, 2)


# -- duplicates ---------------------------------------------------------------------------------------------------


def test_duplicates_are_equal_items_of_one_sequence_at_the_same_time() -> None:
    stream = waiting(duplicates="drop")
    stream.feed_many(
        [
            item("a", 1.0, 1), item("a", 1.0, 2), item("a", 1.0, 1),  # the third
            item("b", 1.0, 1), item("a", 1.0, 1, note="x"), item("a", 1.0, 1.0),  # the sixth
            item("a", 2.0, 1), item("a", 2.0, 2), item("a", 2.0, 2),  # the last
        ]
    )  # fmt: skip
    assert counted(stream) == {"items": 9, "duplicates": 3, "dropped": 3}
    assert [one.n_observed for one in stream.close()] == [1, 5]


def test_a_duplicate_that_comes_late_is_one_all_the_same() -> None:
    stream = waiting(duplicates="drop")
    stream.feed_many([item("a", 1.0), item("b", 2.0), item("a", 1.0)])
    assert counted(stream) == {"items": 3, "late": 1, "duplicates": 1, "dropped": 1}
    stream.feed_many([item("a", 1.5, 2), item("a", 1.5, 2)])  # taken as of 2.0, both times
    assert counted(stream) == {"items": 5, "late": 3, "backwards": 1, "duplicates": 2, "dropped": 2}
    stream.feed_many([item("a", 1.0), item("a", 2.0)])  # the first again, and one at the time that those count at
    assert counted(stream) == {"items": 7, "late": 4, "backwards": 2, "duplicates": 3, "dropped": 3}


def test_late_items_of_other_times_are_no_duplicates() -> None:
    stream, taking = waiting(duplicates="drop"), waiting()
    some = [item("a", 10.0), item("a", 5.0), item("a", 7.0)]
    stream.feed_many(some)
    taking.feed_many(some)
    assert counted(stream) == {"items": 3, "late": 2, "backwards": 2}
    assert_same(stream.close(), taking.close())


def test_a_duplicate_of_an_item_before_the_newest_is_one() -> None:
    stream = waiting(duplicates="drop")
    stream.feed_many([item("a", 10.0, 52), item("a", 11.0, 60), item("a", 10.0, 52)])
    assert counted(stream) == {
        "items": 3,
        "late": 1,
        "backwards": 1,
        "duplicates": 1,
        "dropped": 1,
        "unknown_values": 2,
    }


def test_duplicates_are_looked_for_among_the_newest_of_their_sequence() -> None:
    stream = waiting(duplicates="drop")
    stream.feed_many(item("a", 1.0 + size // 2, size) for size in range(MOST_ALIKE + 1))
    stream.feed_many(item("b", 50.0, size) for size in range(MOST_ALIKE))
    stream.feed(item("a", 1.0, 1))
    assert stream.counters.duplicates == 1
    stream.feed(item("a", 1.0, 0))
    assert stream.counters.duplicates == 1
    assert {len(one.alike) for one in stream._engines[0].arrivals.live.values()} == {MOST_ALIKE * DIGEST}


def test_a_sequence_that_is_over_has_no_duplicates() -> None:
    stream = waiting(duplicates="drop")
    stream.feed_many([item("a", 1.0), item("a", 1.0, 2, is_end=True), item("a", 1.0), item("a", 1.0)])
    assert stream.counters.duplicates == 1
    assert [(one.sequence, one.n_observed) for one in stream.close()] == [(1, 1)]


def test_an_end_mark_is_never_lost_as_a_duplicate() -> None:
    stream = waiting(duplicates="drop")
    [decision] = stream.feed_many([item("a", 1.0), item("a", 1.0, is_end=True)])
    assert (decision.reason, decision.n_observed, stream.counters.duplicates) == (Reason.ENDED, 2, 0)


def test_where_duplicates_are_taken_nothing_is_kept_of_them() -> None:
    stream = waiting()
    stream.feed_many([item("a", 1.0), item("a", 1.0)])
    assert [(one.n_items, one.alike) for one in stream._engines[0].arrivals.live.values()] == [(2, b"")]


def test_missing_numbers_are_known_again_after_a_stop(tmp_path: Path) -> None:
    stream = waiting(duplicates="drop")
    stream.feed(item("a", 1.0, load=float("nan")))
    stream.save(tmp_path / "state")
    for one in (stream, resume(tmp_path / "state")):
        one.feed(item("a", 1.0, load=float("nan")))
        assert one.counters.duplicates == 1


def test_duplicates_of_a_decided_sequence_are_known_by_their_time_too() -> None:
    stream = Stream(DROPS, Limits(duplicates="drop"), threshold=0.0)
    stream.feed_many([item("a", 1.0), item("a", 2.0), item("a", 2.0), item("a", 2.0, 2), item("a", 2.0, 2)])
    assert counted(stream) == {"items": 5, "duplicates": 2, "dropped": 2, "after_halt": 2}


# -- held back ----------------------------------------------------------------------------------------------------


def test_items_are_held_back_until_no_earlier_one_can_come() -> None:
    stream = waiting(reorder=2.0)
    stream.feed_many([item("a", 10.0, 0), item("b", 11.0, 2), item("a", 10.5, 1)])
    assert (stream.n_held, stream.n_cached) == (3, 0)
    stream.feed(item("a", 12.5, 3))
    assert remembered(stream) == [("a", 0), ("a", 1)]
    stream.feed(item("c", 9.0, 9))  # later than the seconds allow
    assert remembered(stream) == [("a", 0), ("a", 1), ("c", 9)]
    assert counted(stream) == {"items": 3, "late": 1, "unknown_values": 1}
    stream.close()
    assert remembered(stream)[3:] == [("b", 2), ("a", 3)]
    assert (stream.n_held, stream.counters.items) == (0, 5)


def test_tangles_wait_by_clocks_of_their_own() -> None:
    stream = waiting(reorder=2.0)
    stream.feed_many([item("a", 10.0, 0), item("b", 50.0, 1, tangle="u"), item("a", 11.0, 2)])
    assert stream.n_held == 3
    assert stream.end("u", "b")[0].n_observed == 1
    assert (stream.n_held, remembered(stream)) == (2, [("b", 1)])


def test_ticks_let_held_items_go_on_and_expire_as_far_back() -> None:
    stream = waiting(reorder=2.0, expiry=5.0)
    stream.feed_many([item("a", 10.0), item("b", 13.0)])
    assert (stream.n_live, stream.n_held) == (1, 1)
    assert stream.tick(now=14.5) == []
    assert (stream.n_live, stream.n_held) == (1, 1)
    assert stream.tick(now=15.0) == []
    assert (stream.n_live, stream.n_held) == (2, 0)
    assert stream.tick(now=17.0) == []  # 15 so far as a is concerned, 5 s after it
    assert [one.key for one in stream.tick(now=17.5)] == ["a"]
    stream.feed(item("b", 16.0))
    assert stream.n_held == 1  # earlier ones may still come, whatever the ticks said
    assert stream.tick(now=14.0) == []
    assert stream.n_held == 1


def test_a_tick_that_is_late_itself_changes_nothing() -> None:
    stream = waiting(reorder=5.0)
    stream.feed(item("a", 20.0))
    assert stream.tick(now=1.0) == []
    stream.feed(item("b", 14.0))
    assert (stream.n_held, stream.n_live) == (1, 1)  # later than the seconds allow, by the clock of the items


def test_held_items_are_bounded_by_the_limits() -> None:
    stream = waiting(reorder=100.0, max_cached_items=3)
    stream.feed_many([item("a", 3.0, 3), item("a", 1.0, 1), item("b", 2.0, 2, tangle="u")])
    assert (stream.n_held, stream.n_cached) == (3, 0)
    stream.feed(item("a", 2.0, 2))
    assert (stream.n_held, remembered(stream)) == (3, [("a", 1)])
    stream.feed(item("b", 5.0, 5, tangle="u"))
    assert (stream.n_held, remembered(stream)) == (3, [("a", 1), ("b", 2)])
    few = waiting(reorder=100.0, max_tangles=2)
    few.feed_many([item("a", 3.0, 3), item("b", 1.0, 1, tangle="u"), item("a", 2.0, 2), item("c", 4.0, 4, tangle="v")])
    assert (few.n_held, remembered(few)) == (3, [("b", 1)])


def test_no_item_is_held_back_in_a_tangle_that_fell_silent() -> None:
    stream = waiting(reorder=100.0, idle=10.0)
    stream.feed(item("a", 1.0), wall=0.0)
    stream.feed(item("b", 1.0, tangle="u"), wall=8.0)
    stream.feed(item("b", 2.0, tangle="u"), wall=10.0)
    assert (stream.n_held, stream.n_live) == (3, 0)
    stream.feed(item("b", 3.0, tangle="u"), wall=10.5)
    assert (stream.n_held, stream.n_live) == (3, 1)
    [decision] = stream.tick(wall=20.6)
    assert (decision.key, decision.reason, decision.n_observed) == ("a", Reason.EXPIRED, 1)
    assert (stream.n_held, stream.n_live) == (0, 1)


# -- other counts -------------------------------------------------------------------------------------------------


def test_unknown_and_missing_values_are_counted_of_items_that_are_taken() -> None:
    stream = waiting(late="drop")
    stream.feed_many([Item("t", "a", {"size": 99, "way": "sideways"}, 1.0), Item("t", "a", {"size": 99}, 0.0)])
    assert counted(stream) == {
        "items": 2, "late": 1, "backwards": 1, "dropped": 1, "unknown_values": 2, "missing_values": 2,
    }  # fmt: skip


def test_items_forgotten_before_their_time_are_counted() -> None:
    stream = waiting(max_cached_items=2)
    stream.feed_many(item("a", float(i)) for i in range(5))
    assert counted(stream) == {"items": 5, "evicted_items": 3}


def test_items_after_a_halt_are_counted_where_they_are_dropped() -> None:
    for model, passed in ((DROPS, 2), (MODEL, 0)):
        stream = Stream(model, threshold=0.0)
        assert len(stream.feed_many(item("a", float(i)) for i in range(3))) == 1
        assert (stream.counters.after_halt, stream.n_cached, stream.n_live) == (passed, 3 - passed, 1)
        assert stream.feed(item("a", 3.0, is_end=True)) == []
        assert stream.n_live == 0
        [decision] = stream.feed(item("a", 4.0))
        assert decision.sequence == 1


def test_weights_that_are_no_numbers_are_said_to_be() -> None:
    weights = {**MODEL.weights, "classifiers.0.bias": np.array([np.nan, 0, 0])}
    stream = Stream(MODEL.__class__(weights, MODEL.vocabulary, MODEL.schema, MODEL.config, True, 0.5))
    with pytest.raises(ModelError, match=r"^the network said something that is no number; its weights are not usable$"):
        stream.feed_many([item("a", 1.0, is_end=True)])


def test_halting_scores_of_huge_logits() -> None:
    scores = hazards(np.array([-1e30, -90, -80, 0, 30, 1e30], np.float32)).tolist()
    assert scores[:2] == [0.0, 0.0] and scores[3:] == [0.5, 1.0, 1.0]
    assert 0 <= scores[2] < 1e-30


def test_a_wall_clock_that_runs_backwards_names_no_sequence_twice() -> None:
    """A tangle is idle only when all its sequences are, whatever the clock said in between."""
    stream = waiting(idle=60.0)
    stream.feed(item("l", 1.0, tangle="u"), wall=100.0)
    stream.feed(item("b", 1.0), wall=10.0)
    stream.feed(item("c", 2.0, tangle="u"), wall=20.0)
    told = stream.tick(wall=75.0)
    assert len(stream.to_plain()[0]["engines"][0]["live"]) == stream.n_live, "it can be saved"
    told += stream.feed(item("b", 2.0), wall=76.0) + stream.close()
    assert len({one.id for one in told}) == len(told) == 3
