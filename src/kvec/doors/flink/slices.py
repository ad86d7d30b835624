"""Files cut into slices by number: the same rows whenever a slice is read, so that a job can go on at any of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvec.doors.flink.parting import Parting
from kvec.read.arriving import RowReader
from kvec.read.arriving_files import ParquetFile
from kvec.read.files import ENDINGS, ending
from kvec.read.rows import require_columns
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Schema

SLICE_BYTES = 128 << 10  # of lines
SLICE_ROWS = 1024  # of a table
FORMS = ("NDJSON", "Parquet")


@dataclass(frozen=True)
class Piece:
    """One file, with as many slices as it had when the job was made."""

    path: str
    form: str
    slices: int


@dataclass(frozen=True)
class Slices:
    """The slices of some files, numbered through."""

    pieces: tuple[Piece, ...]
    slice_bytes: int = SLICE_BYTES
    slice_rows: int = SLICE_ROWS

    @property
    def n(self) -> int:
        """How many there are."""
        return sum(piece.slices for piece in self.pieces)

    def read(self, number: int, schema: Schema) -> list[bytes]:
        """The rows of one slice, as lines of JSON."""
        for piece in self.pieces:
            if number < piece.slices:
                break
            number -= piece.slices
        if piece.form == "Parquet":
            return _parquet(Path(piece.path), schema).lines(number * self.slice_rows, self.slice_rows)
        return _lines(piece.path, number * self.slice_bytes, (number + 1) * self.slice_bytes)


class Endings:
    """Reads slices as blocks by tangle, and behind the last slice a block without rows for every tangle there was."""

    def __init__(self, slices: Slices, schema: Schema, part: Parting) -> None:
        self._slices, self._schema, self._part = slices, schema, part
        self._names: set[str] = set()
        self._read: set[int] = set()  # slices that have told their names

    def blocks(self, number: int) -> Iterator[tuple[str, bytes]]:
        """The blocks of a slice; of the number behind the last one, the ends."""
        if number < self._slices.n:
            yield from self._blocks(number)
            return
        for other in range(self._slices.n):  # those that were read before a failure, by another worker
            if other not in self._read:
                self._blocks(other)
        yield from ((name, b"") for name in sorted(self._names))

    def _blocks(self, number: int) -> list[tuple[str, bytes]]:
        found = list(self._part.blocks(self._slices.read(number, self._schema)))
        self._names.update(name for name, _ in found)
        self._read.add(number)
        return found


def slices_of(
    given: str, schema: Schema, slice_bytes: int = SLICE_BYTES, slice_rows: int = SLICE_ROWS
) -> Slices:  # fmt: skip
    """The slices of a file, or of all files of a folder by the order of their names."""
    path = Path(given).resolve()
    paths = sorted(one for one in path.iterdir() if _form(one)) if path.is_dir() else [path]
    if not path.exists():
        raise SettingError(f"{path}: no such file")
    if not paths:
        raise SettingError(f"{path}: has no .ndjson or .parquet file in it")
    return Slices(tuple(_piece(one, schema, slice_bytes, slice_rows) for one in paths), slice_bytes, slice_rows)


def _piece(path: Path, schema: Schema, slice_bytes: int, slice_rows: int) -> Piece:
    form = _form(path)
    if form == "Parquet":
        file = _parquet(path, schema)
        require_columns(str(path), file.columns, RowReader(schema).columns)
        return Piece(str(path), form, -(-file.height // slice_rows))
    if form == "NDJSON":
        return Piece(str(path), form, -(-path.stat().st_size // slice_bytes))
    raise SettingError(f"{path}: Flink reads .ndjson and .parquet files, unpacked; turn it into one of these")


def _form(path: Path) -> str:
    form = ENDINGS.get(ending(path), "")
    return form if form in FORMS and path.suffix != ".gz" else ""


def _parquet(path: Path, schema: Schema) -> ParquetFile:
    reader = RowReader(schema)
    return ParquetFile(path, [name for name, _ in reader.columns], reader.names)


def _lines(path: str, start: int, end: int) -> list[bytes]:
    """The lines that begin at these bytes of a file."""
    try:
        with open(path, "rb") as file:
            file.seek(max(start - 1, 0))
            if start:
                file.readline()  # of the slice before, unless that ended with a line
            content = file.read(max(end - file.tell(), 0))
            if content and not content.endswith(b"\n"):
                content += file.readline()
    except OSError as error:
        raise DataError(f"{path}: cannot be read by this worker: {error.strerror}") from None
    return content.splitlines()
