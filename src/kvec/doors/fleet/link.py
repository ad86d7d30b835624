"""A connection to NATS that is used until it breaks: whoever loses it begins anew, as after a crash.

The client could reconnect by itself, but then a message might be lost in between and a later one not. So it does not:
what was sent over one connection arrived up to some message, and nothing behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, TypeVar

from kvec.doors.fleet.places import Place
from kvec.words.errors import DataError
from kvec.words.extras import need

T = TypeVar("T")
PATIENCE = 20.0  # seconds that a server is given to answer
CONNECT = 5.0  # seconds for a connection
OLDEST = (2, 11)  # of the server: from here on it checks a fence on another subject
WRONG_LAST = (10071, 10164)  # codes of the server: the last message of a subject is not the one that was expected
SHARE = 8  # an item may have this part of a message at the most: what is said of it must fit into one too
MSG_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_OF = "Nats-Expected-Last-Subject-Sequence-Subject"


class LinkLost(Exception):
    """The connection is gone, or the server does not do its part; all work on it is void."""


class Refused(Exception):
    """The server has refused a message since another one was faster."""


class Link:
    """A connection with JetStream on it."""

    def __init__(self, client: Any, modules: tuple[Any, ...]) -> None:
        self._client = client
        self._errors, self.js_errors, self.api = modules
        self.js = client.jetstream(timeout=PATIENCE)
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.most_bytes = int(client.max_payload) // SHARE

    @classmethod
    async def open(cls, place: Place, name: str) -> Link:
        """Connect; a server that cannot be used is refused in one line."""
        nats = need("nats", "nats:// needs", "nats")
        modules = tuple(need(f"nats.{part}", "nats:// needs", "nats") for part in ("errors", "js.errors", "js.api"))
        causes: list[str] = []
        links: list[Link] = []

        async def note(error: Exception) -> None:
            causes.append(_cause(error))

        async def closed() -> None:
            for link in links:
                link.lose(causes[-1] if causes else "the connection was closed")

        try:
            client = await nats.connect(
                list(place.servers), name=name, allow_reconnect=False, max_reconnect_attempts=1,
                reconnect_time_wait=0.1, connect_timeout=CONNECT, error_cb=note, closed_cb=closed,
                ping_interval=10, max_outstanding_pings=3, **place.options(),
            )  # fmt: skip
        except (TimeoutError, modules[0].Error, OSError) as error:
            why = causes[0] if causes else _cause(error)
            way = "does it want creds=FILE, login=FILE or token=FILE?" if "uthoriz" in why else (
                "is it running, and is the address right?"
            )  # fmt: skip
            raise DataError(f"{place.name}: no way to the server ({why}); {way}") from None
        version = client.connected_server_version
        if (version.major, version.minor) < OLDEST:
            await client.close()
            raise DataError(
                f"{place.name}: the server is nats-server {version.major}.{version.minor}; a fleet needs "
                f"{OLDEST[0]}.{OLDEST[1]} or later"
            )
        links.append(cls(client, modules))
        return links[0]

    def lose(self, why: str) -> None:
        """Note that the connection is gone."""
        if not self.lost.done():
            self.lost.set_result(why)

    async def ask(self, question: Coroutine[Any, Any, T], patience: float | None = PATIENCE) -> T:
        """What the server answers; if it does not in time, or the connection breaks, the link is lost."""
        task = asyncio.ensure_future(question)
        try:
            await asyncio.wait((task, self.lost), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        except (TimeoutError, self._errors.Error, OSError) as error:
            if isinstance(error, self.js_errors.APIError | self.js_errors.Error):
                raise
            raise LinkLost(_cause(error)) from None
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        raise LinkLost(self.lost.result() if self.lost.done() else f"no answer within {PATIENCE:g} seconds")

    async def send(
        self, subject: str, content: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:  # fmt: skip
        """Send a message that nobody confirms; it waits only where the connection is full."""
        try:
            await self._client.publish(subject, content, reply=reply, headers=headers)
        except (self._errors.Error, OSError) as error:
            raise LinkLost(_cause(error)) from None

    async def publish(self, subject: str, content: bytes, headers: Mapping[str, str]) -> int:
        """Add a message to its stream; its number there. Another one that was faster is a refusal."""
        try:
            return int((await self.ask(self.js.publish(subject, content, headers=dict(headers)))).seq)
        except self.js_errors.APIError as error:
            if error.err_code in WRONG_LAST:
                raise Refused(error.description) from None
            raise

    async def subscribe(self, subject: str, hear: Callable[[Any], Awaitable[None]]) -> Any:
        """Hear what comes on a subject."""
        return await self.ask(self._client.subscribe(subject, cb=hear))

    async def moment(self, stream: str) -> float:
        """What time it is for the server that has a stream; this host's clock may say something else."""
        answer = await self.ask(self._client.request(f"$JS.API.STREAM.INFO.{stream}", timeout=PATIENCE))
        told = json.loads(answer.data).get("ts")
        if told is None:
            raise LinkLost(f"the server does not say what time it is in stream {stream!r}")
        return datetime.fromisoformat(told).timestamp()

    def inbox(self) -> str:
        """A subject of one's own."""
        return str(self._client.new_inbox())

    async def flush(self) -> None:
        """Wait until the server has all that was sent."""
        await self.ask(self._client.flush(timeout=int(PATIENCE)))

    async def close(self) -> None:
        """Let go."""
        try:
            await asyncio.wait_for(self._client.close(), CONNECT)
        except (TimeoutError, self._errors.Error, OSError):
            return  # it is gone anyway


class Post:
    """Sends many messages without waiting for each; the server confirms all of them, or says which it refuses."""

    def __init__(self, link: Link, last: int = 0) -> None:
        self._link = link
        self._inbox = ""
        self._subscription: Any = None
        self._sent = 0
        self._waiting: dict[str, int] = {}  # by the end of its inbox: the number of a message; refused ones stay
        self._change = asyncio.Event()
        self.problem: Exception | None = None
        self.last = last  # the highest place in the stream that was told
        self.n_again = 0  # messages whose id the stream knew already

    async def open(self) -> None:
        """Begin."""
        self._inbox = self._link.inbox()
        self._subscription = await self._link.subscribe(f"{self._inbox}.*", self._hear)

    async def close(self) -> None:
        """End; nothing more is heard."""
        if self._subscription is not None:
            await self._link.ask(self._subscription.unsubscribe())

    @property
    def n_waiting(self) -> int:
        """Messages that are not confirmed yet."""
        return len(self._waiting)

    @property
    def first_waiting(self) -> int:
        """The number of the first of them, from 0 on; of the next message where there is none."""
        return next(iter(self._waiting.values()), self._sent)

    async def send(self, subject: str, content: bytes, headers: Mapping[str, str]) -> None:
        """Send a message; earlier problems come up here."""
        if self.problem is not None:
            raise self.problem
        token = str(self._sent)
        self._waiting[token] = self._sent
        self._sent += 1
        await self._link.send(subject, content, f"{self._inbox}.{token}", headers)

    async def settle(self, most: int = 0) -> None:
        """Wait until at most so many are not confirmed."""
        while self.problem is None and len(self._waiting) > most:
            self._change.clear()
            await self._link.ask(self._change.wait())
        if self.problem is not None:
            raise self.problem

    async def _hear(self, message: Any) -> None:
        token = message.subject.rpartition(".")[2]
        if token not in self._waiting:
            return
        self._change.set()
        if not message.data:
            self.problem = self.problem or LinkLost("no stream takes the messages")
            return
        said = json.loads(message.data)
        if "error" in said:
            wrong = said["error"].get("err_code") in WRONG_LAST
            why = str(said["error"].get("description", "refused"))
            self.problem = self.problem or (Refused(why) if wrong else LinkLost(why))
        else:
            del self._waiting[token]
            self.last = max(self.last, said["seq"])
            self.n_again += bool(said.get("duplicate"))


def _cause(error: BaseException) -> str:
    """What went wrong, in a few words."""
    text = str(error).removeprefix("nats: ").strip("'\"")
    return text or type(error).__name__
