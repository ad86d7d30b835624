"""What sources of rows have in common, and rows as lines of text: NDJSON and CSV, a line at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from kvec.words.errors import DataError

MOST_BYTES = 1 << 20  # of a line
MOST_QUOTED = 100  # lines that one quoted cell may run over
SHOWN = 200  # bytes of a line that cannot be used
BOM = b"\xef\xbb\xbf"  # some programs begin a file with it


class Arrived(NamedTuple):
    """One row as it came."""

    number: int  # its line, row or offset
    content: bytes | Mapping[str, Any]
    after: int = 0  # where in its source the next one begins
    origin: str = ""  # the sender or the partition, where a source has several
    problem: str = ""  # why it cannot be used

    @property
    def last(self) -> int:
        """The number of its last line, where a quoted cell runs over several."""
        return self.number + (self.content.count(b"\n") if isinstance(self.content, bytes) else 0)


class JsonLines:
    """Reads lines that are JSON objects."""

    header = ""

    def cells(self, line: bytes) -> Mapping[str, Any] | None:
        """The cells of a row; None where the line is blank."""
        try:
            found = _JSON.decode(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise DataError("is not UTF-8 text") from None
        except json.JSONDecodeError as failure:
            if not line.strip():
                return None
            if line.startswith(BOM):
                return self.cells(line.removeprefix(BOM))
            raise DataError(f"is not JSON: {failure.msg} at character {failure.colno}") from None
        except RecursionError:
            raise DataError("is not JSON that can be read: it is nested too deeply") from None
        except ValueError as failure:
            raise DataError(f"is not JSON: {failure}") from None
        if not isinstance(found, dict):
            raise DataError('is no JSON object; each line must be one, such as {"key": 1, "size": 40}')
        return found


class CsvLines:
    """Reads the lines of a CSV file, of which the first one is the header.

    `separator` may be empty: a header without commas then tells it. `check` looks at the columns, and may refuse them.
    """

    def __init__(self, wanted: Sequence[str], separator: str, check: Callable[[list[str]], None]) -> None:
        self.header = ""
        self._wanted, self._separator, self._check = frozenset(wanted), separator, check
        self._places: list[tuple[str, int]] = []
        self._n_columns = 0

    def cells(self, line: bytes) -> Mapping[str, Any] | None:
        """The cells of a row; None where the line is blank, or the header."""
        if not line.strip():
            return None
        try:
            text = line.decode("utf-8-sig" if not self.header else "utf-8")
        except UnicodeDecodeError:
            raise DataError("is not UTF-8 text; save as UTF-8") from None
        if not self.header:
            self.begin(text)
            return None
        parts = self._split(text)
        if len(parts) > self._n_columns:
            raise DataError(f"has {len(parts)} fields, but the header has {self._n_columns}")
        n = len(parts)
        cells = {name: parts[i] or None for name, i in self._places if i < n}
        return cells if any(parts) else None

    def begin(self, header: str) -> None:
        """Take the header."""
        if not self._separator:
            other = next((sign for sign in ";\t" if sign in header), ",")
            self._separator = other if "," not in header else ","
        columns = self._split(header)
        self._check(columns)
        self._n_columns = len(columns)
        self._places = [(name, i) for i, name in enumerate(columns) if name in self._wanted and name not in columns[:i]]
        self.header = header

    def _split(self, text: str) -> list[str]:
        if '"' not in text:
            return text.split(self._separator)
        try:
            return next(csv.reader([text], delimiter=self._separator))
        except (csv.Error, StopIteration) as failure:
            raise DataError(f"cannot be read as CSV: {failure}") from None


class Piece(NamedTuple):
    """A line, or several that one quoted cell runs over."""

    content: bytes  # without the line break
    size: int  # bytes in all, with it
    lines: int = 1
    problem: str = ""


class Splitter:
    """Cuts bytes into lines, however they come; `has_quotes` keeps line breaks inside quotes."""

    def __init__(self, most: int = MOST_BYTES, has_quotes: bool = False) -> None:
        self._most, self._has_quotes = most, has_quotes
        self._parts: list[bytes] = []  # of a line that is not finished
        self._size = 0
        self._quoted: list[Piece] = []  # lines of a quote that is not closed

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for its line break."""
        return not self._size and not self._quoted

    def feed(self, data: bytes) -> list[Piece]:
        """Take more bytes; the lines that are finished by them."""
        first, *others = data.split(b"\n")
        self._grow(first)
        if not others:
            return []
        pieces = [self._finished(1)]
        pieces += [self._piece(line, len(line) + 1) for line in others[:-1]]
        self._grow(others[-1])
        return self._closed(pieces) if self._has_quotes else pieces

    def finish(self) -> list[Piece]:
        """What is left when no more bytes come."""
        pieces = [self._finished(0)] if self._size else []
        if self._has_quotes:
            pieces = self._closed(pieces)
            while self._quoted:
                pieces += self._give_up()
        return pieces

    def _grow(self, part: bytes) -> None:
        if self._size <= self._most:
            self._parts.append(part)
        self._size += len(part)

    def _finished(self, line_break: int) -> Piece:
        piece = self._piece(b"".join(self._parts), self._size + line_break)
        self._parts, self._size = [], 0
        return piece

    def _piece(self, line: bytes, size: int) -> Piece:
        if size - 1 > self._most:
            return Piece(line[: min(SHOWN, self._most)], size, 1, f"is longer than {self._most:,} bytes")
        return Piece(line[:-1] if line.endswith(b"\r") else line, size)

    def _closed(self, pieces: list[Piece]) -> list[Piece]:
        """Pieces whose quotes are closed; lines of an open quote are kept back and joined."""
        found = []
        for piece in pieces:
            is_even = piece.content.count(b'"') % 2 == 0
            if is_even != bool(self._quoted):
                found.append(self._joined(piece) if self._quoted else piece)
                continue
            self._quoted.append(piece)
            if len(self._quoted) > MOST_QUOTED or sum(one.size for one in self._quoted) > self._most:
                found += self._give_up()
        return found

    def _joined(self, last: Piece) -> Piece:
        parts, self._quoted = [*self._quoted, last], []
        content = b"\n".join([part.content for part in parts])
        return Piece(content, sum(part.size for part in parts), len(parts))

    def _give_up(self) -> list[Piece]:
        """Let the line whose quote is not closed be the broken one, and look at those behind it anew."""
        first, *others = self._quoted
        self._quoted = []
        problem = first.problem or 'has a quote (") that is not closed; double quotes inside a quoted cell'
        return [first._replace(problem=problem), *self._closed(others)]


class Source:
    """A source of rows that can be asked for what has come since."""

    kind = ""  # how a state names it
    unit = "line"
    is_live = False  # time passes while nothing comes
    is_replayable = True  # rows can be had again from a position on

    def __init__(self, name: str, decoder: JsonLines | CsvLines | None = None) -> None:
        self.name = name
        self._decoder = decoder

    def start(self, position: Mapping[str, Any]) -> None:
        """Open it, where `position` says; an empty one is the beginning."""
        if self._decoder is not None and isinstance(self._decoder, CsvLines) and position.get("header"):
            self._decoder.begin(position["header"])

    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        """Rows that are there, at most so many; none after so many seconds without any. None: there is no more."""
        raise NotImplementedError

    def take(self, arrived: Sequence[Arrived]) -> None:
        """Move the position to behind these rows, the next of those that were read: they are in safe hands."""
        raise NotImplementedError

    def position(self) -> dict[str, Any]:
        """Plain data from which `start` goes on behind the rows that were taken."""
        return {"header": self._decoder.header} if self._decoder is not None and self._decoder.header else {}

    def has_more(self) -> bool:
        """Whether something may come behind what was taken."""
        return True

    def saved(self) -> None:
        """Note that the position has been saved."""

    def close(self) -> None:
        """Let go of it."""

    def cells(self, one: Arrived) -> Mapping[str, Any] | None:
        """The cells of a row; None where it holds none. A row that cannot be used is refused."""
        if one.problem:
            raise DataError(one.problem)
        if self._decoder is None or not isinstance(one.content, bytes):
            return one.content  # type: ignore[return-value]
        return self._decoder.cells(one.content)

    def place(self, one: Arrived) -> str:
        """Where a row came from, for messages."""
        return f"{self.name}, {self.unit} {one.number}"


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; write null")


_JSON = json.JSONDecoder(parse_constant=_no_number)
