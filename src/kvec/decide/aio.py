"""The stream for asyncio: the same verbs over the same core, which works in a thread so that the loop stays free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

from kvec.decide.deployed import Deployable
from kvec.decide.engine import Counters
from kvec.decide.runner import CHUNK
from kvec.decide.stream import Status, Stream
from kvec.words.errors import DataError, SettingError
from kvec.words.items import Decision, Item, Key, TangleId

T = TypeVar("T")


class AsyncStream:
    """A stream whose verbs are awaited; they take turns, in the order in which they were called.

    `async for decision in AsyncStream(stream).watch(source)` feeds whatever items are there, and tells decisions as
    they fall.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._turn = ThreadPoolExecutor(1, "kvec-stream")  # one thread: calls take turns, also after one was given up

    async def feed(self, item: Item) -> list[Decision]:
        """Take one item."""
        return await self._call(self.stream.feed, item)

    async def feed_many(self, items: Iterable[Item]) -> list[Decision]:
        """Take many items, in blocks; the same decisions as one by one."""
        return await self._call(self.stream.feed_many, items)

    async def tick(self, now: float | None = None, wall: float | None = None) -> list[Decision]:
        """Let time move on without an item."""
        return await self._call(self.stream.tick, now, wall)

    async def end(self, tangle: TangleId, key: Key) -> list[Decision]:
        """Mark the end of a key's sequence."""
        return await self._call(self.stream.end, tangle, key)

    async def close(self) -> list[Decision]:
        """Decide every sequence that is still waiting."""
        return await self._call(self.stream.close)

    async def take_over(self, model: Deployable, threshold: float | None = None) -> list[Decision]:
        """Let a newer model decide the sequences that open from now on."""
        return await self._call(self.stream.take_over, model, threshold)

    async def save(self, path: str | Path, note: Mapping[str, Any] | None = None) -> None:
        """Write the whole stream into one file, as it is after the calls before."""
        await self._call(self.stream.save, path, note)

    async def status(self, tangle: TangleId, key: Key) -> Status | None:
        """What is known of a key."""
        return await self._call(self.stream.status, tangle, key)

    async def watch(self, source: AsyncIterable[Item], waiting: int = 4 * CHUNK) -> AsyncIterator[Decision]:
        """Feed a source to its end, then close; no more than `waiting` items are read ahead."""
        if not isinstance(waiting, Integral) or isinstance(waiting, bool) or waiting < 1:
            raise SettingError(f"waiting is {waiting!r}; it must be a whole number of at least 1")
        queue: asyncio.Queue[Item | None] = asyncio.Queue(waiting)

        async def read() -> None:
            try:
                async for item in source:
                    await queue.put(item)
            except Exception:
                await queue.put(None)
                raise
            await queue.put(None)

        reading = asyncio.create_task(read())
        try:
            is_open = True
            while is_open:
                items = [await queue.get()]
                while not queue.empty() and len(items) < CHUNK:
                    items.append(queue.get_nowait())
                is_open = None not in items
                fed = [item for item in items if item is not None]
                try:
                    decisions = await self.feed_many(fed)
                except DataError:  # nothing of it was taken; what comes before the refused one shall be
                    for item in fed:
                        for decision in await self.feed(item):
                            yield decision
                    raise
                for decision in decisions:
                    yield decision
            await reading  # raises what the source raised
            for decision in await self.close():
                yield decision
        finally:
            reading.cancel()

    @property
    def counters(self) -> Counters:
        """What has happened to the items so far."""
        return self.stream.counters

    @property
    def reasons(self) -> dict[str, int]:
        """Decisions so far."""
        return self.stream.reasons

    @property
    def n_live(self) -> int:
        """Sequences that are being watched, decided ones included."""
        return self.stream.n_live

    async def _call(self, verb: Callable[..., T], *given: Any) -> T:
        """Call in the thread; a caller who gives up waiting does not stop what was begun."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._turn, verb, *given))
