"""The stream against its definitions: a slow one that keeps everything, and looks through all of it at each item."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paper.slow_stream import SlowStream
from tests.properties.stories import (
    LIMITS,
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


def assert_same_status(status: Status | None, slow: SlowStream, step: Look) -> None:
    live = slow.find(step.tangle, step.key)
    if live is None:
        assert status is None
        return
    assert status is not None
    assert (status.tangle, status.key, status.sequence) == (step.tangle, step.key, live.number)
    said = live.shown[-1].said
    assert status.halt_probability == pytest.approx(1 / (1 + np.exp(-said[0])), abs=CLOSE)
    if live.decision is None:
        labels, probabilities = slow.best(said)
        assert (status.is_final, status.reason, status.n_observed) == (False, None, len(live.arrivals))
    else:
        labels, probabilities = live.decision.labels, live.decision.probabilities
        wanted = (True, live.decision.reason, live.decision.n_observed)
        assert (status.is_final, status.reason, status.n_observed) == wanted
    assert (status.labels, status.label) == (labels, labels[0])
    np.testing.assert_allclose(status.probabilities, probabilities, rtol=0, atol=CLOSE)


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
@settings(max_examples=120)
def test_a_stream_does_what_its_definitions_say(choice: Choice, limits: Limits, plan: Plan) -> None:
    assert_as_defined(choice.model, limits, plan)


@given(choice=choices("deciding.after_halt=drop"), limits=LIMITS, plan=plans())
@settings(max_examples=60)
def test_dropping_after_halts_does_what_its_definitions_say(choice: Choice, limits: Limits, plan: Plan) -> None:
    assert_as_defined(choice.model, limits, plan)


@given(choice=choices(bases=("timed",)), plan=plans(60), wide=st.booleans())
@settings(max_examples=40)
def test_nothing_but_the_window_limits_a_quiet_stream(choice: Choice, plan: Plan, wide: bool) -> None:
    """With the limits that users get, more items are alive at once than under tight ones."""
    model = changed(choice.model, "visibility.window=1000") if wide else choice.model
    assert_as_defined(model, Limits(), plan)
