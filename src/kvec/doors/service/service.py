"""What all answers share: the streams, the bounds, who waits for news, and whether it is time to stop."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from starlette.types import Scope

from kvec.decide.looking_back import LookedBack, Recalled
from kvec.decide.targets import Target
from kvec.doors.messages import TOLD, is_told, say
from kvec.doors.service.asking import Ask, Settled
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.hub import Hub
from kvec.doors.service.meters import Meters
from kvec.doors.service.problems import Refusal, busy, unless_refused
from kvec.doors.service.replaying import Replay
from kvec.doors.service.served import Served
from kvec.doors.service.versions import Version

T = TypeVar("T")
BYTES_COMING = 8  # bodies of the largest size that may be coming in at once
LOOKED = 16  # tangles, the newest that were looked at
MOST_LOOKING = 16  # who may wait for looks
TOKEN = "kvec.token"  # entry of a connection's scope: the digest of the token with which it came


@dataclass(frozen=True)
class Origin:
    """Where a model is read from, and where on its trade-off it is to work."""

    path: Path
    target: Target | None = None

    def read(self) -> Version:
        """The model as it is there now."""
        return Version.read(self.path, self.target)


@dataclass
class Service:
    """The streams, as the event loop sees them."""

    hub: Hub
    bounds: Bounds
    meters: Meters
    origins: Mapping[str, Origin]
    tokens: frozenset[bytes] = frozenset()  # digests
    replay: Replay | None = None
    hosts: frozenset[str] = frozenset()  # names under which it may be asked without a token; empty: any
    n_coming: int = 0  # bytes of bodies and messages that are not whole yet
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _n_looking: int = 0
    _looked: OrderedDict[tuple[str, str | int], tuple[Any, LookedBack]] = field(default_factory=OrderedDict)
    _refused: Counter[tuple[int, str]] = field(default_factory=Counter)
    _news: dict[str, asyncio.Event] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)  # set when fewer connections may go on
    is_stopping: bool = False  # whoever waits for more should go

    def begin(self) -> None:
        """Be woken, in this event loop, by decisions."""
        loop = asyncio.get_running_loop()
        self.hub.on_news = lambda name: quietly(loop, self._wake, name)

    def is_open_to(self, scope: Scope) -> bool:
        """Whether a connection that was let in may go on: not at the end, nor where its token was taken away."""
        token = scope.get(TOKEN)
        return not self.is_stopping and (token is None or token in self.tokens)

    def let_in(self, tokens: frozenset[bytes]) -> None:
        """Know other tokens; who came with one that is not among them must go."""
        self.tokens = tokens
        self._wake_all()

    async def closed(self, scope: Scope) -> None:
        """Wait until a connection that was let in may not go on."""
        while self.is_open_to(scope):
            await self._changed.wait()

    def stop(self) -> None:
        """Let all who wait go."""
        self.is_stopping = True
        self._wake_all()

    def news(self, served: Served) -> asyncio.Event:
        """Set when the model has decisions that were not there before this was asked."""
        return self._news.setdefault(served.name, asyncio.Event())

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Wait for news, or the end; whether there is some."""
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def take(self, served: Served, body: bytes, form: str, key: str = "") -> Settled:
        """Let rows be taken; they are on the disk, where a state is kept, and decided when this returns."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Settled | Refusal] = loop.create_future()

        def done(answer: Settled | Refusal) -> None:
            quietly(loop, _settle, future, answer.anew() if isinstance(answer, Refusal) else answer)

        self.hub.submit(served, Ask(body, form, key, done))
        return unless_refused(await future)

    @property
    def is_full(self) -> bool:
        """Whether more is coming in than may."""
        return self.n_coming > max(BYTES_COMING * self.bounds.max_body, 64 << 20)

    async def call(self, wish: Callable[[], T], n_bytes: int = 0) -> T:
        """Let the thread that owns the streams do something that holds so many bytes."""
        return unless_refused(await asyncio.wrap_future(self.hub.call(wish, n_bytes)))

    async def apart(self, wish: Callable[[], T]) -> T:
        """Do something that takes a while, and touches no stream, in another thread."""
        return await asyncio.to_thread(wish)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look back at a tangle; where many wait to do so, refuse."""
        if self._n_looking >= MOST_LOOKING:
            raise busy("too many wait for looks already; try again soon")
        self._n_looking += 1
        try:
            yield
        finally:
            self._n_looking -= 1

    async def look(self, served: Served, recalled: Recalled) -> LookedBack:
        """Where remembered items looked: one tangle at a time, and once while nothing new comes to it."""
        async with self._looking:
            name = served.name, recalled.tangle.id
            mark, looked = self._looked.get(name, (None, None))
            if looked is None or mark != recalled.mark:
                looked = await self.apart(recalled.looked)
            self._looked[name] = recalled.mark, looked
            self._looked.move_to_end(name)
            if len(self._looked) > LOOKED:
                self._looked.popitem(last=False)
            return looked

    def answered(self, method: str, route: str, status: int, client: str) -> None:
        """Count an answer; refusals are told on the standard error output, without what was sent.

        The route is empty where nothing lies under the path.
        """
        self.meters.answered(route or "none", status)
        if status < 400:
            return
        self._refused[status, route] += 1
        n = self._refused[status, route]
        if is_told(n):
            so_far = f" ({n:,} such answers so far)" if n > TOLD else ""
            say(f"{method[:8]} {route or 'of an unknown path'} answered with {status} to {client}{so_far}")

    def _wake_all(self) -> None:
        """Let all who wait see whether they may go on."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for name in list(self._news):
            self._wake(name)

    def _wake(self, name: str) -> None:
        event = self._news.pop(name, None)
        if event is not None:
            event.set()


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    if not future.done():
        future.set_result(answer)


def quietly(loop: asyncio.AbstractEventLoop, wish: Callable[..., None], *given: Any) -> None:
    """Let an event loop do something soon, if it is still there."""
    try:
        loop.call_soon_threadsafe(wish, *given)
    except RuntimeError:
        if not loop.is_closed():
            raise
