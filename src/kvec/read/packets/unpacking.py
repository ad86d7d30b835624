"""Bytes out of compressed files, told by their first bytes and never by their name, a bounded piece at a time."""

from __future__ import annotations

import bz2
import lzma
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import IO, Protocol

from kvec.words.errors import DataError

PIECE = 1 << 16  # compressed bytes taken at a time
MOST_MEMORY = 1 << 28  # a stream that asks for a larger window is not read
MOST_WINDOW = 27  # the same for Zstandard, as a power of two
FREE, MOST_TIMES = 1 << 28, 1000  # bytes that any file may give, and how many times its own size beyond them
SEVEN_ZIP = b"7z\xbc\xaf\x27\x1c"
INSTALL = 'pip install "kvec[packets]"'


class Source(Protocol):
    """Anything that gives its next bytes: at least one, at the most so many, none at the end."""

    def read1(self, size: int, /) -> bytes:
        """The next bytes."""
        ...


class Machine(Protocol):
    """A decompressor of the standard library's kind."""

    @property
    def eof(self) -> bool:
        """Its stream is over."""
        ...

    @property
    def needs_input(self) -> bool:
        """It has nothing more to give out by itself."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What follows the stream."""
        ...

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        """Some bytes more."""
        ...


class Broken(Exception):
    """The rest of a compressed file cannot be read; the message is the reason to count."""


class Peeked:
    """A source whose first bytes may be looked at before they are read."""

    def __init__(self, source: Source) -> None:
        self._source, self._ahead = source, b""

    def peek(self, size: int) -> bytes:
        """The next bytes, which stay to be read; fewer where the source ends."""
        while len(self._ahead) < size and (more := self._source.read1(size - len(self._ahead))):
            self._ahead += more
        return self._ahead[:size]

    def read1(self, size: int, /) -> bytes:
        """The next bytes."""
        if not self._ahead:
            return self._source.read1(size)
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken


class Plain:
    """A file, pipe or socket as a source."""

    def __init__(self, file: IO[bytes]) -> None:
        self._read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)

    def read1(self, size: int, /) -> bytes:
        """The next bytes; a file that can no longer be read is at its end."""
        try:
            return self._read(size) or b""
        except (OSError, ValueError) as error:
            raise Broken("file no longer readable") from error


class Unpacked:
    """The bytes of a compressed source, one compressed stream after the other."""

    def __init__(self, source: Source, make: Callable[[], Machine]) -> None:
        self._source, self._make, self._machine = source, make, make()
        self._waiting, self._is_done, self._was_fed = b"", False, False
        self._taken, self._given = 0, 0

    def read1(self, size: int, /) -> bytes:
        """The next bytes."""
        while not self._is_done:
            if self._given > max(FREE, MOST_TIMES * self._taken):
                self._is_done = True
                raise Broken(f"compressed more than {MOST_TIMES:,} times: unpack it first")
            machine = self._machine
            if machine.eof:
                self._next(machine.unused_data)
                continue
            given = self._waiting
            if not given and machine.needs_input:
                given = self._take()
                if not given:
                    self._is_done = True
                    if self._was_fed:
                        raise Broken("compressed data cut off")
                    break
            self._waiting, self._was_fed = b"", True
            try:
                out = machine.decompress(given, size)
            except Exception as error:  # each kind raises its own
                self._is_done = True
                raise Broken("compressed data broken") from error
            self._given += len(out)
            if out:
                return out
        return b""

    def _take(self) -> bytes:
        piece = self._source.read1(PIECE)
        self._taken += len(piece)
        return piece

    def _next(self, rest: bytes) -> None:
        """Go on with the stream that follows, if one follows; padding ends the file."""
        rest = rest or self._take()
        if not rest.strip(b"\0"):
            self._is_done = True
        self._machine, self._waiting, self._was_fed = self._make(), rest, False


class _Gunzip:
    """zlib with the manners of the other decompressors."""

    def __init__(self) -> None:
        self._machine, self._tail, self.needs_input = zlib.decompressobj(31), b"", True

    @property
    def eof(self) -> bool:
        return self._machine.eof

    @property
    def unused_data(self) -> bytes:
        return self._machine.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        out = self._machine.decompress(self._tail + data, max(max_length, 1))
        self._tail = self._machine.unconsumed_tail
        self.needs_input = not self._tail and len(out) < max_length
        return out


def _zstd() -> Callable[[], Machine]:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise DataError(f"it is compressed by Zstandard, which needs: {INSTALL}") from None
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: MOST_WINDOW}
    return lambda: zstd.ZstdDecompressor(options=options)


KINDS: dict[bytes, Callable[[], Callable[[], Machine]]] = {
    b"\x1f\x8b\x08": lambda: _Gunzip,
    b"BZh": lambda: bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lambda: lambda: lzma.LZMADecompressor(memlimit=MOST_MEMORY),
    b"\x28\xb5\x2f\xfd": _zstd,
}
LONGEST = max(map(len, (*KINDS, SEVEN_ZIP)))


def begin_of(peeked: Peeked, name: str, size: int = LONGEST) -> bytes:
    """The first bytes of a file, which say what it is."""
    try:
        return peeked.peek(size)
    except Broken as error:
        raise DataError(f"{name}: cannot be read: {error}") from None


def unpacked(source: Source, name: str) -> Peeked:
    """The source without its compression, should it have any."""
    peeked = Peeked(source)
    begin = begin_of(peeked, name)
    kind = next((make for magic, make in KINDS.items() if begin.startswith(magic)), None)
    try:
        return Peeked(Unpacked(peeked, kind())) if kind else peeked
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def members(file: IO[bytes], name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The files in a 7z archive, each unpacked into a temporary file that is closed when the next is asked for."""
    try:
        import py7zr
        from py7zr.io import Py7zIO, WriterFactory
    except ImportError:
        raise DataError(f"{name}: it is a 7z archive, which needs: {INSTALL}") from None

    class Writer(Py7zIO):
        def __init__(self, into: IO[bytes], most: int) -> None:
            self._into, self._left = into, most

        def write(self, s: bytes | bytearray) -> int:
            self._left -= len(s)
            if self._left < 0:
                raise OSError("larger than it says")
            return self._into.write(s)

        def read(self, size: int | None = None) -> bytes:
            return self._into.read(-1 if size is None else size)

        def seek(self, offset: int, whence: int = 0) -> int:
            return self._into.seek(offset, whence)

        def flush(self) -> None:
            self._into.flush()

        def size(self) -> int:
            return self._into.tell()

    class Factory(WriterFactory):
        def __init__(self, into: IO[bytes], most: int) -> None:
            self._writer = Writer(into, most)

        def create(self, filename: str) -> Py7zIO:
            return self._writer

    try:
        with py7zr.SevenZipFile(file) as archive:
            found = [(entry.filename, entry.uncompressed) for entry in archive.list() if not entry.is_directory]
            left = max(FREE, MOST_TIMES * file.seek(0, os.SEEK_END))
            for member, size in found:
                left -= size
                if left < 0:
                    raise DataError(f"{name}: {member} is compressed more than {MOST_TIMES:,} times; unpack it first")
                with closing(tempfile.TemporaryFile()) as into:
                    if size > shutil.disk_usage(tempfile.gettempdir()).free:
                        raise DataError(
                            f"{name}: {member} is too large to unpack here; unpack it elsewhere and name the file"
                        )
                    archive.reset()
                    archive.extract(targets=[member], factory=Factory(into, size))
                    into.seek(0)
                    yield member, into
    except DataError:
        raise
    except Exception as error:  # py7zr lets through whatever its decompressors raise
        raise DataError(
            f"{name}: this 7z archive cannot be unpacked ({type(error).__name__}); unpack it with: 7z x"
        ) from None
