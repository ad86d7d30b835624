"""The verbs of a stream: what they refuse, and that a refused item changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from tests.properties.stories import DROPPING, MODEL, TIMELESS, assert_same, changed, made_item

from kvec.decide.stream import MOST_ENGINES, Stream, resume
from kvec.words.errors import DataError, ModelError, SettingError
from kvec.words.items import Decision, Item, Reason
from kvec.words.limits import Limits

VALUE = {"size": 1, "way": "in", "load": 0.5, "rate": 1.0}
FINE = Item("t", "k", VALUE, 1.0)


def items(n: int, seed: int = 0, n_keys: int = 3) -> list[Item]:
    rng = np.random.default_rng(seed)
    return [made_item(rng, "t", int(rng.integers(n_keys)), float(i), ends=0.0) for i in range(n)]


def opened(**limits: Any) -> Stream:
    return Stream(MODEL, Limits(**limits), dtype=np.float64)


def but(**changes: Any) -> Item:
    """The fine item with something odd about it."""
    return replace(FINE, **changes)


REFUSED: dict[str, tuple[Any, str]] = {
    "no item": ({"key": "k"}, r"^\{'key': 'k'\} is no item; feed kvec\.Item\(tangle, key, value, time\)$"),
    "nothing": (None, r"^None is no item"),
    "no key": (but(key=None), r"^the name of a key is None; it must be text or a whole number$"),
    "a fraction as key": (but(key=1.5), r"^the name of a key is 1\.5; it must be"),
    "NaN as key": (but(key=math.nan), r"^the name of a key is nan; it must be"),
    "a truth as key": (but(key=True), r"^the name of a key is True; it must be"),
    "several keys": (but(key=("a", "b")), r"^the name of a key is \('a', 'b'\); it must be"),
    "a list as key": (but(key=["a"]), r"^the name of a key is \['a'\]; it must be"),
    "bytes as key": (but(key=b"k"), r"^the name of a key is b'k'; it must be"),
    "no tangle": (but(tangle=None), r"^the name of a tangle is None; it must be"),
    "no value": (but(value=None), r"^tangle 't', key 'k': the value is None; it must map field names to"),
    "a list as value": (but(value=[1]), r"^tangle 't', key 'k': the value is \[1\]; it must map"),
    "no time": (
        but(time=None),
        r"^tangle 't', key 'k': the time is None; this model needs the time of every",
    ),
    "NaN as time": (but(time=math.nan), r"^tangle 't', key 'k': the time is nan; this model needs"),
    "an endless time": (but(time=-math.inf), r"^tangle 't', key 'k': the time is -inf; this model needs"),
    "a huge time": (but(time=10**400), r"^tangle 't', key 'k': the time is 1000+\.\.\.; this model needs"),
    "text as time": (but(time="5"), r"^tangle 't', key 'k': the time is '5'; this model needs"),
    "a truth as time": (but(time=True), r"^tangle 't', key 'k': the time is True; this model needs"),
    "a date": (but(time=datetime(2024, 5, 1)), r"^tangle 't', key 'k': the time is datetime.*; this model"),
    "a word as end mark": (
        but(is_end="no"),
        r"^tangle 't', key 'k': the end mark is 'no'; it must be True or False$",
    ),
    "no end mark": (but(is_end=None), r"^tangle 't', key 'k': the end mark is None; it must be"),
    "2 as end mark": (but(is_end=2), r"^tangle 't', key 'k': the end mark is 2; it must be"),
    "several end marks": (
        but(is_end=np.array([True, False])),
        r"^tangle 't', key 'k': the end mark is array.*; it must",
    ),
    "a list as cell": (
        but(value={"size": [1]}),
        r"^tangle 't', key 'k', field 'size': list is no single value",
    ),
    "no number": (but(value={"load": "much"}), r"^tangle 't', key 'k', field 'load': 'much' is no number$"),
    "no number to project": (
        but(value={"rate": ""}),
        r"^tangle 't', key 'k', field 'rate': '' is no number$",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("reorder", [0.0, 5.0])
def test_a_refused_item_changes_nothing(name: str, reorder: float) -> None:
    bad, message = REFUSED[name]
    stream, spared = opened(reorder=reorder), opened(reorder=reorder)
    first, second = items(6)[:3], items(6)[3:]
    assert_same(stream.feed_many(first), spared.feed_many(first))
    before = stream.to_plain()[0]
    with pytest.raises(DataError, match=message) as error:
        stream.feed(bad)
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match=message):
        stream.feed_many([*second, bad])
    assert stream.to_plain()[0] == before
    assert_same(stream.feed_many(second) + stream.close(), spared.feed_many(second) + spared.close())
    assert asdict(stream.counters) == asdict(spared.counters)


@pytest.mark.parametrize("given", [FINE, 5, None])
def test_what_holds_no_items_is_refused(given: Any) -> None:
    stream = opened()
    with pytest.raises(DataError, match=r"^.* holds no items; give a list of them, or one item to feed$"):
        stream.feed_many(given)
    assert stream.counters.items == 0


@pytest.mark.parametrize("end", [1, np.int8(1), np.bool_(True)])
def test_end_marks_may_be_numbers(end: Any) -> None:
    [decision] = opened().feed(but(is_end=end))
    assert decision.reason == Reason.ENDED
    assert Stream(MODEL, threshold=1.0).feed(but(is_end=type(end)(0))) == []


VERBS: dict[str, Callable[[Stream, Any], Any]] = {
    "feed": lambda stream, when: stream.feed(FINE, wall=when),
    "feed_many": lambda stream, when: stream.feed_many([FINE], wall=when),
    "tick": lambda stream, when: stream.tick(wall=when),
    "tick now": lambda stream, when: stream.tick(now=when),
    "end": lambda stream, when: stream.end("t", "k", wall=when),
    "close": lambda stream, when: stream.close(wall=when),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("when", ["x", math.nan, math.inf, True, datetime(2024, 5, 1), 10**400])
def test_verbs_refuse_what_is_no_time(verb: str, when: Any) -> None:
    stream = opened(idle=5.0)
    stream.feed(replace(FINE, key="j"), wall=0.0)
    before = stream.to_plain()[0]
    with pytest.raises(DataError, match=r"^(wall|now) is .*; it must be a time in seconds$") as error:
        VERBS[verb](stream, when)
    assert str(error.value).startswith("now" if verb == "tick now" else "wall")
    assert stream.to_plain()[0] == before


def test_times_of_other_types_are_made_plain() -> None:
    stream = opened(idle=5.0)
    stream.feed(FINE, wall=np.float32(1.0))  # type: ignore[arg-type]
    stream.tick(now=Decimal(2), wall=2)  # type: ignore[arg-type]
    assert stream.to_plain()[0]["engines"][0]["live"][0][9] == 1.0


@pytest.mark.parametrize("note", [17, "line 3", [1, 2]])
def test_a_note_has_names(note: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^the note is .*; it must map names to plain data$"):
        opened().save(tmp_path / "state", note)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_shows_what_it_has_done() -> None:
    stream = Stream(MODEL, Limits(expiry=math.inf), threshold=1.0)
    assert repr(stream) == "<Stream: 0 items, 0 live, 0 decided>"
    stream.feed_many(items(1500))
    stream.end("t", 0)
    assert repr(stream) == "<Stream: 1,500 items, 2 live, 1 decided>"


def test_sequences_that_wait_are_counted() -> None:
    stream = Stream(MODEL, Limits(expiry=math.inf), threshold=1.0)
    stream.feed_many(items(30))
    assert (stream.n_waiting, stream.n_live) == (3, 3)
    stream.take_over(MODEL, threshold=0.0)
    stream.feed_many(replace(item, key=item.key + 2) for item in items(30))  # 2 waits for the old one; 3, 4 are new
    assert (stream.n_waiting, stream.n_live) == (3, 5)
    stream.end("t", 1)
    assert (stream.n_waiting, stream.n_live) == (2, 4)
    stream.close()
    assert stream.n_waiting == 0


def test_items_that_break_off_are_not_taken() -> None:
    stream = opened()

    def broken() -> Any:
        yield FINE
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        stream.feed_many(broken())
    assert stream.counters.items == 0


@pytest.mark.parametrize(
    "alike",
    [
        but(tangle=np.str_("t"), key=np.str_("k"), time=np.float32(1.0)),
        but(value=MappingProxyType(VALUE), time=Decimal(1)),
        but(time=1, is_end=np.bool_(False)),
        but(value={name: np.array([cell])[0] for name, cell in VALUE.items()}),
    ],
)
def test_names_and_times_of_other_types_are_made_plain(alike: Item, tmp_path: Path) -> None:
    stream, plain = opened(), opened()
    assert stream.feed(alike) == plain.feed(FINE)
    stream.save(tmp_path / "state")
    second = replace(FINE, time=2.0)
    assert resume(tmp_path / "state").feed(second) == plain.feed(second)
    [remembered, _] = plain._engines[0].arrivals.sightings.raw.values()
    assert remembered.item == stream._engines[0].arrivals.sightings.raw[0].item


def test_whole_numbers_of_numpy_are_keys() -> None:
    stream = opened()
    stream.feed(but(tangle=np.int64(4), key=np.uint8(7)))
    status = stream.status(4, 7)
    assert status is not None and stream.status(np.int64(4), np.int64(7)) == status
    [live] = stream._engines[0].arrivals.live.values()
    assert (type(live.key), type(live.tangle.id)) == (int, int)


@pytest.mark.parametrize("verb", [Stream.end, Stream.status])
@pytest.mark.parametrize("name", [None, 1.5, ["k"], ("k",), True])
def test_other_verbs_refuse_odd_names_too(verb: Callable[..., Any], name: Any) -> None:
    stream = opened()
    stream.feed(FINE)
    with pytest.raises(DataError, match=r"^the name of a key is"):
        verb(stream, "t", name)
    with pytest.raises(DataError, match=r"^the name of a tangle is"):
        verb(stream, name, "k")


def test_a_value_that_changes_after_it_was_fed_changes_nothing(tmp_path: Path) -> None:
    stream, other = opened(duplicates="drop"), opened(duplicates="drop")
    value: dict[str, Any] = {}
    for i, item in enumerate(items(20)):
        value.clear()
        value.update(item.value)
        stream.feed(replace(item, value=value, time=float(i // 4)))
        other.feed(replace(item, time=float(i // 4)))
    stream.save(tmp_path / "state")
    value.clear()
    assert stream.counters == other.counters
    assert_same(resume(tmp_path / "state").close(), other.close())


def test_a_model_without_times_needs_none_and_ignores_them() -> None:
    plain, timed = Stream(TIMELESS, dtype=np.float64), Stream(TIMELESS, Limits(expiry=1.0), dtype=np.float64)
    given = items(20)
    odd = [math.nan, None, "today", -5.0, 10**400]
    told = timed.feed_many([replace(item, time=odd[i % 5]) for i, item in enumerate(given)])
    assert timed.tick(now=1e9) == []
    assert timed.n_live == 3
    assert_same(told + timed.close(), plain.feed_many(replace(item, time=None) for item in given) + plain.close())


def test_nothing_is_known_of_a_key_that_is_not_live() -> None:
    stream = opened()
    assert stream.status("t", "k") is None
    assert stream.end("t", "k") == []
    stream.feed(FINE)
    assert stream.status("t", "other") is None
    assert stream.status("other", "k") is None
    assert stream.end("t", "other") == []
    [decision] = stream.end("t", "k")
    assert (decision.reason, decision.n_observed, decision.length) == (Reason.ENDED, 1, 1)
    assert stream.status("t", "k") is None
    assert stream.end("t", "k") == []


def test_a_status_becomes_final() -> None:
    never, at_once = Stream(MODEL, threshold=1.0), Stream(MODEL, threshold=0.0)
    given = [replace(item, key="k") for item in items(3)]
    assert never.feed_many(given) == []
    status = never.status("t", "k")
    assert status is not None and (status.is_final, status.reason, status.n_observed) == (False, None, 3)
    [decision] = at_once.feed_many(given)
    final = at_once.status("t", "k")
    assert final is not None and (final.is_final, final.reason, final.n_observed) == (True, Reason.HALTED, 1)
    assert (final.labels, final.probabilities) == (decision.labels, decision.probabilities)
    assert final.halt_probability == status.halt_probability  # after the newest item, in both
    assert (final.label, final.probability) == (final.labels[0], final.probabilities[0])


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan, "a"])
def test_thresholds_lie_between_0_and_1(threshold: Any) -> None:
    says = r"^(the threshold is .*; it must lie between 0 and 1|threshold is (nan|'a'); write a number)$"
    with pytest.raises(SettingError, match=says):
        Stream(MODEL, threshold=threshold)
    with pytest.raises(SettingError, match=says):
        opened().take_over(MODEL, threshold)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, "complex128"])
def test_streams_run_in_single_or_double_precision(dtype: Any) -> None:
    with pytest.raises(SettingError, match=r"^dtype is .*; it can be float32 or float64$"):
        Stream(MODEL, dtype=dtype)


def test_single_precision_is_close_to_double() -> None:
    given = items(200)
    single, double = (Stream(MODEL, threshold=1.0, dtype=dtype) for dtype in (np.float32, np.float64))
    assert_same(single.feed_many(given) + single.close(), double.feed_many(given) + double.close(), 1e-4)


def test_huge_logits_halt_or_do_not_without_a_warning() -> None:
    for bias, n in ((-1e4, 0), (1e4, 1)):
        weights = {**MODEL.weights, "policy.bias": np.array([bias])}
        for threshold in (1e-300, 0.5, 1.0):
            stream = Stream(replace(MODEL, weights=weights), threshold=threshold)
            assert len(stream.feed(FINE)) == n
            status = stream.status("t", "k")
            assert status is not None and status.halt_probability == n
    assert len(Stream(replace(MODEL, weights=weights), threshold=0.0).feed(FINE)) == 1


def test_expiry_comes_from_the_schema_unless_the_limits_say_otherwise() -> None:
    assert opened().limits.expiry == MODEL.schema.expiry == 9.0
    assert opened(expiry=2.0).limits.expiry == 2.0
    assert opened(expiry=math.inf).limits.expiry == math.inf


def test_the_wall_clock_is_asked_only_where_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> float:
        raise AssertionError("the clock was asked")

    with monkeypatch.context() as patch:
        patch.setattr("kvec.decide.stream.clock.time", stopped)
        stream = opened()
        stream.feed(FINE)
        stream.tick()
        stream.end("t", "k")
        stream.close()
    now = 1000.0
    monkeypatch.setattr("kvec.decide.stream.clock.time", lambda: now)
    stream = Stream(MODEL, Limits(idle=10.0, reorder=1.0), threshold=1.0)
    stream.feed_many([FINE, replace(FINE, key="j", time=50.0)])
    now = 1010.0
    assert stream.tick() == []
    assert (stream.n_live, stream.n_held) == (1, 1)
    now = 1010.5
    [decision] = stream.tick()
    assert (decision.key, decision.reason) == ("k", Reason.EXPIRED)
    assert (stream.n_live, stream.n_held) == (1, 0)  # what was held back has just come
    assert stream.tick(wall=1020.5) == []
    assert len(stream.tick(wall=1020.6)) == 1


def test_ids_of_other_tangles_and_keys_are_others() -> None:
    def name(tangle: str, key: str) -> str:
        return Decision(tangle, key, 0, ("a",), (1.0,), 1, 1, Reason.ENDED).id

    pairs = [("a", "b/c"), ("a/b", "c"), ("a\\", "b/c"), ("a\\/b", "c"), ("", "a/b/c"), ("a/", "b/c"), ("a\\\\", "b/c")]
    assert len({name(*pair) for pair in pairs}) == len(pairs)
    assert name("link-7", "10.0.0.1/24") == "link-7/10.0.0.1/24/0"


def test_a_large_reach_takes_no_memory_that_is_not_used() -> None:
    wide = changed(MODEL, "visibility.own=9007199254740991", "visibility.others=9007199254740991")
    few = Stream(changed(wide, "visibility.window=9007199254740991"), Limits(max_cached_items=50))
    endless = Stream(
        changed(MODEL, "visibility.rule=window", "visibility.window=9007199254740991"), Limits(max_cached_items=50)
    )
    for stream in (few, endless):
        stream.feed_many(items(100))
        assert stream._engines[0].runner._arriving.seen.nbytes < 2**20


def interrupt(monkeypatch: pytest.MonkeyPatch, stream: Stream, some: list[Item]) -> None:
    """Feed items, of which only the first seven are booked, and none of them has run."""
    engine = stream._engines[0]
    book, n_booked = engine._book, 0

    def interrupted(*given: Any) -> None:
        nonlocal n_booked
        n_booked += 1
        if n_booked == 8:
            raise KeyboardInterrupt
        book(*given)

    monkeypatch.setattr(engine, "_book", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.feed_many(some, wall=0.0)
    monkeypatch.undo()


def test_an_interrupted_call_mixes_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was booked before the interruption runs with the next call, and is told then."""
    some = items(40)
    spared = opened()
    wanted = spared.feed_many(some) + spared.close()
    stream = opened()
    interrupt(monkeypatch, stream, some[:20])
    assert_same(stream.feed_many(some[7:]) + stream.close(), wanted)


@pytest.mark.parametrize("verb", ["feed_many", "tick"])
def test_what_an_interrupted_call_booked_runs_before_it_expires(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    some = items(8)
    spared, stream = (Stream(MODEL, Limits(idle=5.0), threshold=1.0, dtype=np.float64) for _ in range(2))
    spared.feed_many(some[:7], wall=0.0)
    interrupt(monkeypatch, stream, some)
    given: tuple[Any, ...] = (some[7:],) if verb == "feed_many" else ()
    told = getattr(stream, verb)(*given, wall=9.0)
    assert told and {one.reason for one in told} == {Reason.EXPIRED}
    assert_same(told, getattr(spared, verb)(*given, wall=9.0))
    assert_same(stream.close(), spared.close())


def test_an_interrupted_stream_is_not_saved_or_taken_over_half_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    some = items(40)
    spared, stream = opened(), opened()
    wanted = spared.feed_many(some) + spared.close()
    interrupt(monkeypatch, stream, some[:20])
    for verb in (lambda: stream.save(tmp_path / "state"), lambda: stream.take_over(MODEL), stream.finish_old):
        with pytest.raises(ModelError, match=r"is used by another thread, or was interrupted; feed it on, .*, first$"):
            verb()
    told = stream.feed_many([])
    stream.save(tmp_path / "state")
    stream = resume(tmp_path / "state")
    assert_same(told + stream.feed_many(some[7:]) + stream.close(), wanted)


def test_a_stream_used_by_several_threads_says_so() -> None:
    """As one thread finds it while another books an item."""
    stream = opened()
    engine = stream._engines[0]
    engine.arrivals.make_room(FINE, 1.0)
    engine.runner.book(FINE, engine.coder.code(FINE.value), 1.0, 0.0)
    with pytest.raises(
        ModelError, match=r"^this stream was used by several threads at once, or interrupted in the middle"
    ):
        stream.feed(FINE)


@pytest.mark.parametrize("name", ["run", "book", "decide"])
def test_a_stream_interrupted_while_it_runs_takes_nothing_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the network, in the middle of an item, or before what the network said was told."""
    stream = opened()
    engine = stream._engines[0]
    places = {"run": (engine.runner.kernel, "run"), "book": (engine.runner, "_parts"), "decide": (engine, "_decide")}

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(*places[name], interrupted)
        stream.feed(FINE)
    for verb in (lambda: stream.feed(FINE), stream.tick, lambda: stream.end("t", "k"), stream.close):
        with pytest.raises(ModelError, match="interrupted in the middle of an item; go on from a saved state"):
            verb()


def test_closings_that_an_interruption_kept_from_being_decided_are_decided_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where no item runs with them: the one that came goes past a sequence that is decided."""
    model = changed(MODEL, *DROPPING)
    stream = Stream(model, Limits(expiry=5.0), threshold=0.0, dtype=np.float64)
    stream.feed(Item("t", "a", FINE.value, 0.0))
    engine = stream._engines[0]
    engine.threshold = 2.0
    stream.feed_many([Item("t", "b", FINE.value, 1.0), Item("t", "a", FINE.value, 4.0)])

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(engine, "_decide", interrupted)
        stream.feed(Item("t", "a", FINE.value, 8.0))
    assert [one.key for one in stream.feed_many([])] == ["b"]


def test_a_closed_stream_may_go_on(tmp_path: Path) -> None:
    """As if every key had ended: later items open the next sequences, and the other verbs work as ever."""
    some, later = items(30), items(60)[30:]
    closed, ended = (Stream(MODEL, Limits(expiry=100.0), threshold=1.0, dtype=np.float64) for _ in range(2))
    for stream in (closed, ended):
        stream.feed_many(some)
    assert {one.reason for one in closed.close()} == {Reason.CLOSED}
    for key in range(3):
        ended.end("t", key)
    assert (closed.close(), closed.end("t", 0), closed.tick(31.0)) == ([], [], [])
    assert closed.status("t", 0) is None and closed.n_live == 0 and closed.n_cached == ended.n_cached > 0
    closed.save(tmp_path / "state")
    for stream in (closed, resume(tmp_path / "state")):
        told = stream.feed_many(later) + stream.close()
        assert {one.sequence for one in told} == {1}
    assert_same(told, ended.feed_many(later) + ended.close())


def test_models_do_not_pile_up() -> None:
    """Each takes over with a sequence left waiting; the oldest then decide theirs at once."""
    stream = Stream(MODEL, threshold=1.0)
    told = []
    for number in range(MOST_ENGINES + 2):
        told += stream.feed(Item("t", number, {"size": 1, "way": "in"}, float(number)))
        told += stream.take_over(MODEL, threshold=1.0)
        assert len(stream._engines) <= MOST_ENGINES
    assert [d.reason for d in told] == ["evicted"] * len(told) and told
    told += stream.close()
    assert sorted(d.key for d in told) == list(range(MOST_ENGINES + 2))
