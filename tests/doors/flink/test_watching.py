"""The keyed function without Flink: one process says the same, whatever is cut, restarted or forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.flink.made import Cluster, Kept, Timers, alone, blocks_of, row_of
from tests.properties.stories import MODEL, OTHER, Choice, Plan, assert_same, changed, choices, items_of, plans

from kvec.decide.stream import Stream
from kvec.doors.flink import keeping
from kvec.doors.flink.keeping import Keeper, Told
from kvec.doors.flink.watching import Manner, Watcher
from kvec.words.errors import ModelError
from kvec.words.items import Decision, Item, Reason
from kvec.words.limits import Limits

LIMITS = st.builds(
    Limits,
    expiry=st.sampled_from([None, 3.0, np.inf]),
    late=st.sampled_from(["take", "drop"]),
    reorder=st.sampled_from([0.0, 3.0]),
    duplicates=st.sampled_from(["take", "drop"]),
)
TIMED = choices(bases=("timed", "spare"))
CUTS = st.lists(st.integers(0, 400), max_size=8)
HERE = Manner(most_bytes=1 << 30)


def by_name(decisions: Sequence[Decision]) -> list[Decision]:
    return sorted(decisions, key=lambda one: one.id)


def keeper_of(model: Any, limits: Limits | None = None, **given: Any) -> Keeper:
    return Keeper(model, limits=limits, dtype="float64", **given)


@given(choice=TIMED, limits=LIMITS, plan=plans(verbs=0.0), cuts=CUTS)
def test_it_says_what_one_process_says(choice: Choice, limits: Limits, plan: Plan, cuts: list[int]) -> None:
    items, model = items_of(plan.story), choice.model
    cluster, told = Cluster(keeper_of(model, limits), HERE), Told()
    for name, rows in blocks_of(model.schema, items, cuts):
        told += cluster.take(name, rows)
    told += cluster.end()
    assert not told.bad
    assert_same(by_name(told.decisions), by_name(alone(Stream(model, limits, dtype=np.float64), items)))


@settings(deadline=None)
@given(
    choice=TIMED, limits=LIMITS, plan=plans(verbs=0.0), cuts=CUTS, stops=st.sets(st.integers(0, 40), max_size=6),
    least=st.sampled_from([1, 5, 64]), most_bytes=st.sampled_from([1, 1 << 30]), linger=st.sampled_from([0.0, 2.0]),
)  # fmt: skip
def test_restarts_at_any_moment_change_nothing(
    choice: Choice, limits: Limits, plan: Plan, cuts: list[int], stops: set[int], least: int, most_bytes: int,
    linger: float,
) -> None:  # fmt: skip
    """Nor does how much is at hand, how often whole states are written, and how many workers there are."""
    items, model = items_of(plan.story), choice.model
    keeper, manner = keeper_of(model, limits), Manner(linger, 3, most_bytes=most_bytes)
    cluster, told = Cluster(keeper, manner, 1), Told()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeping, "LEAST_LOG", least)
        for number, (name, rows) in enumerate(blocks_of(model.schema, items, cuts)):
            if number in stops:
                cluster.restart(keeper_of(model, limits), manner, 1 + number % 3)
            told += cluster.take(name, rows, float(number))
            told += cluster.ring(float(number))
        told += cluster.end()
    assert_same(by_name(told.decisions), by_name(alone(Stream(model, limits, dtype=np.float64), items)))


def made(tangle: int, key: str, time: float, is_end: bool = False) -> Item:
    return Item(tangle, key, {"size": 1, "way": "in", "load": 0.5, "rate": 0.25}, time, is_end)


def test_the_wall_clock_ends_what_is_idle() -> None:
    cluster = Cluster(keeper_of(MODEL, Limits(idle=10.0), threshold=1.0), Manner(), 1)
    assert not cluster.take("1", row_of(made(1, "a", 0.0)), 100.0).decisions
    assert not cluster.take("1", row_of(made(1, "b", 1.0)), 105.0).decisions
    cluster.restart(keeper_of(MODEL, Limits(idle=10.0), threshold=1.0), Manner(), 1)
    assert [one.key for one in cluster.ring(110.5).decisions] == ["a"]
    [last] = cluster.ring(200.0).decisions
    assert (last.key, last.reason) == ("b", Reason.EXPIRED)
    assert not cluster.timers["1"].times, "nothing is left to be looked at"
    assert not cluster.end(200.0).decisions


def test_the_wall_clock_may_move_the_items_clock() -> None:
    cluster = Cluster(keeper_of(MODEL, Limits(expiry=9.0), threshold=1.0), Manner(by_wall=True), 1)
    cluster.take("1", row_of(made(1, "a", 1000.0)), 1000.1)
    assert not cluster.ring(1008.9).decisions
    assert [one.reason for one in cluster.ring(1009.2).decisions] == [Reason.EXPIRED]


def test_rows_linger_until_the_timer_rings() -> None:
    cluster = Cluster(keeper_of(MODEL, threshold=0.0), Manner(linger=0.5, most_rows=3), 1)
    for i in range(2):
        assert not cluster.take("1", row_of(made(1, f"k{i}", float(i))), 10.0).decisions
    assert not cluster.ring(10.4).decisions
    assert len(cluster.ring(10.51).decisions) == 2
    for i in range(3):
        told = cluster.take("1", row_of(made(1, f"l{i}", float(i))), 11.0)
    assert len(told.decisions) == 3, "enough of them do not wait"


def test_live_rows_set_their_timers_again_after_a_restart() -> None:
    """A checkpoint may lack the newest timers."""
    limits, manner = Limits(idle=10.0), Manner(linger=5.0, is_live=True)
    cluster = Cluster(keeper_of(MODEL, limits, threshold=1.0), manner, 1)
    for wall in (100.0, 101.0):
        cluster.take("1", row_of(made(1, f"k{wall}", wall)), wall)
        assert cluster.timers["1"].ends and cluster.timers["1"].times
        cluster.timers["1"] = Timers()
        cluster.restart(keeper_of(MODEL, limits, threshold=1.0), manner, 1)
    told = cluster.take("1", row_of(made(1, "last", 102.0)), 102.0)
    told += cluster.ring(200.0)
    assert sorted(str(one.key) for one in told.decisions) == ["k100.0", "k101.0", "last"]


def test_rows_that_cannot_be_used_are_told_and_do_no_harm() -> None:
    cluster = Cluster(keeper_of(MODEL, threshold=0.0), HERE, 1)
    good, late = row_of(made(1, "a", 1.0)), b'{"tangle": 1, "key": "b", "time": "soon"}'
    blocks = blocks_of(MODEL.schema, [], [])
    assert blocks == []
    told = cluster.take("1", good + b"\n" + late)
    assert [one.key for one in told.decisions] == ["a"]
    [(row, problem)] = told.bad
    assert row == late and "'soon' is no time" in problem


def test_half_a_surrogate_pair_is_kept_and_restored() -> None:
    model, name, value = changed(MODEL, "visibility.window=4"), r"\ud800", made(1, "", 0.0).value
    cluster = Cluster(keeper_of(model, threshold=1.0), HERE, 1)
    for n in (1, 100):  # in the log, and in a whole state
        rows = [row_of(Item("\ud800", f"\ud801{i % 5}", value, 1.0)) for i in range(n)]
        cluster.take(name, b"\n".join(rows))
        cluster.restart(keeper_of(model, threshold=1.0), HERE, 1)
    assert cluster.kept[name].content is not None
    assert {one.key for one in cluster.end().decisions} == {f"\ud801{i}" for i in range(5)}


def test_a_newer_model_takes_over() -> None:
    """Open sequences are left to the old model, as in one stream that is taken over."""
    items = [made(1, key, float(i)) for i, key in enumerate("abab")]
    later = [made(1, key, 4.0 + i) for i, key in enumerate("acbc")]
    limits = Limits(expiry=np.inf)
    cluster = Cluster(keeper_of(MODEL, limits, threshold=1.0), HERE, 1)
    told = cluster.take("1", b"\n".join(map(row_of, items)))
    newer = keeper_of(OTHER, limits, older=[MODEL], threshold=1.0)
    cluster.restart(newer, HERE, 2)
    told += cluster.take("1", b"\n".join(map(row_of, later)))
    cluster.restart(keeper_of(OTHER, limits, older=[MODEL], threshold=1.0), HERE, 1)
    told += cluster.end()
    stream = Stream(MODEL, limits, 1.0, np.float64)
    wanted = [*stream.feed_many(items), *stream.take_over(OTHER, 1.0), *stream.feed_many(later), *stream.close()]
    assert_same(by_name(told.decisions), by_name(wanted))
    assert len(wanted) == 3


def test_a_model_that_nobody_named_is_asked_for() -> None:
    cluster = Cluster(keeper_of(MODEL, threshold=1.0), HERE, 1)
    cluster.take("1", b"\n".join(row_of(made(1, f"k{i}", float(i))) for i in range(70)))
    cluster.restart(keeper_of(OTHER), HERE, 1)
    with pytest.raises(ModelError, match=r"made by another model .*; name its folder too"):
        cluster.take("1", row_of(made(1, "a", 99.0)))


class _Always(Keeper):
    """A keeper whose streams halt always, or never, while they say that they halt at 0.5."""

    says = 0.5

    def _fresh(self, model: Any, threshold: float | None) -> Any:
        tangle = super()._fresh(model, threshold)
        tangle.stream._engines[0].readiness = lambda said, n: np.full(len(said), 1.0 - self.says)
        return tangle


def test_decisions_that_were_told_stand_though_rounding_sees_it_else() -> None:
    """A restored log whose decisions fell otherwise: none is told twice, none is left out."""
    sure, unsure = (_Always(MODEL, dtype="float64", threshold=0.5) for _ in range(2))
    sure.says, unsure.says = 0.0, 1.0
    kept = Kept()
    tangle = sure.begin(kept)
    sure.wait(tangle, b"\n".join(row_of(made(1, key, float(i))) for i, key in enumerate("ab")), kept)
    told = sure.do("1", tangle, kept, "feed", 0.0)
    assert len(told.decisions) == 2
    again, untold = unsure.restore("1", kept)
    assert again is not None and untold == []
    assert unsure.do("1", again, kept, "close", 0.0).decisions == [], "both were told before"

    kept = Kept()
    tangle = unsure.begin(kept)
    unsure.wait(tangle, row_of(made(1, "a", 0.0)), kept)
    assert unsure.do("1", tangle, kept, "feed", 0.0).decisions == []
    again, untold = sure.restore("1", kept)
    assert again is not None and [one.key for one in untold] == ["a"], "nobody has been told of it yet"
    assert sure.do("1", again, kept, "close", 0.0).decisions == []


def test_a_decision_that_falls_earlier_when_done_again_is_not_told_twice() -> None:
    """The log says later that it was told; what nobody was told of is told still."""
    wavering, sure = (_Always(MODEL, dtype="float64", threshold=0.5) for _ in range(2))
    wavering.says, sure.says = 1.0, 0.0
    kept = Kept()
    tangle = wavering.begin(kept)
    for time, keys in enumerate(("ab", "a")):
        wavering.wait(tangle, b"\n".join(row_of(made(1, key, float(time))) for key in keys), kept)
        told = wavering.do("1", tangle, kept, "feed", 0.0).decisions
        wavering.says = 0.0  # at the second item of a it halts
    assert [(one.key, one.n_observed) for one in told] == [("a", 2)]
    again, untold = sure.restore("1", kept)
    assert again is not None and [one.key for one in untold] == ["b"]
    assert sure.do("1", again, kept, "close", 0.0).decisions == []


def test_logs_stay_short() -> None:
    watcher, kept = Watcher(keeper_of(changed(MODEL, "visibility.window=4")), HERE), Kept()
    for i in range(200):
        watcher.take("1", row_of(made(1, f"k{i}", float(i), is_end=True)), kept, Timers(), 0.0)
        assert len(kept.entries) <= 2 * keeping.LEAST_LOG + 1, "the log does not grow for ever"


def test_other_limits_are_refused() -> None:
    for n in (1, 70):
        cluster = Cluster(keeper_of(MODEL, Limits(expiry=5.0)), HERE, 1)
        cluster.take("1", b"\n".join(row_of(made(1, f"k{i}", float(i))) for i in range(n)))
        cluster.restart(keeper_of(MODEL, Limits(expiry=6.0)), HERE, 1)
        with pytest.raises(ModelError, match=r"tangle 1: --expiry was 5\.0 and is 6\.0; give the same"):
            cluster.take("1", row_of(made(1, "a", 99.0)))


@pytest.mark.parametrize("damage", [b"", b"x" * 100])
def test_a_damaged_state_is_refused(damage: bytes) -> None:
    with pytest.raises(ModelError, match="Flink's state of tangle 7 is damaged"):
        keeper_of(MODEL).restore("7", Kept(damage))


def test_one_network_serves_all_tangles() -> None:
    keeper = keeper_of(MODEL)
    one, other = keeper.begin(Kept()).stream, keeper.begin(Kept()).stream
    assert one._engines[0].runner.kernel is other._engines[0].runner.kernel
    assert one._engines[0].memory is not other._engines[0].memory
