"""A worker of a fleet: takes its share of the partitions, works on them, begins anew when the server was away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kvec.doors.fleet.ground import Subjects, buckets_of, sink_of, source_of
from kvec.doors.fleet.leases import LeaseLost, Leases
from kvec.doors.fleet.link import Link, LinkLost
from kvec.doors.fleet.partitions import plan
from kvec.doors.fleet.places import Place
from kvec.doors.fleet.states import States
from kvec.doors.fleet.work import Manner, Tally, Work, take
from kvec.doors.messages import say
from kvec.doors.running import Stopping
from kvec.words.errors import DataError, ModelError, SettingError

WAIT = 0.2  # seconds without items after which the worker looks around
TICK = 1.0  # seconds between ticks
AGAIN = 0.5  # seconds before the next try to reach a server
SILENCE = 30.0  # seconds between two complaints about a server that does not answer


@dataclass(frozen=True)
class Duty:
    """What a worker is to do."""

    place: Place
    sink: str  # the stream of decisions
    manner: Manner
    terms: Mapping[str, Any]  # what all workers of a group must agree upon, without the number of partitions
    is_newer: bool  # its model may take over


class Worker:
    """One process of a fleet."""

    def __init__(self, duty: Duty, me: str) -> None:
        self._duty, self._me = duty, me
        self.tally = Tally()
        self._subjects = Subjects(duty.place.stream, duty.sink)
        self._works: dict[int, Work] = {}
        self._complained = -SILENCE
        self._has_worked = False
        self._is_outdated = False

    async def run(self, stopping: Stopping) -> None:
        """Work until someone stops it; what goes wrong at the start is refused, later it is tried again."""
        while not (stopping.is_asked or self._is_outdated):
            link = None
            try:
                link = await Link.open(self._duty.place, f"kvec {self._me}")
                await self._work(link, stopping)
            except (LinkLost, DataError) as error:
                self._again(error, isinstance(error, DataError))
            except Exception as error:
                if link is None or not isinstance(error, link.js_errors.Error):
                    raise
                self._again(error, False)
            finally:
                self._works = {}
                if link is not None:
                    await link.close()
            if not (stopping.is_asked or self._is_outdated):
                await asyncio.sleep(AGAIN)

    def _again(self, error: Exception, is_ours: bool) -> None:
        """Say now and then that the server does not do its part; at the start that is the end."""
        if not self._has_worked:
            if is_ours:
                raise error
            raise DataError(f"{self._duty.place.name}: {error}; is the server well?") from None
        if time.monotonic() - self._complained >= SILENCE:
            self._complained = time.monotonic()
            why = str(error).removeprefix(f"{self._duty.place.name}: ")
            say(f"{self._duty.place.name}: the server was lost ({why}); still trying")

    async def _work(self, link: Link, stopping: Stopping) -> None:
        duty = self._duty
        partitions = await source_of(link, duty.place)
        await sink_of(link, duty.place, duty.sink)
        bucket, objects = await buckets_of(link, duty.place)
        leases = Leases(link, bucket, self._me, duty.place.lease)
        states = States(link, objects, duty.place.group)
        wake = asyncio.Event()
        is_left = False
        try:
            await leases.open()
            await self._agree(leases, partitions)
            if self._has_worked and self._complained > -SILENCE:
                self._complained = -SILENCE
                say(f"{duty.place.name}: the server is back")
            self._has_worked = True
            await self._loop(link, leases, states, partitions, wake, stopping)
            for work in list(self._works.values()):
                await self._let_go(work)
            await link.flush()
            is_left = True
        finally:
            await leases.close(is_left)

    async def _agree(self, leases: Leases, partitions: int) -> None:
        """All workers of a group do the same with the same; a newer model may take over."""
        mine = {**self._duty.terms, "partitions": partitions}
        theirs = await leases.agree(mine)
        different = [name for name in mine if mine[name] != theirs.get(name)]
        if different == ["model"] and self._duty.is_newer:
            theirs = await leases.agree(mine, is_new=True)
            say(
                f"group {self._duty.place.group}: this model takes over; it decides the sequences that open from now on"
            )
            different = [name for name in mine if mine[name] != theirs.get(name)]
        if different:
            group = f"group {self._duty.place.group!r}"
            if different[0] == "model":
                raise ModelError(
                    f"this is not the model of {group} as it is used there; give the same model and --at, or let this "
                    "one decide all new sequences with --take-over"
                )
            raise SettingError(
                f"{different[0]} is {mine[different[0]]!r}, but {theirs.get(different[0])!r} in {group}; give the "
                "same, or name another group and another --sink"
            )

    async def _loop(
        self, link: Link, leases: Leases, states: States, partitions: int, wake: asyncio.Event, stopping: Stopping
    ) -> None:  # fmt: skip
        ticked = looked = 0.0
        while not stopping.is_asked:
            if link.lost.done():
                raise LinkLost(link.lost.result())
            if leases.terms.get("model") != self._duty.terms["model"]:
                say(f"a newer model has taken over group {self._duty.place.group}; this worker leaves it to its fleet")
                self._is_outdated = True
                return
            now = time.monotonic()
            if now - looked >= self._duty.place.lease / 10:
                looked = now
                await self._balance(link, leases, states, partitions, wake)
            is_tick = now - ticked >= TICK
            ticked = now if is_tick else ticked
            wake.clear()
            has_worked = False
            for work in list(self._works.values()):
                has_worked |= await self._turn(work, is_tick)
            if not has_worked:
                await self._rest(link, wake)
            else:
                await asyncio.sleep(0)

    async def _turn(self, work: Work, is_tick: bool) -> bool:
        """One partition's turn; whether it had items."""
        try:
            has_worked = await work.step()
            if is_tick:
                await work.tick()
            if work.is_due():
                await work.save()
            return has_worked
        except LeaseLost as lost:
            del self._works[work.number]
            await work.close()
            say(f"{lost}; it goes on there")
            return False

    async def _balance(
        self, link: Link, leases: Leases, states: States, partitions: int, wake: asyncio.Event
    ) -> None:  # fmt: skip
        """Give up and take partitions, so that each live worker has its share."""
        wanted = plan(self._me, leases.live(), leases.owners(), list(self._works), partitions)
        for number in wanted.release:
            if number in self._works:
                await self._let_go(self._works[number])
            else:
                with suppress(LeaseLost):
                    await leases.give_up(number)
        for number in wanted.claim:
            try:
                self._works[number] = await take(
                    number, link, leases, states, self._duty.place.group, self._duty.manner, self.tally, self._subjects,
                    wake.set,
                )  # fmt: skip
                said = self._works[number]
                where = f"after item {said.position:,} of the stream" if said.position else "from its beginning"
                say(f"partition {number} is worked on here, {where}")
            except LeaseLost:
                continue  # another worker was faster

    async def _let_go(self, work: Work) -> None:
        del self._works[work.number]
        try:
            await work.release()
            say(f"partition {work.number} is left to others, after item {work.position:,} of the stream")
        except LeaseLost:
            return  # they have it already

    async def _rest(self, link: Link, wake: asyncio.Event) -> None:
        waiting = asyncio.ensure_future(wake.wait())
        await asyncio.wait((waiting, link.lost), timeout=WAIT, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
