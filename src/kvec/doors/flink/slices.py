"""Files cut into slices by number: the same rows whenever a slice is read, so that a job can go on at any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import Any

from kvec.doors.flink.parting import Parting
from kvec.read.arriving import RowReader
from kvec.read.arriving_files import ParquetFile
from kvec.read.arriving_forms import JsonLines
from kvec.read.arriving_known import KNOWN, digest
from kvec.read.files import ENDINGS, ending
from kvec.read.rows import require_columns
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Schema

SLICE_BYTES = 128 << 10  # of lines
SLICE_ROWS = 1024  # of a table
FORMS = ("NDJSON", "Parquet")
SHOWN = 8  # files or columns that a message names
UID = "kvec-slices-"  # how the source's name in Flink's state begins
MARK = 16  # letters of a file's mark
MOST_MARKS = 1000  # files that have a mark of their own in it; Flink takes 64 KB


@dataclass(frozen=True)
class Piece:
    """One file as it was when the job was made: no more than its size is read, and by its mark it is known again."""

    path: str
    form: str
    slices: int
    size: int  # bytes of lines, or rows of a table
    mark: str


@dataclass(frozen=True)
class Slices:
    """The slices of some files, numbered through."""

    pieces: tuple[Piece, ...]
    slice_bytes: int = SLICE_BYTES
    slice_rows: int = SLICE_ROWS
    by: str = ""  # a column beside those of the schema

    @property
    def n(self) -> int:
        """How many there are."""
        return sum(piece.slices for piece in self.pieces)

    @property
    def uid(self) -> str:
        """The source's name in Flink's state: a state of other files, or of another cut, does not fit it."""
        marks = "-".join(piece.mark for piece in self.pieces)
        return UID + (marks if len(self.pieces) <= MOST_MARKS else digest(marks.encode()))

    def read(self, number: int, schema: Schema) -> list[bytes]:
        """The rows of one slice, as lines of JSON."""
        for piece in self.pieces:
            if number < piece.slices:
                break
            number -= piece.slices
        if piece.form == "Parquet":
            start = number * self.slice_rows
            return _parquet(Path(piece.path), schema, self.by).lines(start, min(self.slice_rows, piece.size - start))
        return _lines(piece, number * self.slice_bytes, min((number + 1) * self.slice_bytes, piece.size))


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
    given: str, schema: Schema, by: str = "", slice_bytes: int = SLICE_BYTES, slice_rows: int = SLICE_ROWS
) -> Slices:
    """The slices of a file, or of all files of a folder by the order of their names.

    `by` is a column by which tangles are split, and must be there.
    """
    path = Path(given).resolve()
    paths = sorted(one for one in path.iterdir() if _form(one)) if path.is_dir() else [path]
    if not path.exists():
        raise SettingError(f"{path}: no such file")
    if not paths:
        raise SettingError(f"{path}: has no .ndjson or .parquet file in it")
    pieces = tuple(_piece(one, schema, by, slice_bytes, slice_rows) for one in paths)
    return Slices(pieces, slice_bytes, slice_rows, by)


def require_same_files(state: Path, slices: Slices) -> None:
    """Refuse to go on from a savepoint or checkpoint of other files; Flink would, and say no more than that."""
    uid = _uid_in((state / "_metadata").read_bytes())
    if uid in ("", slices.uid):  # without one it is for Flink to refuse
        return
    before = uid.removeprefix(UID).split("-")
    changed = [Path(piece.path).name for piece in slices.pieces if piece.mark not in before]
    what = f"new or changed since then: {_some(changed)}" if changed else "some that it had are gone"
    if len(before[0]) != MARK:
        what = "of so many it is not known which"
    raise SettingError(
        f"--from {state}: was made from other files than --source names ({what}); put them back as they were, and "
        "what was added elsewhere; or begin anew without --from, and with an empty --sink"
    )


def _uid_in(metadata: bytes) -> str:
    """The name of the source that read slices, in what Flink tells of a state: text behind its length, two bytes."""
    at = metadata.find(UID.encode())
    return "" if at < 2 else metadata[at : at + int.from_bytes(metadata[at - 2 : at])].decode("ascii", "replace")


def _piece(path: Path, schema: Schema, by: str, slice_bytes: int, slice_rows: int) -> Piece:
    form = _form(path)
    if form == "Parquet":
        file = _parquet(path, schema, by)
        require_columns(str(path), file.columns, RowReader(schema).columns)
        if by:
            _require_split(path, file.columns, by)
        return _marked(path, form, file.height, slice_rows)
    if form == "NDJSON":
        piece = _marked(path, form, path.stat().st_size, slice_bytes)
        if by:
            _require_split(path, _columns(_lines(piece, 0, min(slice_bytes, piece.size))), by)
        return piece
    raise SettingError(f"{path}: Flink reads .ndjson and .parquet files, unpacked; turn it into one of these")


def _marked(path: Path, form: str, size: int, slice_size: int) -> Piece:
    """A piece, known by its name and size, how it is cut, and its first and last bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(KNOWN)
            end = size if form == "NDJSON" else file.seek(0, SEEK_END)
            file.seek(max(end - KNOWN, 0))
            tail = file.read(min(end, KNOWN))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    known = repr((path.name, form, size, slice_size, digest(head[:end]), digest(tail)))
    return Piece(str(path), form, -(-size // slice_size), size, digest(known.encode())[:MARK])


def _form(path: Path) -> str:
    form = ENDINGS.get(ending(path), "")
    return form if form in FORMS and path.suffix != ".gz" else ""


def _parquet(path: Path, schema: Schema, by: str) -> ParquetFile:
    reader = RowReader(schema)
    return ParquetFile(path, [*(name for name, _ in reader.columns), *([by] if by else [])], reader.names)


def _columns(lines: Sequence[bytes]) -> list[str]:
    """The columns that some row has; none where no row is whole."""
    found: dict[str, Any] = {}
    for line in lines:
        with suppress(DataError):
            found |= JsonLines().cells(line) or {}
    return list(found)


def _require_split(path: Path, columns: Sequence[str], by: str) -> None:
    if columns and by not in columns:
        raise DataError(f"{path}: there is no column {by!r} (--split-by); columns: {_some(columns)}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _lines(piece: Piece, start: int, end: int) -> list[bytes]:
    """The lines that begin at these bytes of a file, of which nothing behind its size is read."""
    path = piece.path
    try:
        with open(path, "rb") as file:
            if file.seek(0, SEEK_END) < piece.size:
                raise DataError(f"{path}: has become shorter since the job was sent; put the whole file back")
            file.seek(max(start - 1, 0))
            if start:
                file.readline()  # of the slice before, unless that ended with a line
            content = file.read(max(end - file.tell(), 0))
            if content and not content.endswith(b"\n"):
                content += file.readline(max(piece.size - file.tell(), 0))
    except OSError as error:
        raise DataError(f"{path}: cannot be read by this worker: {error.strerror}") from None
    return content.splitlines()
