"""Connections to a TCP or Unix socket as a source of rows, which come once.

A connection that only sends is never answered. A sender that wants each line to count exactly once, even if either side
dies, begins with the line `{"kvec.sender": "its name"}`, and waits for the answer `{"taken": n}`: n counts the lines of
that name that are in safe hands, over all its connections, and the sender goes on with line n + 1. It is told again
whenever n has grown; after a broken connection it begins anew, and sends again what was not taken.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvec.read.arriving_forms import JsonLines
from kvec.read.arriving_lines import MOST_BYTES, Piece, Splitter
from kvec.read.arriving_sources import Arrived, Source
from kvec.words.errors import SettingError

BLOCK = 1 << 16  # bytes that are read at once
MOST_WAITING = 4096  # lines of a connection that may wait
HELLO = "kvec.sender"
MOST_SENDERS = 10_000
MOST_CONNECTIONS = 1000
MOST_NAME = 200  # characters of a sender's name


@dataclass(eq=False)
class Connection:
    """One connection: its lines that wait, and what it has been told."""

    socket: socket.socket
    splitter: Splitter
    peer: str  # its sender, else its address
    sender: str = ""
    is_greeted: bool = False  # its first line has been looked at
    is_asking: bool = False  # how much of its sender's lines was taken; nothing more is read before it knows
    is_over: bool = False  # it sends no more
    lines: deque[Piece] = field(default_factory=deque)
    n_lines: int = 0  # lines handed on; of a named sender, over all its connections
    n_open: int = 0  # lines handed on and not yet taken
    n_told: int = 0  # how many lines of its sender are taken, as it knows
    out: bytes = b""


class Listener(Source):
    """The lines that connections send, as JSON, in the order in which they come."""

    kind = "socket"
    is_live = True
    is_replayable = False

    def __init__(self, address: tuple[str, int] | Path, most_bytes: int = MOST_BYTES) -> None:
        name = f"unix://{address}" if isinstance(address, Path) else f"tcp://{address[0]}:{address[1]}"
        super().__init__(name, JsonLines())
        self._address, self._most_bytes = address, most_bytes
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, Connection] = {}
        self._senders: dict[str, int] = {}  # lines taken of each
        self._line = self._taken = 0
        self._handed: dict[int, Connection] = {}  # by the number of a line: whose it is

    def start(self, position: Mapping[str, Any]) -> None:
        """Listen."""
        self._line = self._taken = position.get("line", 0)
        self._senders = dict(position.get("senders", {}))
        try:
            self._server = _unix(self._address) if isinstance(self._address, Path) else _tcp(self._address)
        except OSError as error:
            raise SettingError(f"{self.name}: cannot listen here: {error.strerror or error}") from None
        self._server.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ)
        if not isinstance(self._address, Path):
            self.name = f"tcp://{self._address[0]}:{self._server.getsockname()[1]}"

    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        """The lines that are there."""
        found = self._gathered(most)
        for key, mask in self._selector.select(0 if found else seconds):
            if key.fileobj is self._server:
                self._accept()
                continue
            connection: Connection = key.data
            if connection.socket not in self._connections:
                continue
            if mask & selectors.EVENT_WRITE:
                self._send(connection)
            if mask & selectors.EVENT_READ and not connection.is_asking and len(connection.lines) < MOST_WAITING:
                self._receive(connection)
        found += self._gathered(most - len(found))
        self._tell()
        return found

    def take(self, arrived: Sequence[Arrived]) -> None:
        """Count the lines, and tell those who sent them."""
        for one in arrived:
            if one.origin:
                self._senders[one.origin] = self._senders.get(one.origin, 0) + 1
            connection = self._handed.pop(one.number, None)
            if connection is not None:
                connection.n_open -= 1
        if arrived:
            self._taken = arrived[-1].number
            self._line = max(self._line, self._taken)
        self._tell()

    def position(self) -> dict[str, Any]:
        """How many lines were taken, in all and of each sender."""
        return {"line": self._taken, "senders": self._senders}

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._selector.close()
        self._server.close()
        if isinstance(self._address, Path):
            self._address.unlink(missing_ok=True)

    # -- connections --------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            accepted, address = self._server.accept()
        except OSError:
            return
        if len(self._connections) >= MOST_CONNECTIONS:
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection = Connection(accepted, Splitter(self._most_bytes), _peer(accepted, address))
        self._connections[accepted] = connection
        self._watch(connection)

    def _receive(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(BLOCK)
            if data:
                connection.lines += connection.splitter.feed(data)
            elif not connection.sender:  # a named one sends its last line again, and whole
                connection.lines += connection.splitter.finish()
            connection.is_over = not data
        except BlockingIOError:
            return
        except OSError:
            connection.is_over = True  # torn; what has come whole counts
        self._watch(connection)
        if connection.lines and not connection.is_greeted:
            self._greet(connection)

    def _greet(self, connection: Connection) -> None:
        """Look at a connection's first line: it may tell who sends."""
        connection.is_greeted = True
        hello = _hello(connection.lines[0].content)
        if hello is None:
            return
        name, problem = hello
        if not problem and name not in self._senders and len(self._senders) >= MOST_SENDERS:
            problem = f"there are {MOST_SENDERS:,} senders already"
        if problem:
            self._refuse(connection, problem)
            return
        connection.lines.popleft()
        for other in list(self._connections.values()):
            if other.sender == name:
                self._drop(other)  # what it sent and was not taken comes again
        connection.sender, connection.is_asking = name, True
        connection.peer = f"sender {name}"

    def _refuse(self, connection: Connection, problem: str) -> None:
        """Tell a sender why it is not heard, and hang up; its first line is handed on as one that cannot be used."""
        first = connection.lines[0]._replace(problem=f"{problem}; the connection is closed")
        connection.lines, connection.is_over = deque([first]), True
        connection.out = json.dumps({"error": problem}).encode() + b"\n"
        self._send(connection)

    def _gathered(self, most: int) -> list[Arrived]:
        """Lines of all connections; the next time another one is first."""
        found: list[Arrived] = []
        for connection in list(self._connections.values()):
            if not connection.lines or connection.is_asking or len(found) == most:
                continue
            while connection.lines and len(found) < most:
                piece = connection.lines.popleft()
                self._line += 1
                self._handed[self._line] = connection
                connection.n_open += 1
                connection.n_lines += 1
                found.append(Arrived(
                    self._line, piece.content, 0, connection.sender, piece.problem, connection.peer, connection.n_lines
                ))  # fmt: skip
            self._connections[connection.socket] = self._connections.pop(connection.socket)
        return found

    def _tell(self) -> None:
        """Tell senders how many of their lines are in safe hands, where that is news."""
        for connection in list(self._connections.values()):
            n_taken = self._senders.get(connection.sender, 0)
            is_news = not self._handed if connection.is_asking else n_taken != connection.n_told
            if connection.sender and not connection.out and is_news:
                connection.out = json.dumps({"taken": n_taken}).encode() + b"\n"
                if connection.is_asking:
                    connection.n_lines = n_taken
                connection.n_told, connection.is_asking = n_taken, False
                self._send(connection)
            if connection.is_over and not (connection.lines or connection.n_open or connection.out):
                self._drop(connection)

    def _send(self, connection: Connection) -> None:
        try:
            connection.out = connection.out[connection.socket.send(connection.out) :]
        except BlockingIOError:
            pass
        except OSError:
            connection.out, connection.is_over = b"", True  # nobody listens there; its lines are taken all the same
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Wait for what the connection may do next."""
        wanted = (0 if connection.is_over else selectors.EVENT_READ) | (selectors.EVENT_WRITE if connection.out else 0)
        is_watched = connection.socket in self._selector.get_map()
        if is_watched and wanted:
            self._selector.modify(connection.socket, wanted, connection)
        elif is_watched:
            self._selector.unregister(connection.socket)
        elif wanted:
            self._selector.register(connection.socket, wanted, connection)

    def _drop(self, connection: Connection) -> None:
        if connection.socket not in self._connections:
            return
        connection.is_over, connection.out = True, b""
        self._watch(connection)
        del self._connections[connection.socket]
        connection.socket.close()


def _hello(line: bytes) -> tuple[str, str] | None:
    """The name that a first line tells, and what is wrong with it; None where it is a row."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or HELLO not in found:
        return None
    name = found[HELLO]
    if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME or not name.isprintable():
        return "", f"{HELLO} must be text of 1 to {MOST_NAME} printable characters"
    return name, "" if len(found) == 1 else f"{HELLO} must be alone in its line; rows come behind it"


def _peer(connection: socket.socket, address: Any) -> str:
    """Who is at the other end: an address, or the process where there is none."""
    if isinstance(address, tuple):
        return f"{address[0]}:{address[1]}"
    if sys.platform == "linux":
        return f"process {struct.unpack('3i', connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]}"
    return "a process"


def _tcp(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family, backlog=128)


def _unix(path: Path) -> socket.socket:
    """Listen under a path, for this user only; the socket of a process that is gone makes way."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if path.is_socket():
        try:
            server.connect(str(path))
        except OSError:
            path.unlink()
        else:
            server.close()
            raise OSError("another process listens there")
        server.close()
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    elif path.exists():
        server.close()
        raise OSError("there is a file of this name; name another path, or remove it")
    before = os.umask(0o177)
    try:
        server.bind(str(path))
        server.listen(128)
    except OSError:
        server.close()
        raise
    finally:
        os.umask(before)
    return server
