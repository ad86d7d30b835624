"""`kvec send`: rows of a file or of the standard input to the partitions of a stream on NATS, in order, each once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kvec.decide.deployed import load_deployed
from kvec.doors.fleet.ground import Subjects, source_of
from kvec.doors.fleet.intake import CLOSE
from kvec.doors.fleet.link import MSG_ID, Link, LinkLost, Post, Refused
from kvec.doors.fleet.partitions import partition_of
from kvec.doors.fleet.places import Place
from kvec.doors.fleet.recalling import ids_behind
from kvec.doors.incoming import open_source
from kvec.doors.messages import say
from kvec.doors.summary import counted
from kvec.read.arriving import RowReader
from kvec.read.arriving_sources import Arrived, Source
from kvec.read.files import ENDINGS, ending
from kvec.words.errors import DataError, SettingError

WINDOW = 2000  # rows on their way at the most
PAUSE = 0.5  # seconds before the next try to reach a server
READ = 1024  # rows that are read together
OVER = object()


@dataclass(frozen=True)
class Wishes:
    """What is to be sent where."""

    model: Path  # whose schema names the tangle
    source: str
    place: Place
    closes: bool = False  # decide at the end what is open
    rate: float | None = None  # items a second; None: as fast as it goes


class Parcel(NamedTuple):
    """A message that is to be sent."""

    subject: str
    content: bytes
    headers: dict[str, str]


class Waiting(NamedTuple):
    """A parcel that was sent, and nobody has answered yet."""

    parcel: Parcel
    since: int  # it can only lie behind this place in the stream


@dataclass
class Sent:
    """What has become of parcels."""

    rows: int = 0
    again: int = 0  # that the stream had already
    unusable: int = 0  # rows without a tangle; workers make letters of them


def send_items(wishes: Wishes) -> int:
    """Send rows to their end; the exit code."""
    model = load_deployed(wishes.model)
    source, reader = open_source(wishes.source, model, None, False, 1 << 20)
    if source.kind not in ("file", "stdin", "parquet") or ENDINGS.get(ending(Path(wishes.source))) == "CSV":
        raise SettingError(
            f"{wishes.source}: kvec send reads NDJSON and Parquet files, and NDJSON from the standard input"
        )
    source.start({})
    sent = Sent()
    try:
        asyncio.run(_send(wishes, source, reader, sent))
    finally:
        source.close()
    again = f"; {sent.again:,} were there already" if sent.again else ""
    broken = f"; {counted(sent.unusable, 'row')} cannot be used, and went to partition 0" if sent.unusable else ""
    say(f"{counted(sent.rows, 'item')} sent to {wishes.place.name}{again}{broken}")
    return 0


async def _send(wishes: Wishes, source: Source, reader: RowReader, sent: Sent) -> None:
    link = await Link.open(wishes.place, "kvec send")
    try:
        partitions, most_bytes = await source_of(link, wishes.place), link.most_bytes
    finally:
        await link.close()
    subjects = Subjects(wishes.place.stream, "")

    def parcels() -> Iterator[Parcel | None]:
        stem = source.name if source.kind != "stdin" else secrets.token_hex(8)
        while (arrived := source.read(READ, 0.05)) is not None:
            if not arrived:
                yield None
            for one in arrived:
                parcel = _parcel(one, source, reader, subjects, partitions, stem, sent)
                if parcel is None:
                    continue
                if len(parcel.content) > most_bytes:
                    raise DataError(
                        f"{source.place(one)}: has {len(parcel.content):,} bytes, and an item may have {most_bytes:,} "
                        "on this server; leave it out, or raise the server's max_payload"
                    )
                sent.rows += 1
                yield parcel
        for number in range(partitions if wishes.closes else 0):
            yield Parcel(subjects.items(number), b"", {MSG_ID: f"close {secrets.token_hex(8)}", CLOSE: "yes"})

    await deliver(wishes.place, parcels(), sent, wishes.rate)


def _parcel(
    one: Arrived, source: Source, reader: RowReader, subjects: Subjects, partitions: int, stem: str, sent: Sent
) -> Parcel | None:
    """A row as a message, None of a blank line; the same row of the same file always has the same id."""
    content = one.content if isinstance(one.content, bytes) else json.dumps(one.content, default=str).encode()
    try:
        if (cells := source.cells(one)) is None:
            return None
        number = partition_of(reader.tangle(cells), partitions)
    except DataError:
        number = 0
        sent.unusable += 1
    mark = hashlib.blake2b(f"{stem}:{one.number}:".encode() + content, digest_size=12).hexdigest()
    return Parcel(subjects.items(number), content, {MSG_ID: mark})


async def deliver(place: Place, parcels: Iterator[Parcel | None], sent: Sent, rate: float | None = None) -> None:
    """Send parcels in their order; when a connection broke, those that the stream does not hold are sent again."""
    waiting: deque[Waiting] = deque()  # not confirmed yet
    last: int | None = None  # the highest place in the stream that is known
    is_over, n_taken, started = False, 0, time.monotonic()
    while True:
        link, post, n_done = None, None, 0
        try:
            link = await Link.open(place, "kvec send")
            last = await _last_place(link, place) if last is None else last
            waiting = await _missing(link, place, waiting)
            post = Post(link, last)
            await post.open()
            for parcel, _ in waiting:
                await post.send(*parcel)
            while not is_over:
                n_done += _drop(waiting, post.first_waiting - n_done)
                if post.n_waiting >= WINDOW:
                    await post.settle(WINDOW // 2)
                if rate is not None and (ahead := started + n_taken / rate - time.monotonic()) > 0:
                    await asyncio.sleep(ahead)
                parcel_or_none = next(parcels, OVER)
                if parcel_or_none is OVER:
                    is_over = True
                elif isinstance(parcel_or_none, Parcel):
                    n_taken += 1
                    waiting.append(Waiting(parcel_or_none, post.last))
                    await post.send(*parcel_or_none)
                else:
                    await asyncio.sleep(0.01)
            await post.settle()
            return
        except (LinkLost, Refused, DataError) as error:
            if isinstance(error, DataError) and (last is None or link is not None):
                raise
            if last is None:
                raise DataError(f"{place.name}: {error}; is the server well?") from None
            if link is not None:
                say(f"{place.name}: the server was lost ({error}); still trying")
            await asyncio.sleep(PAUSE)
        finally:
            if post is not None:
                _drop(waiting, post.first_waiting - n_done)
                last, sent.again = post.last, sent.again + post.n_again
            if link is not None:
                await link.close()


def _drop(waiting: deque[Waiting], n: int) -> int:
    """Forget so many that were confirmed."""
    for _ in range(n):
        waiting.popleft()
    return n


async def _last_place(link: Link, place: Place) -> int:
    """The last place in the stream."""
    try:
        return int((await link.ask(link.js.stream_info(place.stream))).state.last_seq)
    except link.js_errors.Error as error:
        raise LinkLost(str(error)) from None


async def _missing(link: Link, place: Place, waiting: deque[Waiting]) -> deque[Waiting]:
    """Of parcels that were sent without an answer those that are not in the stream, however long ago that was."""
    if not waiting:
        return waiting
    ids = {parcel.headers[MSG_ID] for parcel, _ in waiting}
    try:
        async for id in ids_behind(link, place.stream, [Subjects(place.stream, "").items("*")], waiting[0].since):
            ids.discard(id)
    except link.js_errors.Error as error:
        raise LinkLost(str(error)) from None
    return deque(one for one in waiting if one.parcel.headers[MSG_ID] in ids)
