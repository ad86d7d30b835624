"""Items that are pulled: none is waited for in vain, and none is passed over, where the connection holds."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.doors.fleet.crewed import Hand, Server, needs_server, rows_of, send, wait_until
from tests.doors.made import Trained
from tests.doors.streamed import assert_same, decided, streamed

from kvec.doors.fleet import intake as module
from kvec.doors.fleet.ground import Subjects
from kvec.doors.fleet.intake import BATCH, EXPIRES, GRACE, Intake
from kvec.doors.fleet.link import Link


class Wire:
    """A link on which requests go, and nothing comes but what the test says."""

    def __init__(self) -> None:
        self.requests: list[dict[str, int]] = []
        self.lost = ""

    async def send(self, subject: str, content: bytes, reply: str) -> None:
        self.requests.append(json.loads(content))

    def lose(self, why: str) -> None:
        self.lost = why


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that the test moves."""
    moved = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(time, "monotonic", lambda: moved.now)
    return moved


def item(place: int, count: int, behind: int = 0) -> Any:
    reply = f"$JS.ACK.items.kvec-0-1.1.{place}.{count}.1700000000000000000.{behind}"
    return SimpleNamespace(reply=reply, headers=None, data=b"%d" % place)


def ended(pending: int) -> Any:
    return SimpleNamespace(reply="", headers={"Status": "408", "Nats-Pending-Messages": str(pending)}, data=b"")


def pulling() -> tuple[Wire, Intake]:
    wire: Any = Wire()
    return wire, Intake(wire, Subjects("items", "decisions"), 0, "kvec", 1)


def test_a_request_that_is_lost_is_made_again(clock: SimpleNamespace) -> None:
    wire, intake = pulling()

    def after(seconds: float, *heard: Any) -> int:
        """How many requests there are in the end."""
        clock.now += seconds
        for one in heard:
            asyncio.run(intake._hear(one))
        asyncio.run(intake.ask_for_more())
        return len(wire.requests)

    assert after(0) == 1
    assert wire.requests[0] == {"batch": BATCH, "expires": EXPIRES * 1e9}
    assert after(EXPIRES, item(1, 1)) == 1
    assert after(EXPIRES) == 1, "the server has answered a moment ago"
    assert after(GRACE + 1) == 2, "no request lasts for so long"
    assert after(EXPIRES + GRACE) == 2
    assert after(EXPIRES, item(2, 2), ended(BATCH - 1)) == 3
    assert after(1, ended(BATCH - 1), ended(BATCH)) == 4, "some end later than they were given up"
    assert after(1, item(3, 3)) == 4
    assert [one.number for one in intake.read(9)] == [1, 2, 3] and not wire.lost


def test_nothing_is_taken_behind_an_item_that_is_lost(clock: SimpleNamespace) -> None:
    wire, intake = pulling()
    for place, count in ((4, 1), (9, 2), (4, 1), (9, 2), (10, 3)):  # a server that was killed may begin earlier
        asyncio.run(intake._hear(item(place, count)))
    assert not wire.lost
    for place, count in ((15, 5), (16, 6)):
        asyncio.run(intake._hear(item(place, count)))
    assert wire.lost == "items of partition 0 were lost on their way"
    assert [one.number for one in intake.read(9)] == [4, 9, 10]


# -- with a real server -----------------------------------------------------------------------------------------------


@needs_server
def test_a_worker_whose_requests_are_lost_goes_on(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nats")
    monkeypatch.setattr(module, "EXPIRES", 1.0)
    monkeypatch.setattr(module, "GRACE", 1.0)
    sent, swallowed = Link.send, []

    async def swallow(link: Link, subject: str, *given: Any, **more: Any) -> None:
        """As a server of a cluster that dies with what it was asked."""
        if "CONSUMER.MSG.NEXT" in subject and len(swallowed) < 2:
            swallowed.append(subject)
        else:
            await sent(link, subject, *given, **more)

    monkeypatch.setattr(Link, "send", swallow)
    items = rows_of(lively.frame.head(600), tmp_path / "items.ndjson")
    streamed(lively.model, items, "-o", tmp_path / "wanted.ndjson")
    expected = decided(tmp_path / "wanted.ndjson")
    server = Server(tmp_path)
    try:
        worker = Hand(lively.model, server.place("?create=yes&partitions=2&lease=20"), "a")
        try:
            wait_until(lambda: worker.partitions == {0, 1}, "a worker")
            send(lively.model, items, server.url("items"), "--close")
            wait_until(lambda: server.count() >= len(expected), "all decisions")
        finally:
            worker.end()
        assert_same(server.decided(), expected)
    finally:
        server.kill()
    assert len(swallowed) == 2
