"""What all sources of rows have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvec.read.arriving_forms import CsvLines, JsonLines
from kvec.words.errors import DataError


class Arrived(NamedTuple):
    """One row as it came."""

    number: int  # its line, row or offset
    content: bytes | Mapping[str, Any]
    after: int = 0  # where in its source the next one begins
    origin: str = ""  # the sender or the partition, where a source has several
    problem: str = ""  # why it cannot be used
    peer: str = ""  # who sent it, for messages
    line: int = 0  # its line there

    @property
    def last(self) -> int:
        """The number of its last line, where a quoted cell runs over several."""
        return self.number + (self.content.count(b"\n") if isinstance(self.content, bytes) else 0)


class Source(ABC):
    """A source of rows that can be asked for what has come since."""

    kind = ""  # how a state names it
    unit = "line"
    is_live = False  # time passes while nothing comes
    is_replayable = True  # rows can be had again from a position on
    notice = ""  # what is good to know once it has started

    def __init__(self, name: str, decoder: JsonLines | CsvLines | None = None) -> None:
        self.name = name
        self._decoder = decoder

    def start(self, position: Mapping[str, Any]) -> None:
        """Open it, where `position` says; an empty one is the beginning."""
        if self._decoder is not None and isinstance(self._decoder, CsvLines) and position.get("header"):
            self._decoder.begin(position["header"])

    @abstractmethod
    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        """Rows that are there, at most so many; none after so many seconds without any. None: there is no more."""

    @abstractmethod
    def take(self, arrived: Sequence[Arrived]) -> None:
        """Move the position to behind these rows, the next of those that were read: they are in safe hands."""

    def position(self) -> dict[str, Any]:
        """Plain data from which `start` goes on behind the rows that were taken."""
        return {"header": self._decoder.header} if self._decoder is not None and self._decoder.header else {}

    def has_more(self) -> bool:
        """Whether something may come behind what was taken."""
        return True

    def saved(self) -> None:
        """Note that the position has been saved; most sources need not know."""
        return

    def close(self) -> None:
        """Let go of it, where there is something to let go of."""
        return

    def cells(self, one: Arrived) -> Mapping[str, Any] | None:
        """The cells of a row; None where it holds none. A row that cannot be used is refused."""
        if one.problem:
            raise DataError(one.problem)
        if self._decoder is None or not isinstance(one.content, bytes):
            return one.content  # type: ignore[return-value]
        return self._decoder.cells(one.content)

    def place(self, one: Arrived) -> str:
        """Where a row came from, for messages."""
        if one.peer:
            return f"{self.name}, {one.peer}, line {one.line}"
        return f"{self.name}, {self.unit} {one.number}"
