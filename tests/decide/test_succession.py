"""A newer model taking over: who decides what, what goes on unbroken, and what is refused."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from tests.properties.stories import (
    DROPPING,
    MODEL,
    OTHER,
    TIMELESS,
    assert_same,
    changed,
    made_item,
    model_of,
    through_plain,
)

from kvec.decide.stream import MOST_ENGINES, Stream
from kvec.tangle.vocabulary import FieldVocabulary
from kvec.words.errors import DataError, SettingError
from kvec.words.items import Item, Reason
from kvec.words.limits import Limits
from kvec.words.schema import Field


def item(key: Any, time: float, tangle: Any = "t", **value: Any) -> Item:
    return Item(tangle, key, {"size": 1, "way": "in", "load": 0.5, "rate": 1.0, **value}, time)


def labelled(model: Any, name: str) -> Any:
    """The model with class names that tell whose they are, which never halts."""
    labels = tuple(tuple(f"{name} {label}" for label in labels) for labels in model.vocabulary.labels)
    return replace(model, vocabulary=replace(model.vocabulary, labels=labels), threshold=1.0)


def opened(**limits: Any) -> Stream:
    return Stream(labelled(MODEL, "first"), Limits(**limits), dtype=np.float64)


def whose(decisions: list[Any]) -> dict[str, str]:
    return {one.key: one.label.split()[0] for one in decisions}


def test_each_sequence_is_decided_by_the_model_of_its_time() -> None:
    stream = opened()
    stream.feed_many([item("a", 1.0), item("b", 1.0)])
    stream.take_over(labelled(OTHER, "second"))
    stream.feed_many([item("c", 2.0), item("a", 2.0)])
    stream.take_over(labelled(MODEL, "third"))
    stream.feed_many([item("d", 3.0), item("b", 3.0)])
    assert len(stream._engines) == 3
    for key, name, n in (("a", "first", 2), ("b", "first", 2), ("c", "second", 1), ("d", "third", 1)):
        status = stream.status("t", key)
        assert status is not None and (status.label.split()[0], status.n_observed) == (name, n)
    assert whose(stream.end("t", "a")) == {"a": "first"}
    assert len(stream._engines) == 3
    assert whose(stream.end("t", "b")) == {"b": "first"}
    assert len(stream._engines) == 2
    stream = through_plain(stream)
    stream.feed(item("a", 4.0))
    assert whose(stream.close()) == {"c": "second", "d": "third", "a": "third"}
    assert len(stream._engines) == 1
    assert stream.reasons["ended"] == 2 and stream.reasons["closed"] == 3


def test_a_model_without_open_sequences_goes_at_once() -> None:
    stream = opened()
    stream.take_over(labelled(OTHER, "second"))
    assert len(stream._engines) == 1
    stream.feed(item("a", 1.0))
    stream.end("t", "a")
    stream.take_over(labelled(MODEL, "third"))
    assert len(stream._engines) == 1
    assert stream.model.vocabulary.labels[0][0] == "third a"


def test_decided_sequences_stay_decided() -> None:
    stream = Stream(replace(MODEL, threshold=0.0), dtype=np.float64)
    [decision] = stream.feed(item("a", 1.0))
    stream.take_over(replace(OTHER, threshold=0.0))
    assert len(stream._engines) == 1
    assert stream.feed(item("a", 2.0)) == []
    status = stream.status("t", "a")
    assert status is not None and (status.is_final, status.labels, status.n_observed) == (True, decision.labels, 1)
    assert stream.close() == []
    [again] = stream.feed(item("a", 3.0))
    assert again.sequence == 1


def test_counts_clocks_and_numbers_go_on() -> None:
    stream, other = opened(max_cached_items=4), opened(max_cached_items=4)
    rng = np.random.default_rng(0)
    given = [made_item(rng, int(rng.integers(2)), int(rng.integers(3)), float(i)) for i in range(60)]
    for one in (stream, other):
        one.feed_many(given[:30])
    stream.take_over(labelled(MODEL, "first"))
    for one in (stream, other):
        one.feed_many(given[30:])
    assert asdict(stream.counters) == asdict(other.counters)
    assert (stream.n_live, stream.n_tangles, stream.n_cached) == (other.n_live, other.n_tangles, other.n_cached)
    ids = [[decision.id for decision in one.close()] for one in (stream, other)]
    assert sorted(ids[0]) == sorted(ids[1])
    assert stream.reasons == other.reasons


def test_limits_strike_the_same_sequences_in_every_model() -> None:
    """Also those of which nothing is remembered, and whatever order the others are replayed in."""
    few = {"max_cached_items": 1, "max_live_keys": 3, "expiry": 5.0}
    stream, other = opened(**few), opened(**few)
    for one in (stream, other):
        one.feed_many([item("a", 1.0), item("b", 2.0), item("c", 3.0), item("b", 4.0)])
    stream.take_over(labelled(OTHER, "second"))
    later = [item("d", 4.0), item("e", 4.0), item("b", 8.5), item("c", 8.5), item("d", 9.5)]
    for given in later:
        ids = [[(d.id, d.reason, d.n_observed) for d in one.feed(given)] for one in (stream, other)]
        assert ids[0] == ids[1]
        assert [live.key for live in stream._engines[-1].arrivals.live.values()] == [
            live.key for live in other._engines[-1].arrivals.live.values()
        ]
    assert sorted(one.id for one in stream.close()) == sorted(one.id for one in other.close())


def test_the_tangle_that_was_silent_longest_goes_first_in_every_model() -> None:
    stream = opened(max_cached_items=1, max_tangles=3)
    stream.feed_many([item("a", 1.0, "t"), item("a", 1.0, "u"), item("a", 1.0, "v"), item("a", 1.0, "t")])
    stream.take_over(labelled(OTHER, "second"))
    assert [one.tangle for one in stream.feed(item("a", 1.0, "w"))] == ["u"]
    assert [one.tangle for one in stream.feed(item("a", 1.0, "x"))] == ["v"]
    assert list(stream._engines[-1].arrivals.tangles) == ["t", "w", "x"]


def test_the_context_of_later_sequences_is_replayed() -> None:
    """With the whole past in memory, a sequence that opens later is decided as if the newer model had always been."""
    rng = np.random.default_rng(3)
    before = [made_item(rng, "t", int(rng.integers(4)), float(i) / 4, ends=0.0) for i in range(20)]
    after = [made_item(rng, "t", f"new {rng.integers(3)}", 5 + float(i) / 4, ends=0.0) for i in range(20)]
    always, later = Stream(OTHER, dtype=np.float64), Stream(MODEL, dtype=np.float64)
    always.feed_many(before)
    later.feed_many(before)
    later.take_over(OTHER)
    wanted = [one for one in always.feed_many(after) + always.close() if str(one.key).startswith("new")]
    found = [one for one in later.feed_many(after) + later.close() if str(one.key).startswith("new")]
    assert_same(sorted(found, key=lambda one: one.id), sorted(wanted, key=lambda one: one.id))
    assert len(found) == 3


def test_the_first_remembered_item_has_none_before_it() -> None:
    """However far back time began: what is forgotten leaves no gap behind."""
    decisions = []
    for start in (0.0, 1e6):
        stream = Stream(MODEL, Limits(max_cached_items=2, expiry=np.inf), threshold=1.0, dtype=np.float64)
        stream.feed_many(item("old", start + i) for i in range(5))
        stream.take_over(OTHER, threshold=1.0)
        decisions.append(stream.feed_many([item("new", start + 5.0)]) + stream.end("t", "new"))
    assert_same(decisions[0], decisions[1])


def test_times_must_be_there_for_both_or_neither() -> None:
    stream = opened()
    stream.feed(item("a", 1.0))
    with pytest.raises(
        SettingError, match=r"^the newer model knows no times, which this stream's items carry; start a"
    ):
        stream.take_over(TIMELESS)
    timeless = Stream(TIMELESS)
    timeless.feed(item("a", 1.0))
    with pytest.raises(SettingError, match=r"^the newer model needs times, which this stream's items do not carry; st"):
        timeless.take_over(MODEL)
    assert stream.model.has_time and not timeless.model.has_time
    assert len(stream.close()) == len(timeless.close()) == 1


@pytest.mark.parametrize("reorder", [0.0, 9.0])
def test_a_model_that_cannot_read_what_is_remembered_is_refused(reorder: float) -> None:
    """Whether the items were taken already or are held back; and the stream goes on as it was."""
    fields = (*MODEL.vocabulary.fields, FieldVocabulary("note", "binned", edges=(0.0,)))
    schema = replace(MODEL.schema, values=(*MODEL.schema.values, Field("note", kind="binned")))
    reader = model_of(vocabulary=replace(MODEL.vocabulary, fields=fields), schema=schema)
    stream, other = (Stream(MODEL, Limits(reorder=reorder), dtype=np.float64) for _ in range(2))
    for one in (stream, other):
        one.feed(item("a", 1.0, note="late"))
    before = stream.to_plain()[0]
    with pytest.raises(
        DataError, match=r"^the newer model cannot read items that this stream remembers: field 'note': "
    ):
        stream.take_over(reader)
    assert stream.to_plain()[0] == before and len(stream._engines) == 1
    for one in (stream, other):
        one.feed(item("a", 20.0, note="3"))
    assert_same(stream.close(), other.close())
    stream = Stream(MODEL, Limits(reorder=reorder), threshold=1.0)
    stream.feed(item("a", 1.0, note="3"))
    stream.take_over(reader)
    assert [one.reason for one in stream.close()] == [Reason.CLOSED]


def test_models_in_between_hear_of_decisions_too() -> None:
    """Where items after a halt are dropped, they must know when that was."""
    first = replace(labelled(MODEL, "first"), threshold=0.5)
    first = replace(first, weights={**first.weights, "policy.bias": first.weights["policy.bias"] - 100})
    second = changed(labelled(OTHER, "second"), *DROPPING)
    stream = Stream(first, dtype=np.float64)
    stream.feed_many([item("a", 1.0), item("b", 1.0)])
    stream.take_over(second)
    stream.feed(item("c", 1.0))
    stream.take_over(labelled(MODEL, "third"))
    oldest, between, newest = stream._engines
    oldest._near, oldest.threshold = -np.inf, 0.0  # from here on the first model halts at once
    [decision] = stream.feed(item("a", 2.0))
    assert (decision.key, decision.label.split()[0], decision.n_observed) == ("a", "first", 2)
    for engine in (oldest, between, newest):
        live = engine.arrivals.find("t", "a")
        assert live is not None and live.decision == decision
    before = [len(engine.arrivals.sightings.raw) for engine in stream._engines]
    stream.feed(item("a", 3.0))
    after = [len(engine.arrivals.sightings.raw) for engine in stream._engines]
    assert [m - n for m, n in zip(after, before, strict=True)] == [1, 0, 1]


def test_a_model_that_must_go_decides_what_it_has_seen() -> None:
    """Its sequences go on, decided; how long they get is not known."""
    stream = opened()
    told = []
    for number in range(MOST_ENGINES + 1):
        stream.feed_many([item(number, float(number)), item(number, float(number))])
        told += stream.take_over(labelled(OTHER, "later"))
    assert [(one.key, one.reason, one.n_observed, one.length) for one in told] == [
        (0, Reason.EVICTED, 2, None), (1, Reason.EVICTED, 2, None),
    ]  # fmt: skip
    assert whose(told) == {0: "first", 1: "later"}
    status = stream.status("t", 0)
    assert status is not None and (status.is_final, status.labels) == (True, told[0].labels)
    assert stream.n_live == MOST_ENGINES + 1
    assert sorted(one.key for one in stream.close()) == [2, 3, 4]


def test_held_items_reach_both_models() -> None:
    stream = opened(reorder=5.0)
    stream.feed_many([item("a", 1.0), item("b", 3.5), item("a", 8.0)])
    stream.take_over(labelled(OTHER, "second"))
    assert stream.n_held == 2
    stream.feed(item("c", 30.0))
    assert stream.n_held == 1
    decisions = stream.close()
    assert whose(decisions) == {"a": "first", "b": "second", "c": "second"}
    assert {one.key: one.n_observed for one in decisions} == {"a": 2, "b": 1, "c": 1}


def test_what_is_no_model_is_refused() -> None:
    stream = opened()
    for given in ("models/newer", None):
        with pytest.raises(SettingError, match=r" is no model; give a fitted KVEC, such as kvec\.load\(path\) reads$"):
            stream.take_over(given)  # type: ignore[arg-type]


def test_items_of_a_tangle_that_is_over_are_not_replayed() -> None:
    """They are forgotten a few at a time, so some are still there when the models change."""
    stream = opened(max_tangles=1)
    stream.feed_many([*(item("a", 1.0) for _ in range(10)), item("b", 1.0, tangle="u")])
    assert len(stream._engines[0].arrivals.sightings.raw) > stream.n_cached == 1
    stream.take_over(labelled(OTHER, "second"))
    assert [len(engine.arrivals.sightings.raw) for engine in stream._engines] == [1, 1]
    stream.feed(item("c", 2.0, tangle="u"))
    assert whose(stream.close()) == {"b": "first", "c": "second"}
