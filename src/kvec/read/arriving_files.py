"""Files as sources of rows: NDJSON and CSV line by line, packed or still growing, and Parquet in slices."""

from __future__ import annotations

import gzip
import os
import time
import zlib
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import polars as pl

from kvec.read.arriving_forms import CsvLines, JsonLines
from kvec.read.arriving_known import KNOWN, digest, is_known, mark, to_read
from kvec.read.arriving_lines import MOST_BYTES, Splitter
from kvec.read.arriving_sources import Arrived, Source
from kvec.read.cells import seconds
from kvec.read.files import FAILURES
from kvec.words.errors import DataError, SettingError

BLOCK = 1 << 18  # bytes that are read at once
SLICE = 32_768  # rows of a Parquet file that are read at once
PAUSE = 0.05  # seconds between looks at a file that grows


class LineFile(Source):
    """The lines of a file; `follow` waits for more at its end, and goes on in a file that takes its place."""

    kind = "file"

    def __init__(
        self, path: Path, decoder: JsonLines | CsvLines, follow: bool = False, most_bytes: int = MOST_BYTES
    ) -> None:
        super().__init__(str(path), decoder)
        self.is_live = follow
        self._path = path
        self._next: list[Path] = []  # files of a rotation that are still to be read, where it was missed
        self._splitter = Splitter(most_bytes, has_quotes=isinstance(decoder, CsvLines))
        self._most_bytes = most_bytes
        self._waiting: deque[Arrived] = deque()
        self._offset = self._taken = 0  # behind what was read, and behind what was taken
        self._line = self._taken_line = 0
        self._head = b""
        self._is_over = False

    def start(self, position: Mapping[str, Any]) -> None:
        """Open the file; where rows of it were taken before, it must be the same file."""
        super().start(position)
        first, *self._next = to_read(self._path, position) if self.is_live and self._path.exists() else [self._path]
        if self._next:
            self.notice = (
                f"{self._path} is another file than the one that the state stopped in, which is {first} now: "
                f"the rest of that is read first, then {', '.join(map(str, self._next))}"
            )
        self._open(first)
        try:
            self._find(position)
        except DataError:
            self._file.close()
            raise

    def _find(self, position: Mapping[str, Any]) -> None:
        """Go to the place where the next line begins."""
        self._head = self._read(KNOWN)
        self._offset = self._taken = position.get("offset", 0)
        self._line = self._taken_line = position.get("line", 0)
        try:
            is_same = is_known(self._file, self._head, position)
            end = self._file.seek(self._offset)
            is_there = not self._offset or (end == self._offset and self._holds(self._offset))
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self.name}: cannot be read: {error}") from None
        if not is_there:
            raise DataError(
                f"{self.name}: is shorter than when the state was saved in it (byte {self._offset:,}); {self._way_out}"
            )
        if not is_same:
            raise DataError(f"{self.name}: is not the file that the state stopped in; {self._way_out}")

    @property
    def _way_out(self) -> str:
        if self.is_live:
            return f"put that one back into {self._path.parent}, under any name, or begin with a new --state and -o"
        return "name that file, or begin with a new --state and -o"

    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        """The next lines."""
        until = time.monotonic() + seconds
        while len(self._waiting) < most and not self._is_over:
            here, data = self._file.tell(), self._read(BLOCK)
            if len(self._head) < KNOWN:  # the file was shorter when it was opened
                self._head = (self._head[:here] + data)[:KNOWN]
            if data:
                self._add(data)
            elif not self.is_live:
                self._is_over = True
                self._add(b"")
            elif self._waiting or self._replaced() or time.monotonic() >= until:
                break
            else:
                time.sleep(PAUSE)
        if not self._waiting and self._is_over:
            return None
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def take(self, arrived: Sequence[Arrived]) -> None:
        """Move the position on."""
        if arrived:
            self._taken, self._taken_line = arrived[-1].after, arrived[-1].last

    def position(self) -> dict[str, Any]:
        """Where the next line begins, and by what the file is known again."""
        place = {"offset": self._taken, "line": self._taken_line}
        return super().position() | place | mark(self._file, self._head, self._taken)

    def has_more(self) -> bool:
        """Whether there is something behind what was taken."""
        return self._holds(self._taken + 1)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _add(self, data: bytes) -> None:
        for piece in self._splitter.feed(data) if data else self._splitter.finish():
            self._offset += piece.size
            self._line += piece.lines
            number = self._line - piece.lines + 1
            self._waiting.append(Arrived(number, piece.content, self._offset, "", piece.problem))

    def _open(self, path: Path) -> None:
        self.name = str(path)
        try:
            with path.open("rb") as file:
                is_packed = file.read(2) == b"\x1f\x8b"
            if is_packed and self.is_live:
                raise SettingError(f"{path}: a packed file does not grow line by line; leave out --follow")
            self._file: IO[bytes] = gzip.open(path) if is_packed else path.open("rb")  # type: ignore[assignment]
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from None

    def _read(self, most: int) -> bytes:
        try:
            return self._file.read(most)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self.name}: cannot be read: {error}") from None

    def _holds(self, n_bytes: int) -> bool:
        """Whether the file has at least so many bytes; its place stays the same."""
        if not isinstance(self._file, gzip.GzipFile):
            return os.fstat(self._file.fileno()).st_size >= n_bytes
        here = self._file.tell()
        holds = self._file.seek(n_bytes) >= n_bytes
        self._file.seek(here)
        return holds

    def _replaced(self) -> bool:
        """Go on at the beginning where another file has come under this name, or the same was emptied.

        First comes what was written before that, with a last line that was never finished.
        """
        path = self._next[0] if self._next else self._path
        try:
            named = path.stat()
        except OSError:
            del self._next[:1]
            return False
        held, here = os.fstat(self._file.fileno()), self._file.tell()
        is_same = (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
        if held.st_size > here or (is_same and held.st_size == here):
            return False
        if not is_same:
            self._add(b"")
            if self._waiting:
                return True
            self._file.close()
            self._open(path)
            del self._next[:1]
        self._file.seek(0)
        self._head = self._read(KNOWN)
        self._file.seek(0)
        self._splitter = Splitter(self._most_bytes, has_quotes=isinstance(self._decoder, CsvLines))
        self._offset = self._taken = self._line = self._taken_line = 0
        if self._decoder is not None:
            self._decoder.header = ""
        return True


class ParquetFile(Source):
    """The rows of a Parquet file."""

    kind = "parquet"
    unit = "row"

    def __init__(self, path: Path, wanted: Sequence[str], names: Collection[str]) -> None:
        super().__init__(str(path))
        self._path, self._wanted, self._names = path, list(dict.fromkeys(wanted)), names
        self._row = self._taken = 0
        self._first = self._last = ""  # digests of the first row, and of the last one that was taken
        self._waiting: deque[Mapping[str, Any]] = deque()

    @property
    def columns(self) -> list[str]:
        """The columns that the file has."""
        return list(self._schema())

    def start(self, position: Mapping[str, Any]) -> None:
        """Open the file, which must have the rows that were taken."""
        self._row = self._taken = position.get("row", 0)
        for name, kind in self._schema().items():
            if name in self._wanted and isinstance(kind, pl.List | pl.Array | pl.Struct | pl.Binary | pl.Object):
                raise DataError(f"{self._path}, column {name!r}: holds {kind}, not single values")
        if self._taken > self.height:
            raise DataError(
                f"{self._path}: has fewer rows than when the state was saved in it; name the whole file, or begin with "
                "a new --state and -o"
            )
        self._first, self._last = _row(self._slice(0, 1)), _row(self._slice(self._taken - 1, 1) if self._taken else [])
        if (position.get("first") or self._first, position.get("last", self._last)) != (self._first, self._last):
            raise DataError(
                f"{self._path}: is not the file that the state stopped in; name that file, or begin with a new --state "
                "and -o"
            )

    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        """The next rows."""
        if not self._waiting:
            self._waiting.extend(self._slice(self._row, SLICE))
        if not self._waiting:
            return None
        cells = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        first = self._row + 1
        self._row += len(cells)
        return [Arrived(number, row) for number, row in enumerate(cells, first)]

    def take(self, arrived: Sequence[Arrived]) -> None:
        """Move the position on."""
        if arrived:
            self._taken = arrived[-1].number
            self._last = _row([arrived[-1].content])

    def position(self) -> dict[str, Any]:
        """How many rows were taken, and by what the file is known again."""
        return {"row": self._taken, "first": self._first, "last": self._last}

    def has_more(self) -> bool:
        """Whether there is something behind what was taken."""
        return self.height > self._taken

    def lines(self, start: int, n: int) -> list[bytes]:
        """Some rows as lines of JSON."""
        return self._frame(start, n).write_ndjson().encode().splitlines()

    def _slice(self, start: int, n: int) -> list[dict[str, Any]]:
        return self._frame(start, n).to_dicts()

    def _frame(self, start: int, n: int) -> pl.DataFrame:
        try:
            rows = pl.scan_parquet(self._path).select(self._wanted).slice(start, n).collect()
        except FAILURES as error:
            raise self._broken(error) from None
        return rows.select(_plain(rows[name], name in self._names) for name in rows.columns)

    @property
    def height(self) -> int:
        """How many rows the file has."""
        return int(pl.scan_parquet(self._path).select(pl.len()).collect().item())

    def _schema(self) -> pl.Schema:
        try:
            return pl.scan_parquet(self._path).collect_schema()
        except FAILURES as error:
            raise self._broken(error) from None

    def _broken(self, error: BaseException) -> DataError:
        first = next(islice(str(error).strip().splitlines(), 1), type(error).__name__)
        return DataError(f"{self._path}: is not a whole Parquet file ({first}); was it cut off, or renamed?")


def _plain(cells: pl.Series, is_name: bool) -> pl.Series:
    """Cells as text, numbers or truths."""
    if cells.dtype.is_temporal():
        return cells.cast(pl.String) if is_name and cells.dtype != pl.Duration else seconds(cells)
    return cells.cast(pl.Float64) if cells.dtype.is_decimal() else cells


def _row(rows: Sequence[Any]) -> str:
    """A digest of one row; empty where there is none."""
    return digest(repr(rows[0]).encode()) if rows else ""
