"""Packets out of captures: pcap and pcapng of any byte order and clock, compressed or not, a block at a time."""

from __future__ import annotations

import stat
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO

import numpy as np
import numpy.typing as npt

from kvec.read.packets.records import (
    BAD,
    FULL,
    HEAD,
    LARGEST_BLOCK,
    MORE,
    REASONS,
    SKIP,
    Interfaces,
    Ints,
    Small,
    find_in_pcap,
    find_in_pcapng,
)
from kvec.read.packets.unpacking import SEVEN_ZIP, Broken, Peeked, Plain, Source, begin_of, members, unpacked
from kvec.words.errors import DataError

BLOCK = 1 << 22  # bytes of a block
MOST_PACKETS = 1 << 16  # of a block
CUT_OFF = "cut off at the end of the file"
UNREAD = "bytes that were not read"  # behind a bad length, or of what is cut off
PCAP = {0xA1B2C3D4: (1000, 16), 0xA1B23C4D: (1, 16), 0xA1B2CD34: (1000, 24)}  # magic: ns of a tick, bytes of a header
ZIP = b"PK\x03\x04"
PCAPNG = b"\x0a\x0d\x0d\x0a"


@dataclass(frozen=True, slots=True)
class Packets:
    """A block of raw packets, in the order of the capture."""

    data: npt.NDArray[np.uint8]  # all bytes of the block
    starts: npt.NDArray[np.int64]  # (n,) where each packet begins in `data`
    sizes: npt.NDArray[np.int32]  # (n,) captured bytes
    wire: npt.NDArray[np.int32]  # (n,) bytes on the wire, never less than captured
    times: npt.NDArray[np.int64]  # (n,) ns since the epoch, never negative
    links: npt.NDArray[np.uint16]  # (n,) LINKTYPE_ of each

    def __len__(self) -> int:
        return len(self.starts)

    def some(self, chosen: slice | npt.NDArray[np.bool_]) -> Packets:
        """Some packets of the block."""
        return Packets(
            self.data, self.starts[chosen], self.sizes[chosen], self.wire[chosen], self.times[chosen],
            self.links[chosen],
        )  # fmt: skip


class Capture:
    """A capture to be read once, from its beginning to its end; what cannot be read is counted by reason."""

    def __init__(
        self, name: str, parts: Iterator[tuple[str, Source]], file: IO[bytes] | None, is_patient: bool
    ) -> None:
        self.name = name
        self.counters: Counter[str] = Counter()
        self._parts, self._file, self._is_patient = parts, file, is_patient
        self._first = next(parts, None)  # so that a file that is no capture is refused when it is opened

    def __iter__(self) -> Iterator[Packets]:
        while self._first is not None:
            _, source = self._first
            yield from _Reader(source, self.counters, self._is_patient).blocks()
            self._go_on()
        self.close()

    def _go_on(self) -> None:
        """Turn to the next capture of an archive."""
        try:
            self._first = next(self._parts, None)
        except DataError:
            self._first = None
            self.counters["rest of the archive not readable"] += 1

    def close(self) -> None:
        """Close the file, unless it was given open."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_capture(source: str | Path | BinaryIO, name: str = "") -> Capture:
    """Open a capture: a path, or an open file or pipe, of which each block is then what has arrived.

    The captures in a 7z archive are read one after the other.
    """
    if not isinstance(source, str | Path):
        name = name or str(getattr(source, "name", "") or "capture")
        return Capture(name, _parts(Plain(source), source, name), None, is_patient=False)
    path, name = Path(source), name or str(source)
    try:
        file = path.open("rb", buffering=0)
        is_file = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{name}: is a folder; name the captures in it") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{name!r}: cannot be the name of a file: {error}") from None
    try:
        return Capture(name, _parts(Plain(file), file, name), file, is_patient=is_file)
    except BaseException:
        file.close()
        raise


def open_captures(path: str | Path) -> Iterator[Capture]:
    """The captures of a path, one by one: the file itself or, of a 7z archive, its members by their own names."""
    with open_capture(path) as capture:
        if capture._first is not None and capture._first[0]:
            for member, source in _each(capture):
                yield Capture(f"{path}/{member}", iter([(member, source)]), None, is_patient=True)
        else:
            yield capture


def _each(capture: Capture) -> Iterator[tuple[str, Source]]:
    while capture._first is not None:
        yield capture._first
        capture._go_on()


def _parts(source: Source, file: IO[bytes], name: str) -> Iterator[tuple[str, Source]]:
    """The captures in a file, by name where it is an archive; what is none is refused, or passed by in an archive."""
    peeked = Peeked(source)
    if not begin_of(peeked, name).startswith(SEVEN_ZIP):
        yield "", _checked(unpacked(peeked, name), name)
        return
    if not file.seekable():
        raise DataError(f"{name}: a 7z archive cannot be read from a pipe; unpack it with: 7z x")
    file.seek(0)
    n_found = 0
    for member, inside in members(file, name):
        try:
            whole = _checked(unpacked(Plain(inside), f"{name}/{member}"), f"{name}/{member}")
        except DataError:
            continue
        n_found += 1
        yield member, whole
    if not n_found:
        raise DataError(f"{name}: there is no capture in this archive; pcap and pcapng can be read")


def _checked(peeked: Peeked, name: str) -> Peeked:
    begin = begin_of(peeked, name)[:4]
    if not begin:
        raise DataError(f"{name}: the file is empty")
    if begin != PCAPNG and not {int.from_bytes(begin, "big"), int.from_bytes(begin, "little")} & set(PCAP):
        if begin == ZIP:
            way_out = "unpack it first"
        elif _is_table(begin_of(peeked, name, 64)):
            way_out = "it is no capture; kvec inspect shows what a table holds"
        else:
            way_out = "if it is a capture, convert it with: editcap -F pcapng FILE NEW.pcapng"
        raise DataError(f"{name}: is neither pcap nor pcapng; {way_out}")
    return peeked


def _is_table(begin: bytes) -> bool:
    """Whether a file that begins so is Parquet, or a text such as CSV."""
    words = "".join(begin.decode("utf-8", "replace").split())
    return begin.startswith(b"PAR1") or words.rstrip("\ufffd").isprintable()


class _Reader:
    """Reads one stream of records into blocks; a record that is not whole yet waits for the bytes to come."""

    def __init__(self, source: Source, counters: Counter[str], is_patient: bool) -> None:
        self._source, self._counters, self._is_patient = source, counters, is_patient
        self._data = np.empty(BLOCK, np.uint8)
        self._at, self._filled, self._is_over = 0, 0, False

    def blocks(self) -> Iterator[Packets]:
        if self._have(4):
            yield from self._pcapng() if self._data[:4].tobytes() == PCAPNG else self._pcap()
        if self._filled > self._at:
            self._counters[CUT_OFF] += 1
            self._counters[UNREAD] += self._filled - self._at

    def _pcap(self) -> Iterator[Packets]:
        if not self._have(24):
            return
        is_big = int(self._data[0]) == 0xA1
        magic, *_, link = self._data[:24].view(">u4" if is_big else "<u4").tolist()
        tick, header = PCAP[magic]
        self._at, state = 24, FULL  # bytes are at hand
        while state == FULL or (state == MORE and self._more()):
            starts, sizes, wire, times, links = self._columns(header)
            n, self._at, state = find_in_pcap(
                self._data, self._at, self._filled, is_big, header, tick, starts, sizes, wire, times
            )
            links[:] = link & 0xFFFF
            if n:
                yield Packets(self._data, starts[:n], sizes[:n], wire[:n], times[:n], links[:n])
        if state == BAD:
            self._stop()

    def _pcapng(self) -> Iterator[Packets]:
        is_big, latest, state = False, 0, HEAD
        interfaces = Interfaces()
        counts = np.zeros(len(REASONS), np.int64)
        while state != BAD:
            if state == HEAD:
                is_big, interfaces, state = self._head(is_big, interfaces)
                if state != FULL:
                    break
            elif state == SKIP:
                size = int(self._data[self._at + 4 : self._at + 8].view(">u4" if is_big else "<u4")[0])
                passed = self._skip(size := size + 3 & ~3)
                if passed < size:
                    self._counters[CUT_OFF] += 1
                    self._counters[UNREAD] += passed
                    break
            elif state == MORE and not self._more():
                break
            starts, sizes, wire, times, links = self._columns(16)
            n, self._at, state, latest = find_in_pcapng(
                self._data, self._at, self._filled, is_big, interfaces.table, interfaces.n, latest,
                starts, sizes, wire, times, links, counts,
            )  # fmt: skip
            if n:
                yield Packets(self._data, starts[:n], sizes[:n], wire[:n], times[:n], links[:n])
            self._counters.update({reason: int(c) for reason, c in zip(REASONS, counts, strict=True) if c})
            counts[:] = 0
        if state == BAD:
            self._stop()

    def _head(self, is_big: bool, interfaces: Interfaces) -> tuple[bool, Interfaces, int]:
        """Read the section header or interface description that comes next."""
        if not self._have(12):
            return is_big, interfaces, MORE
        head = self._data[self._at : self._at + 12].tobytes()
        if is_section := head.startswith(PCAPNG):
            if head[8:] not in (b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"):
                return is_big, interfaces, BAD
            is_big, interfaces = head[8] == 0x1A, Interfaces()
        size = int.from_bytes(head[4:8], "big" if is_big else "little") + 3 & ~3
        if not (28 if is_section else 20) <= size <= LARGEST_BLOCK:
            return is_big, interfaces, BAD
        if not self._have(size):
            return is_big, interfaces, MORE
        if not is_section:
            interfaces.add(self._data[self._at : self._at + size].tobytes(), is_big)
        self._at += size
        return is_big, interfaces, FULL

    def _columns(self, header: int) -> tuple[Ints, Small, Small, Ints, npt.NDArray[np.uint16]]:
        """Room for the packets that the bytes at hand can hold."""
        n = min((self._filled - self._at) // header + 1, MOST_PACKETS)
        return (
            np.empty(n, np.int64),
            np.empty(n, np.int32),
            np.empty(n, np.int32),
            np.empty(n, np.int64),
            np.empty(n, np.uint16),
        )

    def _stop(self) -> None:
        """Leave the rest, of which a file's bytes are counted: where the next record begins is not known."""
        self._counters["bad length"] += 1
        self._counters[UNREAD] += self._skip(sys.maxsize) if self._is_patient else self._filled - self._at
        self._at = self._filled

    def _more(self) -> bool:
        """Take what a block holds (from a pipe: what has arrived), and say whether anything came."""
        before = self._filled - self._at
        self._fill()
        while self._is_patient and not self._is_over and self._filled < BLOCK:
            self._fill()
        return self._filled - self._at > before

    def _have(self, size: int) -> bool:
        """Wait until so many bytes are there; False where the stream ends before."""
        while self._filled - self._at < size and not self._is_over:
            self._fill()
        return self._filled - self._at >= size

    def _skip(self, size: int) -> int:
        """Pass bytes by without keeping them; how many there were, fewer where the stream ends before."""
        passed = 0
        while size - passed > self._filled - self._at and not self._is_over:
            passed += self._filled - self._at
            self._at = self._filled
            self._fill()
        last = min(size - passed, self._filled - self._at)
        self._at += last
        return passed + last

    def _fill(self) -> None:
        """Take some bytes more, into an array of their own where packets of the old one were given away."""
        if self._at or self._filled == BLOCK:
            rest = self._data[self._at : self._filled]
            self._data = np.empty(BLOCK, np.uint8)
            self._data[: len(rest)] = rest
            self._at, self._filled = 0, len(rest)
        try:
            piece = self._source.read1(BLOCK - self._filled)
        except Broken as error:
            self._counters[str(error)] += 1
            piece = b""
        self._is_over = not piece
        self._data[self._filled : self._filled + len(piece)] = np.frombuffer(piece, np.uint8)
        self._filled += len(piece)
