"""Which worker's a row is: the tangle, or the part of a large one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from zlib import crc32

from kvec.read.arriving import RowReader
from kvec.read.arriving_forms import JsonLines
from kvec.words.errors import DataError
from kvec.words.schema import Schema


class Parting:
    """Names the tangle of a row; of a tangle that is split, with the part by key, or by another column.

    All rows of a key must be in one part: a column by which tangles are split has one value for each key.
    """

    def __init__(self, schema: Schema, parts: int = 1, by: str = "") -> None:
        self._reader, self._lines = RowReader(schema), JsonLines()
        self._parts, self._by = parts, by

    def __call__(self, row: bytes) -> str | None:
        """The name; None where the row is blank. A row that names nothing is refused."""
        cells = self._lines.cells(row)
        if cells is None:
            return None
        tangle, key = self._reader.name(cells)
        name = written(str(tangle))  # 12 and "12" are the same
        if self._parts == 1:
            return name
        by = cells.get(self._by) if self._by else key
        if by is None:
            raise DataError(f"column {self._by!r} (--split-by): is empty or not there; each row needs its part")
        return f"{name}#{crc32(written(str(by)).encode()) % self._parts}"

    def blocks(self, rows: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        """Rows put together by name, in order within each; a row that is nobody's is in a block without name."""
        found: dict[str, list[bytes]] = {}
        for row in rows:
            try:
                name = self(row)
            except DataError:
                name = ""
            if name is not None:
                found.setdefault(name, []).append(row)
        return ((name, b"\n".join(some)) for name, some in found.items())

    def refused(self, rows: bytes) -> list[tuple[bytes, str]]:
        """The rows of a block without name, and what is wrong with each."""
        told = []
        for row in rows.split(b"\n"):
            try:
                self(row)
            except DataError as problem:
                told.append((row, str(problem)))
        return told


def bad_line(row: bytes, problem: str) -> str:
    """A row that could not be used, as NDJSON."""
    plain = {"problem": problem, "raw": row.decode("utf-8", "backslashreplace")}
    return written(json.dumps(plain, ensure_ascii=False))


def written(text: str) -> str:
    r"""Text that Flink can write as UTF-8: half a surrogate pair becomes what JSON writes for it.

    >>> written("Zürich \ud800")
    'Zürich \\ud800'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
