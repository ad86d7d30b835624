"""The asyncio form: the same decisions, in turn, with bounded reading ahead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.properties.test_stream import MODELS

from kvec.decide.aio import AsyncStream
from kvec.decide.stream import Stream, resume
from kvec.words.errors import DataError, SettingError
from kvec.words.items import Decision, Item

MODEL = MODELS["paper"][0]
ITEMS = [
    Item(i % 2, i % 3, {"size": i % 4, "way": ("up", "down")[i % 5 == 0], "load": 0.1 * i, "rate": 1.0}, 0.3 * i)
    for i in range(120)
]


async def arriving(items: list[Item], fails: bool = False) -> AsyncIterator[Item]:
    for number, item in enumerate(items):
        if number % 7 == 0:
            await asyncio.sleep(0)
        yield item
    if fails:
        raise ConnectionError("the source broke off")


def in_one_go() -> list[Decision]:
    stream = Stream(MODEL)
    return stream.feed_many(ITEMS) + stream.close()


def ids(decisions: list[Decision]) -> list[tuple[str, str, int]]:
    return sorted((d.id, d.label, d.n_observed) for d in decisions)


def test_watching_a_source_tells_the_same_decisions() -> None:
    async def watched(waiting: int) -> list[Decision]:
        return [d async for d in AsyncStream(Stream(MODEL)).watch(arriving(ITEMS), waiting)]

    for waiting in (1, 5, 1000):
        assert ids(asyncio.run(watched(waiting))) == ids(in_one_go())


@pytest.mark.parametrize("waiting", ["x", 0, -1, 0.5, 2.5, None, True])
def test_no_source_is_read_ahead_without_a_limit(waiting: Any) -> None:
    async def watched() -> None:
        async for _ in AsyncStream(Stream(MODEL)).watch(arriving(ITEMS), waiting):
            pass

    with pytest.raises(SettingError, match=rf"^waiting is {waiting!r}; it must be a whole number of at least 1$"):
        asyncio.run(asyncio.wait_for(watched(), 5))


def test_what_a_stream_holds_is_told_as_it_is() -> None:
    async def fed() -> AsyncStream:
        stream = AsyncStream(Stream(MODEL))
        await stream.feed_many(ITEMS)
        return stream

    told = asyncio.run(fed())
    assert (told.counters.items, told.n_live) == (len(ITEMS), 6)
    assert (told.counters, told.reasons, told.n_live) == (told.stream.counters, told.stream.reasons, told.stream.n_live)
    with pytest.raises(AttributeError):
        told.n_live = 0  # type: ignore[misc]


def test_verbs_take_turns_in_the_order_of_their_calls() -> None:
    async def fed() -> list[Decision]:
        stream = AsyncStream(Stream(MODEL))
        pieces = [stream.feed_many(ITEMS[i : i + 11]) for i in range(0, len(ITEMS), 11)]
        told = await asyncio.gather(*pieces)
        assert (await stream.status(0, 0)) is not None
        told.append(await stream.end(0, 0))
        told.append(await stream.tick(now=1e9))
        told.append(await stream.close())
        return [d for some in told for d in some]

    decisions = asyncio.run(fed())
    reasons = {d.id: d.reason for d in decisions}
    assert len(reasons) == len(decisions)
    assert "closed" not in reasons.values()  # the tick had expired what was left
    assert {d.id for d in decisions} == {d.id for d in in_one_go()}


def test_a_stream_is_saved_and_taken_over_in_its_turn(tmp_path: Path) -> None:
    async def fed() -> list[Decision]:
        stream = AsyncStream(Stream(MODEL))
        saved = stream.save(tmp_path / "state", {"at": 50})
        told, *_ = await asyncio.gather(
            stream.feed_many(ITEMS[:50]), saved, stream.feed_many(ITEMS[50:]), stream.take_over(MODEL, 1.0)
        )
        assert stream.stream.threshold == 1.0
        return told

    first, rest = asyncio.run(fed()), resume(tmp_path / "state")
    assert rest.note == {"at": 50}
    assert ids(first + rest.feed_many(ITEMS[50:]) + rest.close()) == ids(in_one_go())


def test_a_source_that_breaks_off_is_heard_of() -> None:
    async def watched() -> None:
        async for _ in AsyncStream(Stream(MODEL)).watch(arriving(ITEMS[:20], fails=True)):
            pass

    with pytest.raises(ConnectionError, match="broke off"):
        asyncio.run(watched())


def test_whoever_stops_listening_leaves_nothing_behind() -> None:
    async def watched() -> int:
        told = AsyncStream(Stream(MODEL, threshold=0.0)).watch(arriving(ITEMS), waiting=2)
        async for _ in told:
            break
        await told.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(watched()) == 1


def test_what_comes_before_a_refused_item_is_taken() -> None:
    stream = Stream(MODEL)

    async def watched() -> None:
        bad = Item(0, 0, {"size": 1, "way": "up", "load": "no number", "rate": 1.0}, 99.0)
        async for _ in AsyncStream(stream).watch(arriving([*ITEMS[:30], bad, *ITEMS[30:]])):
            pass

    with pytest.raises(DataError, match="no number"):
        asyncio.run(watched())
    assert stream.counters.items == 30


def test_a_call_that_was_given_up_still_takes_its_turn() -> None:
    class Slow:
        """A stream whose first item takes a while."""

        def __init__(self) -> None:
            self.busy, self.fed = 0, []  # type: ignore[var-annotated]

        def feed(self, item: int) -> list[Decision]:
            self.busy += 1
            assert self.busy == 1, "two calls at once"
            time.sleep(0.05 if item == 0 else 0)
            self.fed.append(item)
            self.busy -= 1
            return []

    slow = Slow()

    async def fed() -> None:
        stream = AsyncStream(slow)  # type: ignore[arg-type]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(stream.feed(0), 0.01)  # type: ignore[arg-type]
        await stream.feed(1)  # type: ignore[arg-type]

    asyncio.run(fed())
    assert slow.fed == [0, 1]
