"""Bytes cut into lines, however they come."""

from __future__ import annotations

from typing import NamedTuple

MOST_BYTES = 1 << 20  # of a line
MOST_QUOTED = 100  # lines that one quoted cell may run over
SHOWN = 200  # bytes of a line that cannot be used


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
