"""What holds for every stream: one decision each, names do not matter, cuts do not matter, memory is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    Stop,
    Story,
    Tick,
    assert_same,
    changed,
    choices,
    do,
    items_of,
    lived,
    plans,
)

from kvec.decide.engine import Engine
from kvec.decide.stream import Stream
from kvec.words.items import Decision, Item
from kvec.words.limits import Limits

FEED_ALIKE = st.lists(st.integers(1, 9), min_size=1, max_size=4)
LONE = {"max_live_keys": 1000, "max_tangles": 1000, "max_cached_items": 1000, "max_returning_keys": 1000}


def stream_of(choice: Choice, limits: Limits) -> Stream:
    return Stream(choice.model, limits, dtype=np.float64)


def flat(told: list[list[Decision]]) -> list[Decision]:
    return [decision for some in told for decision in some]


@given(choice=choices(), limits=LIMITS, plan=plans())
def test_every_sequence_is_decided_once(choice: Choice, limits: Limits, plan: Plan) -> None:
    stream, decisions = stream_of(choice, limits), []
    for step in plan.story:
        stream, some = do(stream, step)
        decisions += some
        live = stream._engines[0].arrivals.live.values()
        assert stream.n_live == len({(one.tangle.id, one.key) for one in live})
    decisions += stream.close()
    assert len({one.id for one in decisions}) == len(decisions) == stream._engines[0].arrivals.n_sequences
    assert stream.n_live == stream.n_held == 0
    assert stream.close() == []
    assert stream.reasons == {**dict.fromkeys(stream.reasons, 0), **Counter(one.reason.value for one in decisions)}
    fed = Counter((item.tangle, item.key) for item in items_of(plan.story))
    seen: Counter[tuple[Any, Any]] = Counter()
    for one in decisions:
        assert 1 <= one.n_observed
        seen[one.tangle, one.key] += one.n_observed
        assert one.length is None if one.reason == "halted" else one.length == one.n_observed
        assert all(0 < probability <= 1 for probability in one.probabilities)
    assert seen <= fed
    if limits.max_returning_keys == 1000:  # else some keys go on with a higher number
        of_key = Counter((one.tangle, one.key) for one in decisions)
        assert all(one.sequence < of_key[one.tangle, one.key] for one in decisions)


def renamed(story: Story, tangle: Callable[[Any], Any], key: Callable[[Any], Any]) -> Story:
    def step_of(step: Step) -> Step:
        match step:
            case Feed(items, wall):
                return Feed(tuple(replace(one, tangle=tangle(one.tangle), key=key(one.key)) for one in items), wall)
            case End() | Look():
                return replace(step, tangle=tangle(step.tangle), key=key(step.key))
        return step

    return [step_of(step) for step in story]


@given(choice=choices(), limits=LIMITS, plan=plans())
@settings(max_examples=25)
def test_names_change_nothing_but_themselves(choice: Choice, limits: Limits, plan: Plan) -> None:
    new_tangle = {0: "z/0", 1: "a", 2: -7}
    new_key = {f"k{i}": name for i, name in enumerate([10**20, 0, "", "k0", "k\n0"])}
    wanted = lived(stream_of(choice, limits), plan.story)
    found = lived(stream_of(choice, limits), renamed(plan.story, new_tangle.__getitem__, new_key.__getitem__))
    for some, others in zip(found, wanted, strict=True):
        assert_same(some, [replace(one, tangle=new_tangle[one.tangle], key=new_key[one.key]) for one in others], 0)


@given(choice=choices(), limits=LIMITS, plan=plans(verbs=0.2))
@settings(max_examples=40)
def test_tangles_do_not_disturb_each_other(choice: Choice, limits: Limits, plan: Plan) -> None:
    """As long as no limit of the whole stream is met."""
    limits = replace(limits, **LONE)  # type: ignore[arg-type]
    story = [*plan.story, Tick(None, 1e6)]
    together = flat(lived(stream_of(choice, limits), story))
    for tangle in range(plan.n_tangles):
        alone: Story = []
        for step in story:
            if isinstance(step, Feed):
                step = Feed(tuple(item for item in step.items if item.tangle == tangle), step.wall)
            if not isinstance(step, End) or step.tangle == tangle:
                alone.append(step)
        assert_same(
            sorted(flat(lived(stream_of(choice, limits), alone)), key=lambda one: one.id),
            sorted((one for one in together if one.tangle == tangle), key=lambda one: one.id),
        )


@given(choice=choices(), limits=LIMITS, plan=plans(), cuts=FEED_ALIKE)
@settings(max_examples=40)
def test_cuts_do_not_matter(choice: Choice, limits: Limits, plan: Plan, cuts: list[int]) -> None:
    """However the items of a moment are fed, the same decisions fall; so what comes later edits nothing."""
    recut: Story = []
    joined: Story = []
    for step in plan.story:
        if not isinstance(step, Feed):
            recut.append(step)
            joined.append(step)
            continue
        left = list(step.items)
        while left:
            size = cuts[len(recut) % len(cuts)]
            recut.append(Feed(tuple(left[:size]), step.wall))
            left = left[size:]
        before = joined[-1] if joined else None
        if isinstance(before, Feed) and before.wall == step.wall:
            joined[-1] = Feed((*before.items, *step.items), step.wall)
        else:
            joined.append(step)
    wanted = flat(lived(stream_of(choice, limits), plan.story))
    assert_same(flat(lived(stream_of(choice, limits), recut)), wanted)
    assert_same(flat(lived(stream_of(choice, limits), joined)), wanted)


@given(choice=choices(), limits=LIMITS, plan=plans())
def test_memory_is_bounded_after_every_verb(choice: Choice, limits: Limits, plan: Plan) -> None:
    stream = stream_of(choice, limits)
    for step in plan.story:
        stream, _ = do(stream, step)
        arrivals, sightings = stream._engines[0].arrivals, stream._engines[0].arrivals.sightings
        assert stream.n_live <= limits.max_live_keys
        assert stream.n_tangles <= limits.max_tangles
        assert stream.n_cached <= limits.max_cached_items
        assert stream.n_held <= limits.max_cached_items
        assert len(stream._engines[0].held) <= limits.max_tangles
        assert len(arrivals.numbers) <= limits.max_returning_keys
        assert sum(len(tangle.live) for tangle in arrivals.tangles.values()) == stream.n_live
        assert sum(len(tangle.rows) for tangle in arrivals.tangles.values()) == stream.n_cached
        assert sum(len(tangle.holders) for tangle in arrivals.tangles.values()) <= stream.n_cached
        n_kept = len(sightings.raw)  # those of tangles that are over go bit by bit
        assert stream.n_cached <= n_kept <= limits.max_cached_items
        used = len(sightings.links.sessions) - len(sightings._free_sessions)
        assert used <= n_kept + stream.n_live
        assert len(sightings.links.items) - len(sightings._free_rows) == n_kept
        assert arrivals.n_places - len(arrivals._free_places) == stream.n_live


@given(choice=choices(), limits=LIMITS, plan=plans())
@settings(max_examples=25)
def test_a_tick_at_the_moment_of_an_item_changes_nothing(choice: Choice, limits: Limits, plan: Plan) -> None:
    ticking: Story = []
    for step in plan.story:
        ticking += [Tick(None, step.wall), step] if isinstance(step, Feed) else [step]
    wanted = flat(lived(stream_of(choice, limits), plan.story))
    assert_same(flat(lived(stream_of(choice, limits), ticking)), wanted)


@given(choice=choices(bases=("timed", "spare")), plan=plans(verbs=0.0, jitter=0.0), expiry=st.sampled_from([None, 3.0]),
       seed=st.integers(0, 2**20))  # fmt: skip
@settings(max_examples=40)
def test_items_that_are_a_little_late_find_their_place(
    choice: Choice, plan: Plan, expiry: float | None, seed: int
) -> None:
    """Within the seconds that items are held back, their order does not matter."""
    rng = np.random.default_rng(seed)
    in_order = [replace(item, time=0.125 * i) for i, item in enumerate(items_of(plan.story))]
    shaken = sorted(in_order, key=lambda item: (item.time or 0.0) + float(rng.random()) * 1.9)
    wanted = Stream(choice.model, Limits(expiry=expiry), dtype=np.float64)
    found = Stream(choice.model, Limits(expiry=expiry, reorder=2.0), dtype=np.float64)
    assert_same(
        sorted(flat([*(found.feed(item) for item in shaken), found.close()]), key=lambda one: one.id),
        sorted(wanted.feed_many(in_order) + wanted.close(), key=lambda one: one.id),
    )
    assert (found.counters.late, found.n_held) == (0, 0)


@given(choice=choices(bases=("timed",)), plan=plans(verbs=0.0, jitter=0.0), limits=LIMITS)
@settings(max_examples=40)
def test_saying_everything_twice_says_nothing_new(choice: Choice, plan: Plan, limits: Limits) -> None:
    limits = replace(limits, duplicates="drop", reorder=0.0, idle=None)
    once = [replace(item, time=float(i), is_end=False) for i, item in enumerate(items_of(plan.story))]
    twice = [copy for item in once for copy in (item, item)]
    wanted, found = (Stream(choice.model, limits, dtype=np.float64) for _ in range(2))
    assert_same(found.feed_many(twice) + found.close(), wanted.feed_many(once) + wanted.close())
    assert (found.counters.duplicates, wanted.counters.duplicates) == (len(once), 0)


@given(choice=choices(bases=("timed",)), plan=plans(verbs=0.0), cuts=FEED_ALIKE, seed=st.integers(0, 2**20))
@settings(max_examples=20)
def test_what_is_said_again_later_says_nothing_new(choice: Choice, plan: Plan, cuts: list[int], seed: int) -> None:
    """However late both come, while the sequence is open; items of other times or values are all taken."""
    rng = np.random.default_rng(seed)
    some = [replace(item, is_end=False) for item in items_of(plan.story)]
    once = list({(one.tangle, one.key, one.time, str(one.value)): one for one in some}.values())
    told = [(number, one) for number, one in enumerate(once)]
    again = [(number + 0.5 + int(rng.integers(12)), one) for number, one in told]
    both = [one for _, one in sorted(told + again, key=lambda moment: moment[0])]
    limits = Limits(expiry=np.inf, duplicates="drop")
    wanted, found = Stream(choice.model, Limits(expiry=np.inf), dtype=np.float64), stream_of(choice, limits)
    story: Story = []
    while both:
        size = cuts[len(story) % len(cuts)]
        story += [Feed(tuple(both[:size]), 0.0), Stop()]
        both = both[size:]
    decisions = []
    for step in story:
        found, some_told = do(found, step)
        decisions += some_told
    assert_same(decisions + found.close(), wanted.feed_many(once) + wanted.close())
    assert (found.counters.duplicates, found.counters.dropped) == (len(once), len(once))


def books(engine: Engine) -> tuple[Any, ...]:
    """All that depends on arrivals alone, in order."""
    live, tangles = engine.arrivals.live.values(), engine.arrivals.tangles.values()
    return (
        [(one.tangle.id, one.key, one.number, one.n_items, one.time, one.wall, one.alike) for one in live],
        [(one.id, one.n_arrived + one.n_passed, one.n_opened, one.clock, one.wall, list(one.live)) for one in tangles],
        (list(engine.arrivals.numbers.items()), engine.arrivals.next_number, engine.n_held),
        [
            (tangle, held.clock, held.wall, held.n, [one[:3] for one in held.heap])
            for tangle, held in engine.held.items()
        ],
    )


@given(choice=choices(bases=("timed",)), other=choices(*DROPPING, bases=("other", "spare")),
       limits=LIMITS, plan=plans(), moments=st.lists(st.integers(0, 39), min_size=1, max_size=3))  # fmt: skip
def test_all_models_of_a_stream_keep_the_same_books(
    choice: Choice, other: Choice, limits: Limits, plan: Plan, moments: list[int]
) -> None:
    """And a newer one knows whatever an older one has decided."""
    stream = stream_of(choice, limits)
    for number, step in enumerate(plan.story):
        for _ in range(moments.count(number)):
            before = stream._engines[-1]
            stream.take_over(other.model if len(stream._engines) % 2 else choice.model)
            arrivals = stream._engines[-1].arrivals
            assert books(before) == books(stream._engines[-1])
            for one in before.arrivals.live.values():
                same = arrivals.find(one.tangle.id, one.key)
                assert same is not None and same.slot == one.slot % arrivals.slots
        stream, _ = do(stream, step)
        newest = stream._engines[-1]
        for i, engine in enumerate(stream._engines[:-1]):
            assert books(engine) == books(newest)
            waiting = [one for one in engine.arrivals.live.values() if engine.owns(one) and one.decision is None]
            assert len(waiting) == engine.n_waiting > 0
            for one in (one for one in engine.arrivals.live.values() if engine.owns(one)):
                for newer in stream._engines[i + 1 :]:
                    same = newer.arrivals.find(one.tangle.id, one.key)
                    assert same is not None and same.is_foreign and same.decision == one.decision


def flood(n: int, n_tangles: int) -> list[Item]:
    """Two items each of ever new keys."""
    rng = np.random.default_rng(0)
    return [
        Item(int(rng.integers(n_tangles)), i // 2, {"size": int(rng.integers(5)), "way": "in"}, 0.01 * i)
        for i in range(n)
    ]


@pytest.mark.parametrize("size", [1, 1500])
def test_a_flood_reaches_a_plateau_and_is_forgotten(size: int) -> None:
    limits = Limits(max_live_keys=1000, max_tangles=30, max_cached_items=3000, max_returning_keys=100, expiry=60.0)
    stream = Stream(changed(MODEL, "visibility.window=500"), limits)
    items, levels = flood(4500 if size == 1 else 9000, n_tangles=20), []
    for start in range(0, len(items), size):
        stream.feed_many(items[start : start + size])
        if (start + size) % 1500 == 0:
            levels.append(stream.bytes)
    assert (stream.n_live, stream.n_cached) == (1000, 3000)
    assert levels[-1] == levels[2] > levels[0]
    stream.feed(Item("quiet", "k", {"size": 1, "way": "in"}, 1000.0))
    assert stream.n_tangles == 21  # nobody told the others that time has moved on
    stream.tick(now=1000.0)
    assert (stream.n_live, stream.n_tangles, stream.n_cached) == (1, 1, 1)
    assert stream.bytes < levels[-1] / 3
    stream.feed_many([Item("quiet", "k", {"size": 1}, 1001.0), Item("quiet", "l", {"size": 1}, 1002.0)])
    assert (stream.n_live, stream.n_tangles, stream.n_cached) == (2, 1, 3)


@pytest.mark.parametrize("few", [10, 4096])
def test_memory_is_given_back_without_ticks_where_little_is_to_be_moved(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tangle whose flood has passed its expiry: the next item releases what it held."""
    monkeypatch.setattr("kvec.decide.stream.FEW", few)
    stream = Stream(changed(MODEL, "visibility.window=4000"), Limits(expiry=60.0))
    others = [replace(item, tangle="other") for item in flood(40, n_tangles=1)]
    stream.feed_many([*flood(4000, n_tangles=1), *others])
    full = stream.bytes
    stream.feed(Item(0, "k", {"size": 1}, 1000.0))
    assert (stream.n_live, stream.n_cached) == (21, 41)
    assert (stream.bytes < full / 3) == (few > 10)
    stream.tick()
    assert stream.bytes < full / 3
    assert len(stream.close()) == 21


def test_room_of_items_and_of_sequences_is_given_back_apart() -> None:
    items, keys = (Stream(changed(MODEL, "visibility.window=4000"), Limits(expiry=60.0)) for _ in range(2))
    one_key = [replace(item, key="k") for item in flood(3000, n_tangles=1)]
    items.feed_many([*one_key, *(Item("other", i, {"size": 1}, 0.0) for i in range(300))])
    full = len(items._engines[0].memory.cache)
    items.feed(Item(0, "k", {"size": 1}, 1000.0))
    assert (items.n_live, items.n_cached) == (301, 301)
    assert len(items._engines[0].memory.cache) < full / 2
    keys.feed_many(flood(4000, n_tangles=1))
    full = len(keys._engines[0].memory.hidden)
    for i in range(2000):
        keys.end(0, i)
    assert (keys.n_live, keys.n_cached) == (0, 4000)
    assert len(keys._engines[0].memory.hidden) < full / 8
    assert len(keys._engines[0].memory.cache) >= 4000
