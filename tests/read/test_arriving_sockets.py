"""Rows over a socket, and the contract with those who send them."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvec.read import arriving_sockets
from kvec.read.arriving_sockets import Listener
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import SettingError


class Client:
    """The other side of a socket."""

    def __init__(self, listener: Listener) -> None:
        if listener.name.startswith("unix"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(listener.name.removeprefix("unix://"))
        else:
            host, port = listener.name.removeprefix("tcp://").rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)))
        self.socket.settimeout(2)
        self.file = self.socket.makefile("r")

    def send(self, *lines: Any) -> None:
        self.socket.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def hears(self) -> Any:
        return json.loads(self.file.readline())

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture(params=["tcp", "unix"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    made = Listener(("127.0.0.1", 0) if request.param == "tcp" else tmp_path / "kvec.sock")
    made.start({})
    yield made
    made.close()


@pytest.fixture
def connect(listener: Listener) -> Iterator[Callable[[], Client]]:
    clients: list[Client] = []

    def one_more() -> Client:
        clients.append(Client(listener))
        return clients[-1]

    yield one_more
    for client in clients:
        client.close()


def read(listener: Listener, n: int) -> list[Arrived]:
    """Wait for n lines, untaken; for a moment where none are wanted."""
    found: list[Arrived] = []
    until = time.monotonic() + (2 if n else 0.1)
    while len(found) < max(n, 1) and time.monotonic() < until:
        found += listener.read(n - len(found) or 1, 0.02) or []
    assert len(found) == n
    return found


def numbers(arrived: list[Arrived]) -> list[int]:
    return [json.loads(one.content)["n"] for one in arrived]  # type: ignore[arg-type]


def lines(*given: int) -> list[dict[str, int]]:
    return [{"n": n} for n in given]


def test_one_who_only_sends_is_never_answered(listener: Listener, connect: Callable[[], Client]) -> None:
    client = connect()
    client.send(*lines(1, 2, 3))
    arrived = read(listener, 3)
    assert numbers(arrived) == [1, 2, 3] and [one.number for one in arrived] == [1, 2, 3]
    listener.take(arrived)
    assert listener.position() == {"line": 3, "senders": {}}
    client.socket.sendall(b'{"n": 4}\n{"n": 5}')
    client.socket.shutdown(socket.SHUT_WR)
    arrived = read(listener, 2)
    assert numbers(arrived) == [4, 5], "the last line may lack its end"
    listener.take(arrived)
    assert client.file.read() == "", "it was closed when all was taken, without a word"


def test_a_named_sender_is_told_what_was_taken(listener: Listener, connect: Callable[[], Client]) -> None:
    client = connect()
    client.send({"kvec.sender": "edge"})
    read(listener, 0)
    assert client.hears() == {"taken": 0}
    client.send(*lines(1, 2, 3))
    arrived = read(listener, 3)
    listener.take(arrived[:2])
    assert client.hears() == {"taken": 2}
    listener.take(arrived[2:])
    assert client.hears() == {"taken": 3}
    assert listener.position() == {"line": 3, "senders": {"edge": 3}}


def test_a_sender_that_comes_again_goes_on(listener: Listener, connect: Callable[[], Client]) -> None:
    first = connect()
    first.send({"kvec.sender": "edge"})
    read(listener, 0)
    first.send(*lines(1, 2, 3))
    arrived = read(listener, 2)
    second = connect()
    second.send({"kvec.sender": "edge"})
    for _ in range(5):
        arrived += listener.read(0, 0.02) or []
    second.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        second.hears()
    second.socket.settimeout(2)
    second.file = second.socket.makefile("r")
    listener.take(arrived)
    assert second.hears() == {"taken": 2}, "line 3 was not handed on; it comes again"
    second.send(*lines(3, 4))
    arrived = read(listener, 2)
    assert numbers(arrived) == [3, 4]
    listener.take(arrived)
    assert second.hears() == {"taken": 4}
    first.file.close()
    first.file = first.socket.makefile("r")
    assert first.file.read().count("taken") == 1, "the old connection was closed"


def test_a_torn_line_of_a_named_sender_does_not_count(listener: Listener, connect: Callable[[], Client]) -> None:
    client = connect()
    client.send({"kvec.sender": "edge"})
    read(listener, 0)
    client.socket.sendall(b'{"n": 1}\n{"n":')
    client.socket.shutdown(socket.SHUT_WR)
    arrived = read(listener, 1)
    listener.take(arrived)
    read(listener, 0)
    assert listener.position()["senders"] == {"edge": 1}


def test_a_line_can_be_traced(listener: Listener, connect: Callable[[], Client]) -> None:
    client = connect()
    is_tcp = listener.name.startswith("tcp")
    peer = f"127.0.0.1:{client.socket.getsockname()[1]}" if is_tcp else f"process {os.getpid()}"
    client.send(*lines(1))
    listener.take(read(listener, 1))
    client.send(*lines(2))
    (one,) = read(listener, 1)
    assert listener.place(one) == f"{listener.name}, {peer}, line 2"
    listener.take([one])
    for first in (1, 3):  # a sender's lines are counted over all its connections
        named = connect()
        named.send({"kvec.sender": "edge"})
        read(listener, 0)
        named.hears()
        named.send(*lines(first, first + 1))
        arrived = read(listener, 2)
        assert [listener.place(one) for one in arrived] == [
            f"{listener.name}, sender edge, line {first + n}" for n in (0, 1)
        ]
        listener.take(arrived)


def test_counts_are_gone_on_with(tmp_path: Path) -> None:
    listener = Listener(tmp_path / "kvec.sock")
    listener.start({"line": 7, "senders": {"edge": 5}})
    listener.take([Arrived(8, b"{}", origin="edge"), Arrived(9, b"{}")])  # from a journal
    client = Client(listener)
    client.send({"kvec.sender": "edge"})
    read(listener, 0)
    assert client.hears() == {"taken": 6}
    client.send(*lines(7))
    (one,) = read(listener, 1)
    assert (one.number, one.origin) == (10, "edge")
    assert listener.position() == {"line": 9, "senders": {"edge": 6}}
    client.close()
    listener.close()


def test_connections_take_turns(listener: Listener, connect: Callable[[], Client]) -> None:
    busy, other = connect(), connect()
    busy.send(*lines(*range(100)))
    read(listener, 1)
    other.send(*lines(1000))
    seen = [n for _ in range(4) for n in numbers(read(listener, 10))]
    assert 1000 in seen


def test_one_whose_connection_breaks_is_forgotten(listener: Listener, connect: Callable[[], Client]) -> None:
    client = connect()
    client.send({"kvec.sender": "edge"}, *lines(1))
    arrived = read(listener, 1)
    listener.take(arrived)
    client.send(*lines(2))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.close()
    for _ in range(5):
        listener.take(listener.read(10, 0.02) or [])
    assert listener._connections == {}


def test_senders_are_bounded(
    listener: Listener, connect: Callable[[], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving_sockets, "MOST_SENDERS", 0)
    client = connect()
    client.send({"kvec.sender": "edge"})
    (bad,) = read(listener, 1)
    assert bad.problem == "there are 0 senders already; the connection is closed"
    assert client.hears() == {"error": "there are 0 senders already"}
    monkeypatch.setattr(arriving_sockets, "MOST_CONNECTIONS", 0)
    other = connect()
    read(listener, 0)
    assert other.file.read() == ""


@pytest.mark.parametrize(
    ("hello", "problem"),
    [
        ({"kvec.sender": ""}, "kvec.sender must be text of 1 to 200 printable characters"),
        ({"kvec.sender": 7}, "kvec.sender must be text of 1 to 200 printable characters"),
        ({"kvec.sender": "x" * 201}, "kvec.sender must be text of 1 to 200 printable characters"),
        ({"kvec.sender": "edge\ud800"}, "kvec.sender must be text of 1 to 200 printable characters"),
        ({"kvec.sender": "edge", "n": 1}, "kvec.sender must be alone in its line; rows come behind it"),
    ],
)
def test_a_bad_name_is_answered_and_told(
    listener: Listener, connect: Callable[[], Client], hello: dict[str, Any], problem: str
) -> None:
    client, other = connect(), connect()
    client.send(hello, *lines(1, 2))
    other.send(*lines(3))
    arrived = read(listener, 2)
    (bad,) = (one for one in arrived if one.problem)
    assert bad.problem == f"{problem}; the connection is closed"
    assert bad.content == json.dumps(hello).encode() and bad.origin == ""
    assert numbers([one for one in arrived if not one.problem]) == [3], "others are heard, its rows are not"
    assert client.hears() == {"error": problem}
    listener.take(arrived)
    assert client.file.read() == "", "it is hung up on"
    assert listener.position() == {"line": 2, "senders": {}}
    other.send(*lines(4))
    assert numbers(read(listener, 1)) == [4]


def test_places_that_are_taken_are_refused(tmp_path: Path) -> None:
    first = Listener(tmp_path / "kvec.sock")
    first.start({})
    assert stat.S_IMODE((tmp_path / "kvec.sock").stat().st_mode) == 0o600
    with pytest.raises(SettingError, match="another process listens there"):
        Listener(tmp_path / "kvec.sock").start({})
    first.close()
    assert not (tmp_path / "kvec.sock").exists()
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "kvec.sock"))
    left.close()  # as a process does that was killed
    second = Listener(tmp_path / "kvec.sock")
    second.start({})
    second.close()
    (tmp_path / "kvec.sock").write_text("a file")
    with pytest.raises(SettingError, match="cannot listen here: there is a file of this name; name another path, or"):
        Listener(tmp_path / "kvec.sock").start({})
    with pytest.raises(SettingError, match=r"tcp://192\.0\.2\.1:1: cannot listen here"):
        Listener(("192.0.2.1", 1)).start({})
