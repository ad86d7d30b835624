"""The one thread that owns all streams, and the bounded queue in front of it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from kvec.doors.service.asking import Ask
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.problems import RETRY, Refusal, busy
from kvec.doors.service.served import Served

TICK = 1.0  # seconds
MOST_ASKS, MOST_BYTES = 256, 256 << 10  # requests that are taken together
BYTES_WAITING = 4  # bodies of the largest size that may wait
MOST_CALLS = 256  # other wishes that may wait

T = TypeVar("T")


class Hub:
    """Takes requests from any thread, and lets one thread do them in their order."""

    def __init__(self, served: Mapping[str, Served], bounds: Bounds) -> None:
        self.served = dict(served)
        self._bounds = bounds
        self._most_bytes = max(BYTES_WAITING * bounds.max_body, 16 << 20)
        self._queue: deque[tuple[Served, Ask] | Callable[[], None]] = deque()
        self._bytes = self._n_calls = 0
        self._some = threading.Condition()
        self._is_stopping = False
        self.is_ready = False
        self.on_news: Callable[[str], None] = lambda name: None  # called in the thread when a model has new decisions
        self._told = {name: one.log.newest for name, one in self.served.items()}
        self._thread = threading.Thread(target=self._run, name="kvec-streams")

    @property
    def failures(self) -> dict[str, str]:
        """By model, why nothing more is taken."""
        return {name: one.health.failure for name, one in self.served.items() if one.health.failure}

    @property
    def n_waiting(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    def facts(self) -> dict[str, dict[str, Any]]:
        """What gauges tell of each model."""
        return {name: served.facts() for name, served in self.served.items()}

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()
        self.is_ready = True

    def stop(self) -> None:
        """Finish what waits, save, and end; nothing more is taken."""
        with self._some:
            self._is_stopping, self.is_ready = True, False
            self._some.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def find(self, name: str | None) -> Served:
        """A model by its name; without one, the first."""
        if name is None:
            return next(iter(self.served.values()))
        if name not in self.served:
            raise Refusal(
                404, f"there is no model {name[:80]!r} here; there are {', '.join(self.served)}", field="model"
            )
        return self.served[name]

    def submit(self, served: Served, ask: Ask) -> None:
        """Let rows wait to be taken; where too much waits already, they are refused."""
        served.health.require()
        ask.came = time.monotonic()
        with self._some:
            if self._is_stopping:
                raise Refusal(503, "the service is stopping", {"Retry-After": RETRY})
            if len(self._queue) >= self._bounds.max_queue or self._bytes + len(ask.body) > self._most_bytes:
                raise busy()
            self._queue.append((served, ask))
            self._bytes += len(ask.body)
            self._some.notify()

    def call(self, wish: Callable[[], T], n_bytes: int = 0) -> Future[T | Refusal]:
        """Let something that holds so many bytes be done by the thread that owns the streams, when its turn comes."""
        found: Future[T | Refusal] = Future()

        def do() -> None:
            with self._some:
                self._bytes -= n_bytes
            if not found.set_running_or_notify_cancel():
                return
            try:
                found.set_result(wish())
            except Refusal as refusal:
                found.set_result(refusal.anew())
            except BaseException as error:
                found.set_exception(error)

        with self._some:
            if self._is_stopping:
                raise Refusal(503, "the service is stopping", {"Retry-After": RETRY})
            if self._n_calls >= MOST_CALLS or (n_bytes and self._bytes + n_bytes > self._most_bytes):
                raise busy()
            self._n_calls += 1
            self._bytes += n_bytes
            self._queue.append(do)
            self._some.notify()
        return found

    # -- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        ticked = time.monotonic()
        while True:
            with self._some:
                while not (self._queue or self._is_stopping):
                    left = ticked + TICK - time.monotonic()
                    if left <= 0:
                        break
                    self._some.wait(left)
                if self._is_stopping and not self._queue:
                    break
                calls, asks = self._next()
            for served, some in asks.items():
                self._take(served, some)
            for do in calls:
                do()
                self._tell()
            if time.monotonic() - ticked >= TICK:
                ticked = time.monotonic()
                self._tick()
        for served in self.served.values():
            with suppress(Refusal):  # it has said why
                served.close()

    def _next(self) -> tuple[list[Callable[[], None]], dict[Served, list[Ask]]]:
        """What is done next: requests that wait, up to the next call; or calls, up to the next request."""
        calls: list[Callable[[], None]] = []
        asks: dict[Served, list[Ask]] = {}
        n = n_bytes = 0
        while self._queue and n < MOST_ASKS and n_bytes < MOST_BYTES:
            first = self._queue[0]
            if callable(first):
                if asks:
                    break
                calls.append(first)
                self._n_calls -= 1
            else:
                if calls:
                    break
                served, ask = first
                asks.setdefault(served, []).append(ask)
                n, n_bytes = n + 1, n_bytes + len(ask.body)
                self._bytes -= len(ask.body)
            self._queue.popleft()
        return calls, asks

    def _take(self, served: Served, asks: list[Ask]) -> None:
        try:
            served.take(asks)
        except Refusal as refusal:  # it takes nothing more
            for ask in asks:  # those that were answered before hear nothing more
                ask.done(refusal)
        self._tell()

    def _tick(self) -> None:
        for served in self.served.values():
            if not served.health.failure:
                with suppress(Refusal):  # it has said why
                    served.tick()
        self._tell()

    def _tell(self) -> None:
        """Wake those who wait for decisions of a model that has new ones."""
        for name, served in self.served.items():
            if served.log.newest != self._told.get(name, 0):
                self._told[name] = served.log.newest
                self.on_news(name)
