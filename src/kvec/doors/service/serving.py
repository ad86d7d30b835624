"""`kvec serve`: what was wished for is checked and opened, and served until someone stops it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from kvec.decide.targets import Target
from kvec.doors.messages import say
from kvec.doors.promises import promise_lines
from kvec.doors.service.app import build
from kvec.doors.service.asking import Manner
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.guard import read_tokens
from kvec.doors.service.hub import Hub
from kvec.doors.service.meters import Meters
from kvec.doors.service.model_routes import reload
from kvec.doors.service.protocol import protocol_of, quiet, socket_protocol_of
from kvec.doors.service.replaying import FASTEST, Recording, Replay
from kvec.doors.service.served import Served
from kvec.doors.service.service import Origin, Service, quietly
from kvec.doors.streaming import every
from kvec.doors.succeeding import limits_of
from kvec.doors.summary import counted
from kvec.words.errors import SettingError
from kvec.words.plain import require_choice

MOST_NAME = 64  # characters of a model's name
GRACE = 10  # seconds that answers under way are given at the end
SWITCH = 0.001  # seconds after which a busy thread lets the other one work
# Items are many small objects without circles, so looking for these seldom finds any, and halts everything for a tenth
# of a second. Circles that do come, with connections, are found when so many objects are there more than before.
COLLECT = (500_000, 20, 100)
SPARE_FILES = 128  # beside connections


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line."""

    models: Sequence[str]
    host: str = "127.0.0.1"
    port: int = 8765
    state: Path | None = None
    every: str = "30s"
    token_file: Path | None = None
    target: Target | None = None
    deadline: float = 600.0
    event_time: str = "items"  # or wall
    replay: Path | None = None
    speed: float = 1.0
    loop: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    limits: Mapping[str, Any] = field(default_factory=dict)  # of the streams, those that were given
    on_start: Callable[[str], None] | None = None  # hears the address


def serve(wishes: Wishes) -> int:
    """Serve until someone stops it; the exit code."""
    origins = _origins(wishes)
    is_local = _is_local(wishes.host)
    if not is_local and wishes.token_file is None:
        raise SettingError(
            f"--host {wishes.host} lets other machines ask; name a file of tokens with --token-file, or leave it out"
        )
    tokens = frozenset[bytes]() if wishes.token_file is None else read_tokens(wishes.token_file)
    require_choice(wishes.event_time, ("items", "wall"), "--event-time")
    n_rows, seconds = every(wishes.every)
    if n_rows is not None or seconds is None:
        raise SettingError(f"--every is {wishes.every!r}; write a time, as in 30s")
    if wishes.replay is not None and wishes.state is not None:
        raise SettingError("--replay shows a recorded table, and keeps nothing; leave out --state")
    if not 0 < wishes.speed <= FASTEST:
        raise SettingError(f"--speed is {wishes.speed:g}; it must be above 0 and at most {FASTEST:g}")
    limits_of(wishes.limits)
    manner = Manner(
        wishes.bounds, dict(wishes.limits), wishes.event_time == "wall", seconds, require_deadline(wishes.deadline)
    )
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(contextlib.closing(_listening(wishes.host, wishes.port)))
        meters = Meters()
        served = {
            name: Served(name, origin.read(), manner, None if wishes.state is None else wishes.state / name, meters)
            for name, origin in origins.items()
        }
        hub = Hub(served, wishes.bounds)
        names = frozenset({"localhost", "127.0.0.1", "[::1]", wishes.host}) if is_local and not tokens else frozenset()
        service = Service(hub, wishes.bounds, meters, origins, tokens, _replay(wishes, hub), names)
        meters.read(hub.facts, lambda: hub.n_waiting)
        for name, one in served.items():
            for line in promise_lines(one.stream.model, one.stream.threshold):
                say(f"{name}: {line}")
        if wishes.state is None and wishes.replay is None:
            say("no --state is kept: after a crash or a stop, what was not decided is lost")
        _run(service, listening, wishes)
    return 0


def _run(service: Service, listening: socket.socket, wishes: Wishes) -> None:
    _allow_files(wishes.bounds.max_connections)
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    config = uvicorn.Config(
        build(service), http=protocol_of(wishes.bounds), ws=socket_protocol_of(service), loop="auto",
        log_config=quiet(), ws_per_message_deflate=False,  # what unfolds to more than came cannot be counted
        access_log=False, server_header=False, timeout_keep_alive=75, timeout_graceful_shutdown=GRACE,
        ws_max_size=wishes.bounds.max_body, lifespan="on", backlog=1024,
    )  # fmt: skip
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def tell() -> None:
        say(f"serving {', '.join(service.hub.served)} at {address}")
        if service.replay is not None:
            service.replay.start()
        if wishes.on_start is not None:
            wishes.on_start(address)

    service.hub.start()
    try:
        _Server(config, service, wishes, tell).run(sockets=[listening])
    finally:
        if service.replay is not None:
            service.replay.stop()
        service.hub.stop()
    say("stopped" + (f"; the state is kept in {wishes.state}" if wishes.state is not None else ""))


class _Server(uvicorn.Server):
    """The server, which ends with 0 when it is asked to stop, and reads models again on SIGHUP."""

    def __init__(
        self, config: uvicorn.Config, service: Service, wishes: Wishes, when_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._service, self._wishes, self._when_ready = service, wishes, when_ready
        self._reloading: asyncio.Task[None] | None = None
        self._is_wished = False  # that all be read again: also by who asked while it was being done

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let those who wait for more go, and stop."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # else they would be raised again at the end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, hear signals, and only then say so."""
        await super().startup(sockets)
        if hasattr(signal, "SIGHUP"):  # not by the loop, which is gone while the last snapshot is written
            loop = asyncio.get_running_loop()
            signal.signal(signal.SIGHUP, lambda *_: quietly(loop, self._reload))
        if self.started:
            self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let those who wait go, and finish what is under way."""
        self._service.stop()
        await super().shutdown(sockets)

    def _reload(self) -> None:
        self._is_wished = True
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._reload_all())

    async def _reload_all(self) -> None:
        """Read tokens and models again, as often as it is wished."""
        while self._is_wished:
            self._is_wished = False
            await self._read_again()

    async def _read_again(self) -> None:
        """Read tokens and models again; one that cannot be read does not hold up the others."""
        if self._wishes.token_file is not None:
            try:
                self._service.let_in(read_tokens(self._wishes.token_file))
                say(f"read again: {counted(len(self._service.tokens), 'token')}")
            except Exception as error:
                say(f"tokens stay as they were: {error}")
        for served in self._service.hub.served.values():
            try:
                await reload(self._service, served)
            except Exception:
                continue  # it has said why


# -- what was wished for ------------------------------------------------------------------------------------------


def _origins(wishes: Wishes) -> dict[str, Origin]:
    """The models by name; one that is not named is called default."""
    found: dict[str, Origin] = {}
    for given in wishes.models:
        name, equals, path = given.partition("=")
        if not equals:
            name, path = "default", given
        is_plain = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
        if not is_plain or len(name) > MOST_NAME:
            raise SettingError(f"{given!r}: a model's name has letters, digits, - and _, at most {MOST_NAME}")
        if name in found:
            hint = "; name each: fast=DIR sure=DIR" if name == "default" else ""
            raise SettingError(f"two models are called {name}{hint}")
        found[name] = Origin(Path(path), wishes.target or None)
    return found


def require_deadline(seconds: float) -> float:
    """Refuse a deadline that is none."""
    if not seconds >= 0:
        raise SettingError(f"--deadline is {seconds:g}; it must be at least 0 seconds")
    return seconds


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise SettingError(f"--port is {port}; ports are 0 (any that is free) to 65535")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise SettingError(f"cannot listen at {host}:{port}: {why}; choose another --port, or 0 for any") from None


def _replay(wishes: Wishes, hub: Hub) -> Replay | None:
    if wishes.replay is None:
        return None
    from kvec.doors.sources import read_by_schema

    served = hub.find(None)
    table = read_by_schema(wishes.replay, served.version.base.schema)
    return Replay(Recording(table.frame, str(wishes.replay)), served, hub, wishes.speed, wishes.loop)


def _allow_files(connections: int) -> None:
    """Let the process have as many connections as it may take."""
    if os.name == "posix":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = connections + SPARE_FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            if most < wanted:
                say(f"only {most:,} files may be open here, so fewer than {connections:,} connections are possible")
