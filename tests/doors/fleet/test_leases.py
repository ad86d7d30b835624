"""Who counts as lost, by the clock of the one who watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kvec.doors.fleet import leases as module
from kvec.doors.fleet.leases import Lease, Leases


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that the test moves."""
    moved = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: moved.now))
    return moved


def entry(key: str, value: bytes = b"", revision: int = 1, operation: str | None = None) -> Any:
    return SimpleNamespace(key=key, value=value, revision=revision, operation=operation)


def watching() -> Leases:
    made: Any = None
    return Leases(made, made, "me", 10.0)


def test_who_is_silent_for_a_lease_is_lost(clock: SimpleNamespace) -> None:
    leases = watching()
    for name in ("worker.a", "worker.b", "worker.me"):
        leases._hear(entry(name))
    assert leases.live() == {"a", "b", "me"}
    for _ in range(3):
        clock.now += 4
        leases._hear(entry("worker.b"))
        last = leases.live()
    assert last == {"b", "me"}
    leases._hear(entry("worker.b", operation="PURGE"))
    assert leases.live() == {"me"}


def test_who_was_asleep_cannot_tell_who_else_was(clock: SimpleNamespace) -> None:
    leases = watching()
    leases._hear(entry("worker.a"))
    clock.now += 100
    assert leases.live() == {"a", "me"}
    for _ in range(3):
        clock.now += 4
        last = leases.live()
    assert last == {"me"}


def test_the_newest_note_counts(clock: SimpleNamespace) -> None:
    leases, mine = watching(), Lease("me", 3, "0.2.1", 17)
    leases._hear(entry("partition.0", mine.to_bytes(), 5))
    assert leases.owners() == {0: "me"}
    assert leases._leases[0] == replace(mine, revision=5)
    assert leases.is_mine(0, 3) and leases.is_mine(0, 4) and not leases.is_mine(0, 2)
    leases._hear(entry("partition.0", Lease("old", 2).to_bytes(), 4))
    assert leases.owners() == {0: "me"}
    leases._hear(entry("partition.0", Lease("other", 4).to_bytes(), 6))
    assert leases.owners() == {0: "other"} and not leases.is_mine(0, 3)
    leases._hear(entry("partition.0", operation="DEL", revision=7))
    assert leases.owners() == {0: "other"}
    leases._hear(entry("terms", b'{"model": "x"}', 8))
    assert leases.terms == {"model": "x"}


@pytest.mark.parametrize("order", [(None, 3, 7), (3, None, 7), (3, 7, None)])
def test_all_that_was_noted_before_is_known_once_open(order: tuple[int | None, ...]) -> None:
    """The library's word that nothing older follows comes before the notes themselves, if they came quickly."""
    told = {None: None, 3: entry("partition.0", Lease("other", 4).to_bytes(), 3), 7: entry("worker.me", revision=7)}

    class Watcher:
        def __init__(self) -> None:
            self.rest = [told[one] for one in order]

        async def updates(self, timeout: float) -> Any:
            return self.rest.pop(0)

        def __aiter__(self) -> Watcher:
            return self

        async def __anext__(self) -> Any:
            return self.rest.pop(0) if self.rest else await asyncio.sleep(60)

    class Watched(Bucket):
        async def watchall(self) -> Watcher:
            return Watcher()

    wire: Any = Wire()

    async def opened() -> dict[int, str]:
        leases = Leases(wire, Watched(), "me", 10.0)
        await leases.open()
        known = leases.owners()
        await asyncio.sleep(0.01)
        await leases.close(is_left=False)
        return known

    assert asyncio.run(opened()) == {0: "other"}
    assert wire.lost == ""


# -- beating ----------------------------------------------------------------------------------------------------------


class Wire:
    """A link that only passes on, and notes why it was lost."""

    lost = ""

    async def ask(self, question: Coroutine[Any, Any, Any]) -> Any:
        return await question

    def lose(self, why: str) -> None:
        self.lost = why


class Bucket:
    """A bucket that does at each beat, and at each purge, what the test says."""

    def __init__(self) -> None:
        self.beats, self.purged = 0, list[str]()
        self.leases: Leases

    async def put(self, key: str, value: bytes) -> int:
        self.beats += 1
        return 7

    async def purge(self, key: str) -> None:
        self.purged.append(key)


def beating(bucket: Bucket, seconds: float = 1.0) -> Wire:
    """Beat for a while, with two others that are lost for long."""
    wire: Any = Wire()

    async def beat() -> None:
        leases = bucket.leases = Leases(wire, bucket, "me", 0.1)
        leases._workers = dict.fromkeys("xy", time.monotonic() - 100)
        task = asyncio.create_task(leases._go_on_beating())
        until = time.monotonic() + seconds
        while time.monotonic() < until and bucket.beats < 5 and not wire.lost:
            leases.live()
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(beat())
    return wire  # type: ignore[no-any-return]


def test_others_may_clear_away_at_the_same_time() -> None:
    class Shared(Bucket):
        async def purge(self, key: str) -> None:
            await super().purge(key)
            for name in "xy":  # meanwhile another worker has done both
                self.leases._hear(entry(f"worker.{name}", operation="PURGE"))

    bucket = Shared()
    assert beating(bucket, 60.0).lost == ""
    assert bucket.beats == 5 and len(bucket.purged) == 1


def test_a_heart_that_stops_is_told() -> None:
    class Broken(Bucket):
        async def purge(self, key: str) -> None:
            raise ValueError("nobody thought of this")

    assert beating(Broken(), 60.0).lost == "nobody thought of this"
