"""The stream against its definitions: a slow one that keeps everything, and looks through all of it at each item."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paper.slow_stream import SlowStream
from tests.properties.stories import (
    DROPPING,
    LIMITS,
    MODEL,
    Choice,
    End,
    Feed,
    Look,
    Plan,
    Step,
    Tick,
    assert_same,
    changed,
    choices,
    do,
    plans,
)

from kvec.decide.deployed import Deployed
from kvec.decide.stream import Status, Stream
from kvec.words.items import Decision
from kvec.words.limits import Limits

CLOSE = 1e-11


def do_slowly(slow: SlowStream, step: Step) -> list[Decision]:
    match step:
        case Feed(items, wall):
            return [decision for item in items for decision in slow.feed(item, wall)]
        case Tick(now, wall):
            return slow.tick(now, wall)
        case End(tangle, key, wall):
            return slow.end(tangle, key, wall)
    return []


def assert_same_status(status: Status | None, slow: SlowStream, step: Look, is_newest: bool = True) -> None:
    live = slow.find(step.tangle, step.key)
    if live is None:
        assert status is None
        return
    assert status is not None
    assert (status.tangle, status.key, status.sequence) == (step.tangle, step.key, live.number)
    said = live.shown[-1].said
    if live.decision is None:
        labels, probabilities = slow.best(said)
        assert (status.is_final, status.reason, status.n_observed) == (False, None, len(live.arrivals))
    else:
        labels, probabilities = live.decision.labels, live.decision.probabilities
        wanted = (True, live.decision.reason, live.decision.n_observed)
        assert (status.is_final, status.reason, status.n_observed) == wanted
    if live.decision is None or is_newest:  # an older model may be gone when it has decided
        assert status.halt_probability == pytest.approx(1 / (1 + np.exp(-said[0])), abs=CLOSE)
    assert (status.labels, status.label) == (labels, labels[0])
    np.testing.assert_allclose(status.probabilities, probabilities, rtol=0, atol=CLOSE)
    assert status.probability == status.probabilities[0]


def assert_same_memory(stream: Stream, slow: SlowStream) -> None:
    assert stream.n_live == len(slow.live())
    assert stream.n_tangles == len(slow.watched())
    assert stream.n_cached == len(slow.all_remembered())
    assert stream.n_held == sum(len(held.items) for held in slow.held)
    assert asdict(stream.counters) == slow.counts


def assert_as_defined(model: Deployed, limits: Limits, plan: Plan) -> None:
    stream, slow = Stream(model, limits, dtype=np.float64), SlowStream(model, limits)
    for step in plan.story:
        stream, decisions = do(stream, step)
        assert_same(decisions, do_slowly(slow, step))
        assert_same_memory(stream, slow)
        if isinstance(step, Look):
            assert_same_status(stream.status(step.tangle, step.key), slow, step)
    assert_same(stream.close(), slow.close())


@given(choice=choices(), limits=LIMITS, plan=plans())
@settings(max_examples=100)
def test_a_stream_does_what_its_definitions_say(choice: Choice, limits: Limits, plan: Plan) -> None:
    assert_as_defined(choice.model, limits, plan)


@given(choice=choices(*DROPPING), limits=LIMITS, plan=plans())
@settings(max_examples=45)
def test_dropping_after_halts_does_what_its_definitions_say(choice: Choice, limits: Limits, plan: Plan) -> None:
    assert_as_defined(choice.model, limits, plan)


@given(choice=choices(bases=("timed",)), plan=plans(60), wide=st.booleans())
@settings(max_examples=30)
def test_nothing_but_the_window_limits_a_quiet_stream(choice: Choice, plan: Plan, wide: bool) -> None:
    """With the limits that users get, more items are alive at once than under tight ones."""
    model = changed(choice.model, "visibility.window=1000") if wide else choice.model
    assert_as_defined(model, Limits(), plan)


class SlowSuccession:
    """Several models one after the other: each lives its own life, and decides what opened in its time."""

    def __init__(self, model: Deployed, limits: Limits) -> None:
        self.streams = [SlowStream(model, limits)]
        self.before: list[set[tuple[object, object, int]]] = [set()]  # of each model, sequences that are an older one's

    def take_over(self, model: Deployed) -> None:
        newest = self.streams[-1]
        self.before.append({(one.life.tangle, one.key, one.number) for one in newest.live()})
        self.streams.append(newest.successor(model))

    def owner(self, tangle: object, key: object, number: int) -> int:
        return max(i for i, theirs in enumerate(self.before) if (tangle, key, number) not in theirs)

    def do(self, step: Step | None) -> list[Decision]:
        told = []
        for i, slow in enumerate(self.streams):
            for decision in slow.close() if step is None else do_slowly(slow, step):
                if self.owner(decision.tangle, decision.key, decision.sequence) == i:
                    told.append(decision)
                    for newer in self.streams[i + 1 :]:
                        newer.hear(decision)
        return told


def assert_taken_over(models: list[Deployed], limits: Limits, plan: Plan, shares: list[float]) -> None:
    steps: list[Step | None] = [*plan.story, None]
    moments = sorted(int(share * len(steps)) for share in shares)
    stream, slow = Stream(models[0], limits, dtype=np.float64), SlowSuccession(models[0], limits)
    found: list[Decision] = []
    wanted: list[Decision] = []
    for number, step in enumerate(steps):
        for model in [models[i + 1] for i, moment in enumerate(moments) if moment == number]:
            stream.take_over(model)
            slow.take_over(model)
        if step is None:
            found += stream.close()
        else:
            stream, decisions = do(stream, step)
            found += decisions
        wanted += slow.do(step)
        assert_same_memory(stream, slow.streams[-1])
        if isinstance(step, Look):
            live = slow.streams[-1].find(step.tangle, step.key)
            owner = -1 if live is None else slow.owner(step.tangle, step.key, live.number)
            is_newest = owner + 1 == len(slow.streams)
            assert_same_status(stream.status(step.tangle, step.key), slow.streams[owner], step, is_newest)
    assert_same(found, wanted)
    assert sum(stream.reasons.values()) == len(found)


SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=3)


@given(choice=choices(bases=("timed", "spare")), other=choices(bases=("other", "timed")), limits=LIMITS, plan=plans(),
       shares=SHARES)  # fmt: skip
@settings(max_examples=50)
def test_newer_models_decide_what_opens_in_their_time(
    choice: Choice, other: Choice, limits: Limits, plan: Plan, shares: list[float]
) -> None:
    models = [choice.model, other.model, MODEL, other.model]
    assert_taken_over(models, limits, plan, shares)


@given(choice=choices(*DROPPING, bases=("timed",)), other=choices(bases=("other",)), limits=LIMITS,
       plan=plans(), shares=SHARES, drops=st.booleans())  # fmt: skip
@settings(max_examples=45)
def test_newer_models_where_items_are_dropped(
    choice: Choice, other: Choice, limits: Limits, plan: Plan, shares: list[float], drops: bool
) -> None:
    newer = changed(other.model, *DROPPING) if drops else other.model
    assert_taken_over([choice.model, newer, choice.model, newer], limits, plan, shares)
