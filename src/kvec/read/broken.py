"""Says where a file that could not be read is broken: a slow second look, taken only after a failure."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kvec.read.arriving_forms import JsonLines
from kvec.words.errors import DataError


def what_is_wrong(path: Path, kind: str, error: BaseException | str) -> str:
    """One line about a broken file, with the line number where there is one."""
    reported = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if kind == "Parquet":
        return f"is not a whole Parquet file ({reported}); was it cut off, or renamed?"
    try:
        raw = _content(path)
    except (OSError, EOFError, zlib.error) as failure:
        return f"cannot be read: {failure}"
    if not raw.strip():
        return "the file is empty"
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = raw.count(b"\n", 0, failure.start) + 1
        return (
            f"line {line} is not UTF-8 text (byte {failure.start + 1:,} is 0x{raw[failure.start]:02x}); save as UTF-8"
        )
    return (_broken_json(text) if kind == "NDJSON" else _broken_csv(text)) or f"cannot be read as {kind}: {reported}"


def twice(header: Sequence[str]) -> str:
    """One line about a column that a header names twice; empty where none is, or only such as have no name.

    >>> twice(["key", "size", "key", ""])
    "the header names column 'key' twice; rename one of them, or leave it out"
    """
    name = next((name for i, name in enumerate(header) if name and name in header[:i]), "")
    return f"the header names column {name!r} twice; rename one of them, or leave it out" if name else ""


def cut_short(path: Path, separator: str, n_columns: int) -> str:
    """One line about the first line of a CSV file that has too few fields; empty where none has."""
    text = _content(path).decode("utf-8-sig")
    reader = csv.reader((line.removesuffix("\r") for line in text.split("\n")), delimiter=separator)
    with suppress(csv.Error):  # what cannot be read so was read otherwise
        for cells in reader:
            if 0 < len(cells) < n_columns:
                return (
                    f"line {reader.line_num} has {len(cells)} field{'s' * (len(cells) > 1)}, but the header has "
                    f"{n_columns}; was it cut short? an empty cell needs its separator too"
                )
    return ""


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def _broken_csv(text: str) -> str:
    lines = text.splitlines()
    separator = max(",;\t", key=lines[0].count)
    reader = csv.reader(lines, delimiter=separator)
    n_columns = len(next(reader))
    for cells in reader:
        if len(cells) > n_columns:
            return f"line {reader.line_num} has {len(cells)} fields, but the header has {n_columns}"
    for number, line in enumerate(lines, 1):
        if line.count('"') % 2:
            return f'line {number} has a quote (") that is not closed; double quotes inside a quoted cell'
    return ""


def _broken_json(text: str) -> str:
    reader = JsonLines()
    for number, line in enumerate(text.split("\n"), 1):
        try:
            reader.cells(line.encode())
        except DataError as failure:
            return f"line {number} {failure}"
    return ""
