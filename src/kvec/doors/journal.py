"""An append-only file of what a stream took since its last snapshot: rows and ticks, on the disk before they count.

Each entry is one frame: a header with checksums, a line of JSON, and the rows one after the other, padded so that all
headers lie at multiples of their size: a disk writes such a piece whole or not at all, and leaves zeros. Rows that
were taken together are one entry, so only the last one can be torn; it never counted, and is cut off. Anything else
that does not fit is damage, and is refused.

While it is written the file has room ahead, which is zeros: a write that does not change a file's size is on the disk
ten times sooner.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import IO, NamedTuple

from kvec.decide.snapshot import sync_folder
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import ModelError

MARK = b"kvj2"
LEAST_ROOM, MOST_ROOM = 64 << 10, 8 << 20  # bytes ahead: as many as are written already, within these
_HEADER = struct.Struct("<4sIII")  # mark, length, crc32 of the content, crc32 of the header so far


class Entry(NamedTuple):
    """Rows that were taken together, or, where there are none, a tick."""

    wall: float
    arrived: list[Arrived]
    now: float | None = None


class Journal:
    """Appends entries to a file, and reads those that are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._end = self._room = 0  # of what is written, and of the file

    def entries(self, is_last: bool = True) -> Iterator[Entry]:
        """All whole entries; a torn last one is cut off, but of a journal that another one followed it is damage."""
        if not self.path.exists():
            return
        with self.path.open("r+b") as file:
            end, start = os.fstat(file.fileno()).st_size, 0
            while start < end:
                header = file.read(_HEADER.size)
                if len(header) < _HEADER.size or not (header.strip(b"\0") or _has_header(file.read())):
                    break
                mark, length, checksum = _HEADER.unpack(header)[:3]
                if mark != MARK or header != _header(length, checksum):
                    raise self._damaged(start)
                content = file.read(length)
                file.seek(-length % _HEADER.size, os.SEEK_CUR)
                if len(content) < length or zlib.crc32(content) != checksum:
                    if file.read().strip(b"\0"):
                        raise self._damaged(start)
                    break
                yield _unpacked(content)
                start = file.tell()
            file.seek(start)
            if not is_last and file.read().strip(b"\0"):
                raise self._damaged(start)
            if start != end:  # torn, or the last entry lost its padding
                file.truncate(start)
                os.fsync(file.fileno())

    def add(self, entry: Entry) -> None:
        """Write an entry; it is on the disk before this returns."""
        content = _packed(entry)
        frame = memoryview(_header(len(content), zlib.crc32(content)) + content + bytes(-len(content) % _HEADER.size))
        try:
            if self._file is None:
                for _ in self.entries():  # so that it ends with a whole one
                    pass
                self.path.touch()
                self._file = self.path.open("r+b", buffering=0)
                self._end = self._room = self._file.seek(0, os.SEEK_END)
                sync_folder(self.path.parent)
            if self._end + len(frame) > self._room:
                self._make_room(self._file.fileno(), self._end + len(frame))
            while frame:
                n = self._file.write(frame)
                frame, self._end = frame[n:], self._end + n
            _sync(self._file.fileno())
        except OSError as error:
            raise ModelError(f"{self.path}: cannot be written: {error.strerror}; nothing more is taken") from None

    def close(self) -> None:
        """Close the file, without the room that was not needed."""
        if self._file is not None:
            if self._room > self._end:
                with suppress(OSError, ValueError):  # zeros are passed over
                    self._file.truncate(self._end)
                    os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def _make_room(self, file: int, least: int) -> None:
        """Let the file have room ahead, where its disk can."""
        self._room = least
        if hasattr(os, "posix_fallocate"):
            room = least + min(max(least, LEAST_ROOM), MOST_ROOM)
            with suppress(OSError):  # without it the file grows by writing
                os.posix_fallocate(file, 0, room)
                self._room = room
                os.fsync(file)

    def _damaged(self, start: int) -> ModelError:
        return ModelError(
            f"{self.path} is damaged at byte {start:,}; put a whole copy in its place, or remove it to go on from the "
            "snapshot alone"
        )


def _sync(file: int) -> None:
    """Bring what was written to the disk, and the size where it has changed; nothing else."""
    os.fdatasync(file) if hasattr(os, "fdatasync") else os.fsync(file)


def _header(length: int, checksum: int) -> bytes:
    header = _HEADER.pack(MARK, length, checksum, 0)[:-4]
    return header + zlib.crc32(header).to_bytes(4, "little")


def _has_header(rest: bytes) -> bool:
    """Whether an entry begins somewhere; rows may hold the mark too."""
    size, place = _HEADER.size, rest.find(MARK)
    while place >= 0:
        header = rest[place : place + size]
        if place % size == 0 and len(header) == size and header == _header(*_HEADER.unpack(header)[1:3]):
            return True
        place = rest.find(MARK, place + 1)
    return False


def _packed(entry: Entry) -> bytes:
    runs = []
    for named, some in groupby(entry.arrived, lambda one: (one.origin, one.problem, one.peer)):
        rows = list(some)
        counts = ([one.number for one in rows], [len(_bytes(one)) for one in rows], [one.line for one in rows])
        runs.append([*named, *counts])
    card = {"wall": entry.wall, "now": entry.now, "runs": runs}
    return b"\n".join([json.dumps(card).encode(), b"".join([_bytes(one) for one in entry.arrived])])


def _unpacked(content: bytes) -> Entry:
    line, _, rows = content.partition(b"\n")
    card = json.loads(line)
    arrived: list[Arrived] = []
    start = 0
    for origin, problem, peer, numbers, sizes, lines in card["runs"]:
        for number, size, line in zip(numbers, sizes, lines, strict=True):
            arrived.append(Arrived(number, rows[start : start + size], 0, origin, problem, peer, line))
            start += size
    return Entry(card["wall"], arrived, card["now"])


def _bytes(one: Arrived) -> bytes:
    assert isinstance(one.content, bytes)
    return one.content
