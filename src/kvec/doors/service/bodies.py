"""The bytes of a request as rows: one JSON object, an array of them, or lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from kvec.doors.service.bounds import Bounds
from kvec.doors.service.problems import Refusal

JSON, LINES = "json", "ndjson"
_NO_OBJECT = 'is no JSON object; each row must be one, such as {"key": 1, "size": 40}'


class Row(NamedTuple):
    """One row of a request, or why it cannot be used."""

    number: int  # from 0
    cells: Mapping[str, Any] | None
    problem: str = ""


def rows_of(body: bytes, form: str, bounds: Bounds) -> list[Row]:
    """The rows of a body; one that cannot be read at all is refused."""
    return _lines(body, bounds) if form == LINES else _array(body, bounds)


def _array(body: bytes, bounds: Bounds) -> list[Row]:
    found = parsed(body)
    rows = [found] if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise Refusal(422, "the body is neither an item, which is a JSON object, nor an array of them")
    _require_few(len(rows), bounds)
    return [Row(i, row) if row.__class__ is dict else Row(i, None, _NO_OBJECT) for i, row in enumerate(rows)]


def _lines(body: bytes, bounds: Bounds) -> list[Row]:
    rows: list[Row] = []
    for line in body.split(b"\n"):
        if not line or line.isspace():
            continue
        number = len(rows)
        if len(line) > bounds.max_line:
            rows.append(Row(number, None, f"is longer than {bounds.max_line:,} bytes"))
            continue
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as failure:
            rows.append(Row(number, None, f"is {_why_not(line, failure)}"))
            continue
        rows.append(Row(number, found) if found.__class__ is dict else Row(number, None, _NO_OBJECT))
    _require_few(len(rows), bounds)
    return rows


def parsed(body: bytes) -> Any:
    """A body as JSON; one that is none is refused."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as failure:
        raise Refusal(400, f"the body is {_why_not(body, failure)}") from None


def _why_not(text: bytes, failure: orjson.JSONDecodeError) -> str:
    """What is wrong with text that cannot be read as JSON, and where."""
    try:
        text.decode()
    except UnicodeDecodeError as wrong:
        return f"not UTF-8 text: byte {wrong.start + 1:,} of it does not fit"
    line = f"line {failure.lineno:,}, " if b"\n" in text else ""
    return f"not JSON: {failure.msg}, at {line}column {failure.colno:,}"


def _require_few(n: int, bounds: Bounds) -> None:
    if n > bounds.max_items:
        raise Refusal(413, f"the body has {n:,} rows; {bounds.max_items:,} are taken at once, so send it in parts")
