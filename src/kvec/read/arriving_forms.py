"""Rows as lines of text: NDJSON and CSV, a line at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from kvec.words.errors import DataError

BOM = b"\xef\xbb\xbf"  # some programs begin a file with it


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
            what = failure.msg.removesuffix(" at")
            raise DataError(f"is not JSON: {what} at character {failure.colno}") from None
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
        if (n := len(parts)) != self._n_columns:
            what = f"has {n} field{'s' * (n > 1)}, but the header has {self._n_columns}"
            raise DataError(what if n > self._n_columns else f"{what}; was it cut short?")
        cells = {name: parts[i] or None for name, i in self._places}
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


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; write null")


_JSON = json.JSONDecoder(parse_constant=_no_number)
