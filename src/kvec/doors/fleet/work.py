"""One partition at work: items in, decisions out, states kept; the next owner goes on from the newest of them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from kvec.decide.deployed import Deployed
from kvec.decide.models import is_newly_promised
from kvec.decide.stream import Stream
from kvec.doors.fleet.ground import Subjects
from kvec.doors.fleet.intake import Intake, Message
from kvec.doors.fleet.leases import Lease, LeaseLost, Leases
from kvec.doors.fleet.link import Link
from kvec.doors.fleet.sink import FencedSink
from kvec.doors.fleet.states import States, packed, resumed
from kvec.doors.messages import is_told, say
from kvec.doors.promises import Watcher
from kvec.doors.succeeding import require_same_items
from kvec.doors.writing import decision_row
from kvec.read.arriving import RowReader
from kvec.read.arriving_forms import JsonLines
from kvec.words.errors import DataError, ModelError, SettingError
from kvec.words.items import Decision, Item
from kvec.words.limits import Limits

MOST_ROWS = 1024  # items that are taken together at the most


@dataclass(frozen=True)
class Manner:
    """How every partition is worked on."""

    model: Deployed
    limits: Limits
    threshold: float | None
    every_items: int | None
    every_seconds: float | None
    most_bytes: int  # of an item
    by_wall: bool


@dataclass
class Tally:
    """What a worker has done, over all its partitions."""

    items: int = 0
    decisions: int = 0
    again: int = 0  # decisions that an earlier owner had sent
    letters: int = 0


class Work:
    """A partition that this worker has."""

    def __init__(self, number: int, lease: Lease, manner: Manner, tally: Tally, subjects: Subjects) -> None:
        self.number, self.lease = number, lease
        self._manner, self._tally, self._subjects = manner, tally, subjects
        self._json = JsonLines()
        self._n_saved = 0  # states of this owner
        self._n_unsaved = 0  # items since the newest of them
        self._saved_at = time.monotonic()
        self._wall = 0.0  # when the server took the newest message
        self._reply = ""  # to acknowledge the newest item with
        self.position = 0

    async def open(self, link: Link, leases: Leases, states: States, group: str, wake: Callable[[], None]) -> None:
        """Go on where the last owner's newest state stopped."""
        self._leases, self._states = leases, states
        self._most_bytes = min(self._manner.most_bytes, link.most_bytes)
        self._sink = FencedSink(link, self._subjects, self.number, group)
        await self._sink.fence(leases.me, self.lease.epoch)
        if self.lease.state:
            stream = resumed(await states.load(self.lease.state), f"state {self.lease.state} of group {group}")
        else:
            stream = Stream(self._manner.model, self._manner.limits, self._manner.threshold)
        self.stream, note = stream, stream.note
        self.reader = RowReader(stream.model.schema)
        if note:
            self.reader.restore(note["reader"])
            self._sink.known.update(note["known"])
        await self._sink.recall(note.get("sink", 0))
        self.position = note.get("position", 0)
        self._watcher = Watcher.of(stream, note.get("watched"))
        self._intake = Intake(link, self._subjects, self.number, group, self.lease.epoch)
        await self._intake.open(self.position, wake)
        await states.tidy(self.number, self.lease.state)

    async def take_over(self) -> None:
        """Let the model of this worker decide what opens from now on."""
        model = self._manner.model
        require_same_items(
            self.stream.model.schema, model.schema, "this model", "the group", "another group and another --sink"
        )
        try:
            decisions = self.stream.take_over(model, self._manner.threshold)
        except DataError as error:
            raise ModelError(str(error)) from None
        await self._send(decisions)
        self._watcher = Watcher.of(self.stream)
        await self.save()

    async def step(self) -> bool:
        """Take what has come; whether anything had."""
        if not self._leases.is_mine(self.number, self.lease.epoch):
            raise LeaseLost(f"partition {self.number} belongs to another worker")
        await self._intake.ask_for_more()
        messages = self._intake.read(MOST_ROWS)
        start = 0
        for i, one in enumerate(messages):
            if one.is_close:
                await self._take(messages[start:i])
                await self._send(self.stream.close(one.wall))
                start = i + 1
        await self._take(messages[start:])
        if messages:
            self.position, self._reply, self._wall = messages[-1].number, messages[-1].reply, messages[-1].wall
            self._n_unsaved += len(messages)
        return bool(messages)

    async def tick(self) -> None:
        """Let time pass; while items wait to be read, no further than to the newest that was."""
        now = self._intake.now()
        wall = self._wall if now is None else now
        await self._send(self.stream.tick(wall if self._manner.by_wall else None, wall))
        if self._watcher is not None and (warning := self._watcher.look(self.stream)):
            say(f"partition {self.number}: {warning}")

    def is_due(self) -> bool:
        """Whether it is time to keep a state."""
        manner = self._manner
        if manner.every_items is not None:
            return self._n_unsaved >= manner.every_items
        age = time.monotonic() - self._saved_at
        return self._n_unsaved > 0 and manner.every_seconds is not None and age >= manner.every_seconds

    async def save(self, owner: str | None = None) -> None:
        """Keep a state: decisions first, then the state, then the lease that names it; then items are acknowledged."""
        await self._sink.settle()
        name = f"{self.number}.{self.lease.epoch}.{self._n_saved}"
        before = self.lease.state
        await self._states.save(name, packed(self.stream, {
            "position": self.position, "sink": self._sink.last, "known": sorted(self._sink.known),
            "reader": self.reader.to_plain(),
            **({} if self._watcher is None else {"watched": self._watcher.to_plain()}),
        }))  # fmt: skip
        noted = replace(self.lease, state=name, position=self.position)
        self.lease = await self._leases.change(self.number, noted if owner is None else replace(noted, owner=owner))
        self._n_saved += 1
        self._n_unsaved, self._saved_at = 0, time.monotonic()
        if self._reply:
            await self._intake.acknowledge(self._reply)
            self._reply = ""
        if before:
            await self._states.forget(before)

    async def release(self) -> None:
        """Keep a state, and let others have the partition."""
        if self._n_unsaved or self._reply:
            await self.save(owner="")
        else:
            await self._sink.settle()
            self.lease = await self._leases.change(self.number, replace(self.lease, owner=""))
        await self.close()

    async def close(self) -> None:
        """Hear no more of it."""
        await self._intake.close()
        await self._sink.close()

    # -- parts --------------------------------------------------------------------------------------------------

    async def _take(self, messages: Sequence[Message]) -> None:
        items: list[tuple[float, Item]] = []
        letters: list[tuple[str, bytes]] = []
        for one in messages:
            try:
                if len(one.content) > self._most_bytes:
                    raise DataError(f"is longer than {self._most_bytes:,} bytes")
                cells = self._json.cells(one.content)
                item = None if cells is None else self.reader.item(cells)
            except DataError as problem:
                letters.append((f"letter {one.number}", self._letter(one, problem)))
                continue
            if item is not None:
                items.append((one.wall, item))
        if letters:
            self._tally.letters += await self._sink.send(letters, is_letter=True)
        if not messages:
            return
        self._tally.items += len(items)
        decisions = self._fed(items)
        if items and self._watcher is not None:
            self._watcher.arrived([item for _, item in items])
        await self._send(decisions)

    def _fed(self, items: Sequence[tuple[float, Item]]) -> list[Decision]:
        """Feed items, each at the moment when the server took it where that matters: read again, they fall the same."""
        if self.stream.limits.idle is None:
            return self.stream.feed_many([item for _, item in items])
        return [
            decision
            for wall, some in groupby(items, itemgetter(0))
            for decision in self.stream.feed_many([item for _, item in some], wall)
        ]

    async def _send(self, decisions: Sequence[Decision]) -> None:
        if not decisions:
            return
        names = self.stream.model.vocabulary.label_names
        rows = [(one.id, _line(decision_row(one, names))) for one in decisions]
        n_sent = await self._sink.send(rows)
        self._tally.decisions += n_sent
        self._tally.again += len(rows) - n_sent
        if self._watcher is not None and (warning := self._watcher.observe(decisions, self.stream)):
            say(f"partition {self.number}: {warning}")

    def _letter(self, one: Message, problem: DataError) -> bytes:
        place = f"{self._subjects.items(self.number)}, message {one.number}"
        count = self._tally.letters + 1
        if is_told(count):
            say(f"{place}: {problem}")
        raw = one.content[: self._most_bytes].decode("utf-8", "backslashreplace")
        return _line({"place": place, "number": one.number, "problem": str(problem), "raw": raw})


async def take(
    number: int, link: Link, leases: Leases, states: States, group: str, manner: Manner, tally: Tally,
    subjects: Subjects, wake: Callable[[], None],
) -> Work:  # fmt: skip
    """Claim a partition and go on with it; whoever was faster keeps it."""
    lease = await leases.claim(number)
    work = Work(number, lease, manner, tally, subjects)
    try:
        await work.open(link, leases, states, group, wake)
    except LeaseLost:
        if await leases.still(number, lease):
            raise SettingError(
                f"{subjects.sink}: knows a newer owner of partition {number} than the bucket {group!r}, which must "
                "have been made anew; name another --sink"
            ) from None
        raise
    had, has = work.stream.model, manner.model
    if settled(had) != settled(has) or (manner.threshold is None and is_newly_promised(has, had)):
        await work.take_over()
    return work


def settled(model: Deployed) -> str:
    """A mark of all that decisions depend on."""
    told = [model.hash, model.operating_point.to_dict(), model.unknown.to_plain()]
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
