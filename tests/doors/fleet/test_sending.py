"""What is sent while the server goes and comes again is in the stream once, however long that takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.doors.fleet.crewed import Server, needs_server, wait_until

from kvec.doors.fleet import ground
from kvec.doors.fleet.link import MSG_ID, Link, Post
from kvec.doors.fleet.sending import Parcel, Sent, deliver

pytest.importorskip("nats")
pytestmark = needs_server
WINDOW = 0.2  # seconds in which the server knows ids
PARCELS = [Parcel(f"items.{n % 2}", str(n).encode(), {MSG_ID: f"id {n}"}) for n in range(20)]
AS_IT_IS: dict[str, Any] = {"subjects": ["items.*", "items.tangle.*"], "metadata": {ground.NOTED: "2"}}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(ground, "WINDOW", WINDOW)
    made = Server(tmp_path)
    made.ask(lambda link: ground.source_of(link, made.place("?create=yes&partitions=2")))
    yield made
    made.kill()


def stored(server: Server) -> list[int]:
    """What the stream has, read outside of the loop that sends."""
    with ThreadPoolExecutor(1) as other:
        return [int(content) for _, content in other.submit(server.messages, "items", "items.*").result()]


def outage(server: Server) -> None:
    """Longer than the server knows ids."""
    server.kill()
    time.sleep(3 * WINDOW)
    server.start()


def sent(server: Server, parcels: Iterator[Parcel | None]) -> Sent:
    told = Sent()
    asyncio.run(deliver(server.place(), parcels, told))
    return told


def without_answers(monkeypatch: pytest.MonkeyPatch, first: int, last: int) -> list[int]:
    """Let the answers to some parcels of the first connection be lost; the numbers of those that were heard there."""
    hear, posts, heard = Post._hear, [], []

    async def deaf(self: Post, message: Any) -> None:
        number = int(message.subject.rpartition(".")[2])
        if self not in posts:
            posts.append(self)
        if self is posts[0]:
            if first <= number < last:
                return
            heard.append(number)
        await hear(self, message)

    monkeypatch.setattr(Post, "_hear", deaf)
    return heard


def test_rows_without_an_answer_are_not_doubled_after_a_long_outage(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_answers(monkeypatch, 5, 20)

    def parcels() -> Iterator[Parcel | None]:
        yield from PARCELS[:12]
        while len(stored(server)) < 12:
            yield None
        outage(server)
        yield from PARCELS[12:]

    told = sent(server, parcels())
    assert stored(server) == list(range(20))
    assert told.again == 0


def test_what_was_answered_last_is_not_sent_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier sender has sent all but one, which a look at what this one has added does not show."""
    server.ask(lambda link: link.js.update_stream(name="items", duplicate_window=3600.0, **AS_IT_IS))
    assert sent(server, iter(PARCELS[:19])).again == 0
    heard = without_answers(monkeypatch, 19, 20)

    def forget() -> None:
        wait_until(lambda: len(heard) == 19, "answers but for the last")
        server.ask(lambda link: link.js.update_stream(name="items", duplicate_window=WINDOW, **AS_IT_IS))
        outage(server)

    with ThreadPoolExecutor(1) as other:
        told = other.submit(forget)
        found = sent(server, iter(PARCELS))
        told.result()
    assert stored(server) == list(range(20))
    assert found.again == 19


def test_rows_that_the_server_refuses_for_a_while_are_sent_again(server: Server) -> None:
    async def limit(link: Link, most: int) -> None:
        await link.js.update_stream(
            name="items", max_msgs=most, discard=link.api.DiscardPolicy.NEW, duplicate_window=WINDOW, **AS_IT_IS
        )

    server.ask(lambda link: limit(link, 7))

    def make_room() -> None:
        wait_until(lambda: len(server.messages("items", "items.*")) == 7, "the stream is full")
        time.sleep(3 * WINDOW)
        server.ask(lambda link: limit(link, -1))

    with ThreadPoolExecutor(1) as other:
        made = other.submit(make_room)
        sent(server, iter(PARCELS))
        made.result()
    assert sorted(stored(server)) == list(range(20))
