"""The items of one partition, in their order: a durable consumer of each owner's own, from where the state stopped.

An owner makes a consumer under a name with its epoch, and takes away those of earlier owners: nobody can pull what is
meant for another, and nothing is delivered again out of order. Acknowledged is what a state holds.

In a cluster a request or an item can be lost between servers while the connection holds. After a silence in which each
request must have ended, they are made anew; where an item is missing, the connection counts as broken.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from kvec.doors.fleet.clock import ServerClock, mark_of
from kvec.doors.fleet.ground import Subjects
from kvec.doors.fleet.leases import LeaseLost
from kvec.doors.fleet.link import Link

BATCH = 2048  # messages that are asked for together
EXPIRES = 10.0  # seconds after which a request for messages ends, and the server says so
GRACE = 5.0  # seconds that its word may take
ACK_WAIT = 24 * 3600.0  # seconds: nothing is delivered again to the same owner
CLOSE = "Kvec-Close"  # the header of a message that says: decide what is open


class Message(NamedTuple):
    """One item as it came."""

    number: int  # its place in the stream
    content: bytes
    is_close: bool
    reply: str
    wall: float  # when the server took it


class Intake:
    """Pulls the items of a partition."""

    def __init__(self, link: Link, subjects: Subjects, number: int, group: str, epoch: int) -> None:
        self._link, self._stream, self._subject = link, subjects.source, subjects.items(number)
        self._stem, self._name = f"{group}-{number}-", f"{group}-{number}-{epoch}"
        self._number = number
        self._inbox = ""
        self._last = 0  # the place in the stream of the newest one
        self._delivery = 0  # its number among all that the consumer has delivered
        self._asked = 0  # messages that were asked for, and have not come yet
        self._heard = 0.0  # when something came, or was asked for
        self._waiting: deque[Message] = deque()
        self._behind = 0  # messages that the server had behind the newest one
        self._clock = ServerClock()
        self._subscription: Any = None
        self._is_gone = False
        self._wake: Callable[[], None] = lambda: None

    async def open(self, position: int, wake: Callable[[], None]) -> None:
        """Begin behind a place in the stream; `wake` is called when something comes."""
        link, api, js = self._link, self._link.api, self._link.js
        self._wake = wake
        for name in await self._earlier():
            with suppress(link.js_errors.NotFoundError):
                await link.ask(js.delete_consumer(self._stream, name))
        made = await link.ask(js.add_consumer(self._stream, api.ConsumerConfig(
            durable_name=self._name, filter_subject=self._subject, ack_policy=api.AckPolicy.ALL, ack_wait=ACK_WAIT,
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=position + 1, max_ack_pending=-1,
        )))  # fmt: skip
        self._clock.hear(made.created.timestamp())
        self._behind = made.num_pending or 0
        self._inbox = link.inbox()
        self._subscription = await link.subscribe(self._inbox, self._hear)
        await self.ask_for_more()

    async def ask_for_more(self) -> None:
        """Keep enough messages on their way."""
        if self._is_gone:
            raise LeaseLost(f"the consumer of partition {self._number} is gone")
        if self._asked and time.monotonic() - self._heard > EXPIRES + GRACE:
            self._asked = 0  # no request can last for so long: they were lost on their way
        if self._asked + len(self._waiting) < BATCH // 2:
            self._asked += BATCH
            self._heard = time.monotonic()
            request = json.dumps({"batch": BATCH, "expires": int(EXPIRES * 1e9)}).encode()
            await self._link.send(f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}", request, self._inbox)

    def read(self, most: int) -> list[Message]:
        """What has come, at most so many."""
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def now(self) -> float | None:
        """The server's time where all that it has is read; None where some is not."""
        return None if self._behind or self._waiting else self._clock.now()

    async def acknowledge(self, reply: str) -> None:
        """Say that a state holds all up to a message."""
        await self._link.send(reply, b"+ACK")

    async def close(self) -> None:
        """Pull no more."""
        if self._subscription is not None:
            await self._link.ask(self._subscription.unsubscribe())

    async def _earlier(self) -> list[str]:
        """The consumers of earlier owners; the server names some at a time."""
        names: list[str] = []
        while some := await self._link.ask(self._link.js.consumers_info(self._stream, offset=len(names))):
            names += [consumer.name for consumer in some]
        return [name for name in names if name.startswith(self._stem) and name.removeprefix(self._stem).isdecimal()]

    async def _hear(self, message: Any) -> None:
        self._heard = time.monotonic()
        if not message.reply:  # the server says how a request ended
            headers = message.headers or {}
            is_end = headers.get("Status") in ("409", "503") and "xceeded" not in headers.get("Description", "")
            self._is_gone = self._is_gone or is_end
            self._come(int(headers.get("Nats-Pending-Messages", 0)))
            if headers.get("Status") == "408":  # it has waited for more, and nothing came
                self._behind = 0
        else:
            self._come(1)
            mark = mark_of(message.reply)
            self._clock.hear(mark.moment)
            if mark.delivery > self._delivery + 1:  # nothing behind what is missing may be taken
                self._link.lose(f"items of partition {self._number} were lost on their way")
                return
            self._delivery, self._behind = mark.delivery, mark.behind
            if mark.place > self._last:  # else it comes again
                self._last = mark.place
                is_close = message.headers is not None and CLOSE in message.headers
                self._waiting.append(Message(mark.place, message.data, is_close, message.reply, mark.moment))
        self._wake()

    def _come(self, n: int) -> None:
        """So many are no longer on their way; those of a request that was given up may still come."""
        self._asked = max(self._asked - n, 0)
