"""Who works on which partition: leases in a key-value bucket, changed only by whoever saw their last change.

A worker beats in an entry of its own. The others watch with their own clocks: one whose entry has not changed for a
lease's time counts as lost. Nobody's clock is compared with another's.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kvec.doors.fleet.link import Link

WORKER, PARTITION, TERMS = "worker.", "partition.", "terms"


@dataclass(frozen=True)
class Lease:
    """What is noted of a partition."""

    owner: str = ""  # empty: free
    epoch: int = 0  # grows with every owner
    state: str = ""  # the name of its newest state; empty: none yet
    position: int = 0  # of the source, as that state has it
    revision: int = 0  # of this note; 0: there is none yet

    @classmethod
    def of(cls, content: bytes, revision: int) -> Lease:
        """Read a note."""
        return cls(**json.loads(content), revision=revision)

    def to_bytes(self) -> bytes:
        """The note."""
        plain = asdict(self)
        del plain["revision"]
        return json.dumps(plain).encode()


class LeaseLost(Exception):
    """Another worker has the partition now."""


class Leases:
    """The bucket, as this worker sees it."""

    def __init__(self, link: Link, bucket: Any, me: str, seconds: float) -> None:
        self._link, self._bucket, self.me, self._seconds = link, bucket, me, seconds
        self._workers: dict[str, float] = {}  # when each of the others was heard last
        self._leases: dict[int, Lease] = {}
        self.terms: dict[str, Any] = {}  # what all workers have agreed upon
        self._terms_at = 0
        self._looked = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Learn what is there, and go on listening and beating."""
        mine = await self._beat()  # the newest note: whoever hears it has heard all that were before
        watcher = await self._link.ask(self._bucket.watchall())
        heard = 0
        while heard < mine:
            entry = await self._link.ask(watcher.updates(timeout=self._seconds + 5))
            if entry is not None:
                self._hear(entry)
                heard = entry.revision
        self._tasks = [asyncio.create_task(self._listen(watcher)), asyncio.create_task(self._go_on_beating())]

    async def close(self, is_left: bool) -> None:
        """Stop; whoever leaves takes its entry away."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if is_left:
            await self._link.ask(self._bucket.purge(WORKER + self.me))

    # -- what is known ------------------------------------------------------------------------------------------

    def live(self) -> set[str]:
        """The workers that were heard within a lease's time, this one among them."""
        now = time.monotonic()
        if now - self._looked > self._seconds / 2:  # asleep itself, it cannot tell who else was
            self._workers = dict.fromkeys(self._workers, now)
        self._looked = now
        since = now - self._seconds
        return {name for name, heard in self._workers.items() if heard >= since} | {self.me}

    def owners(self) -> dict[int, str]:
        """Who is noted for each partition."""
        return {number: lease.owner for number, lease in self._leases.items()}

    def is_mine(self, number: int, epoch: int) -> bool:
        """Whether a lease still is what this worker took."""
        known = self._leases.get(number, Lease())
        return known.epoch < epoch or (known.epoch == epoch and known.owner == self.me)

    # -- changes ------------------------------------------------------------------------------------------------

    async def claim(self, number: int) -> Lease:
        """Take a partition that is free or whose worker is lost; if another one was faster it is lost."""
        seen = self._leases.get(number, Lease())
        return await self.change(number, replace(seen, owner=self.me, epoch=seen.epoch + 1))

    async def give_up(self, number: int) -> None:
        """Let others have a partition that is noted for this worker, but not worked on here."""
        await self.change(number, replace(self._leases[number], owner=""))

    async def change(self, number: int, lease: Lease) -> Lease:
        """Note something, if nobody else has since `lease.revision`."""
        errors = self._link.js_errors
        try:
            revision = await self._link.ask(
                self._bucket.update(f"{PARTITION}{number}", lease.to_bytes(), last=lease.revision)
            )
        except errors.KeyWrongLastSequenceError:
            raise LeaseLost(f"partition {number} belongs to another worker") from None
        self._leases[number] = lease = replace(lease, revision=revision)
        return lease

    async def still(self, number: int, lease: Lease) -> bool:
        """Whether a lease is as it was, by the server's own word."""
        return int((await self._link.ask(self._bucket.get(f"{PARTITION}{number}"))).revision) == lease.revision

    async def agree(self, terms: Mapping[str, Any], is_new: bool = False) -> dict[str, Any]:
        """Note what all workers must agree upon, unless others have; what holds now. New ones replace what was."""
        if self.terms and not is_new:
            return self.terms
        errors = self._link.js_errors
        try:
            await self._link.ask(self._bucket.update(TERMS, json.dumps(terms).encode(), last=self._terms_at))
            self.terms = dict(terms)
        except errors.KeyWrongLastSequenceError:
            self.terms = json.loads((await self._link.ask(self._bucket.get(TERMS))).value)
        return self.terms

    # -- parts --------------------------------------------------------------------------------------------------

    def _hear(self, entry: Any) -> None:
        is_gone = entry.operation is not None
        if entry.key.startswith(WORKER):
            name = entry.key.removeprefix(WORKER)
            if is_gone:
                self._workers.pop(name, None)
            elif name != self.me:
                self._workers[name] = time.monotonic()
        elif entry.key.startswith(PARTITION) and not is_gone:
            number = int(entry.key.removeprefix(PARTITION))
            if entry.revision > self._leases.get(number, Lease()).revision:
                self._leases[number] = Lease.of(entry.value, entry.revision)
        elif entry.key == TERMS and not is_gone:
            self.terms, self._terms_at = json.loads(entry.value), entry.revision

    async def _beat(self) -> int:
        return int(await self._link.ask(self._bucket.put(WORKER + self.me, b"%d" % time.time())))

    async def _go_on_beating(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._seconds / 3)
                await self._beat()
                for name in self._workers.keys() - self.live():  # of those that are lost for long
                    heard = self._workers.get(name, math.inf)  # another one may have cleared it away meanwhile
                    if heard < time.monotonic() - 10 * self._seconds:
                        await self._link.ask(self._bucket.purge(WORKER + name))
        except Exception as error:  # whatever it is, the others no longer hear of this worker
            self._link.lose(str(error) or type(error).__name__)

    async def _listen(self, watcher: Any) -> None:
        try:
            async for entry in watcher:
                if entry is not None:  # the library's word that nothing older follows; it may come too early
                    self._hear(entry)
        except Exception as error:  # whatever it is, this worker no longer knows who has what
            self._link.lose(str(error) or type(error).__name__)
