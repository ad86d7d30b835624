"""Where a stream's decisions go, and the lines that cannot be used: at once, and cut back to where a state goes on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from kvec.doors.messages import TOLD, is_told, say
from kvec.doors.writing import decision_row
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import DataError, SettingError
from kvec.words.items import Decision


class Outlet:
    """A file that grows by lines, or the standard output."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.is_file = path is not None and (path.is_file() or not path.exists())  # no device, no pipe: it keeps lines
        self.size = 0
        self._file: IO[bytes] | None = None

    def begin(self, is_kept: bool, is_replaced: bool) -> None:
        """Open it for the first time: with a state it must be empty; else it is replaced, or added to."""
        if self.path is None:
            return
        try:
            size = self.path.stat().st_size if self.path.exists() else 0
            if is_kept and size:
                raise SettingError(
                    f"{self.path}: holds something already, which the state knows nothing of; move it away, or name "
                    "another file"
                )
            self._file = self.path.open("wb" if is_replaced else "ab")
        except OSError as error:
            raise SettingError(f"{self.path}: cannot be written: {error.strerror}") from None
        self.size = 0 if is_replaced else size

    def go_on(self, place: Mapping[str, Any] | None) -> None:
        """Open it where `place` says, and cut off what was written behind."""
        if self.path is None:
            return
        if place is None or place["path"] != str(self.path.resolve()):
            self.begin(is_kept=True, is_replaced=False)
            return
        self.require(place, "name a new one")
        try:
            self._file = self.path.open("ab")
            self._file.truncate(place["size"])
        except OSError as error:
            raise SettingError(f"{self.path}: cannot be written: {error.strerror}") from None
        self.size = place["size"]

    def require(self, place: Mapping[str, Any] | None, way_out: str) -> None:
        """Refuse a file that has lost what it held when the state was saved."""
        if self.path is None or place is None or place["path"] != str(self.path.resolve()):
            return
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < place["size"]:
            now = f"has {size:,} bytes" if self.path.exists() else "is gone"
            raise SettingError(
                f"{self.path}: {now}, but had {place['size']:,} bytes when the state was saved; put the whole file "
                f"back, or {way_out}"
            )

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows as NDJSON; they are out when this returns."""
        text = "".join([json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows])
        self.write_bytes(text.encode("utf-8", "backslashreplace"))  # half a surrogate pair: as JSON writes it

    def write_bytes(self, content: bytes) -> None:
        """Write lines that are whole; they are out when this returns."""
        file = self._file or sys.stdout.buffer
        try:
            file.write(content)
            file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise SettingError(f"{self.path or 'standard output'}: cannot be written: {error.strerror}") from None
        self.size += len(content)

    def sync(self) -> None:
        """Have all of it on the disk."""
        if self._file is not None and self.is_file:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise SettingError(f"{self.path}: cannot be written: {error.strerror}") from None

    def place(self) -> dict[str, Any] | None:
        """Where `go_on` can go on."""
        return {"path": str(self.path.resolve()), "size": self.size} if self.path is not None and self.is_file else None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):  # what could not be written has been told by then
                self._file.close()


class Sink:
    """Decisions, a line each."""

    def __init__(self, path: Path | None, label_names: Sequence[str], is_shown: bool = False) -> None:
        self.outlet = Outlet(path)
        self._label_names = label_names
        self._is_silent = is_shown and path is None  # a view has the standard output for itself

    def write(self, decisions: Sequence[Decision]) -> None:
        """Write decisions; they are out when this returns."""
        if decisions and not self._is_silent:
            self.outlet.write([decision_row(one, self._label_names) for one in decisions])


class DeadLetters:
    """Lines that cannot be used: counted, and told on the standard error output or in a file."""

    def __init__(self, path: Path | None, before: int = 0, has_form: bool = False) -> None:
        self.outlet = Outlet(path)
        self.count = self.before = before  # so many were told in earlier runs
        self.first = ""  # what was wrong with this run's first one
        self._has_form = has_form  # --format says how the lines are meant

    def report(self, place: str, one: Arrived, problem: DataError, is_again: bool = False) -> None:
        """Tell what is wrong with a line: in the file, else the first few, then the tenth, the hundredth and so on.

        What was told before a crash is only counted, and written, again.
        """
        self.count += 1
        self.first = self.first or f"{place}: {problem}{self._way_out(problem)}"
        if self.outlet.path is not None:
            raw = one.content.decode("utf-8", "backslashreplace") if isinstance(one.content, bytes) else one.content
            self.outlet.write([{"place": place, "number": one.number, "problem": str(problem), "raw": raw}])
        elif not is_again and is_told(self.count):
            so_far = f" ({self.count:,} such lines so far)" if self.count > TOLD else ""
            say(f"{place}: {problem}{so_far}")
        if self._has_form and self.count == one.number == TOLD and not is_again:
            say(f"none of the first {TOLD} lines could be used{self._way_out(problem)}")

    def _way_out(self, problem: DataError) -> str:
        """What may help, if all lines are like this one."""
        if "longer than" in str(problem):
            return "; allow longer lines with --max-line"
        return "; if this is CSV, say --format csv" if self._has_form and "JSON" in str(problem) else ""
