"""Rows as lines of JSON and CSV: their cells, and what is refused."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvec.read.arriving_forms import BOM, CsvLines, JsonLines
from kvec.read.arriving_lines import Splitter
from kvec.words.errors import DataError

ROWS = st.lists(
    st.lists(st.text(st.sampled_from('a",;\n é'), max_size=5), min_size=2, max_size=2), min_size=1, max_size=8
)


@given(ROWS)
def test_csv_cells_are_those_of_the_csv_module(rows: list[list[str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    reader = CsvLines(["a", "b"], "", lambda columns: None)
    found = [reader.cells(piece.content) for piece in Splitter(has_quotes=True).feed(out.getvalue().encode())]
    expected = [{"a": a or None, "b": b or None} if a or b else None for a, b in rows]
    assert found == [None, *expected]


@pytest.mark.parametrize(
    ("header", "row", "cells"),
    [
        ("a,b", "1,2", {"a": "1", "b": "2"}),
        ("a;b", "1;2", {"a": "1", "b": "2"}),
        ("a\tb", "1\t2", {"a": "1", "b": "2"}),
        ("\ufeffa,b", "1,2", {"a": "1", "b": "2"}),
        ("a,a,b", "1,3,2", {"a": "1", "b": "2"}),
        ("x,b,a", "0,2,1", {"a": "1", "b": "2"}),
        ("a,b", "1,", {"a": "1", "b": None}),
        ("a,b", ",", None),
        ("a,b", "", None),
    ],
)
def test_csv_headers(header: str, row: str, cells: dict[str, str | None] | None) -> None:
    reader = CsvLines(["a", "b"], "", lambda columns: None)
    assert reader.cells(header.encode()) is None
    assert reader.cells(row.encode()) == cells
    again = CsvLines(["a", "b"], "", lambda columns: None)
    again.begin(reader.header)
    assert again.cells(row.encode()) == cells, "the header alone is enough to go on"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1,2,3", "has 3 fields, but the header has 2"),
        (b"1", "has 1 field, but the header has 2; was it cut short?"),
        (b"\xff,2", "is not UTF-8 text"),
        (b'1,"' + b"x" * 200_000 + b'"', "cannot be read as CSV: field larger"),
    ],
)
def test_csv_rows_that_cannot_be_used(line: bytes, message: str) -> None:
    reader = CsvLines(["a"], ",", lambda columns: None)
    reader.cells(b"a,b")
    with pytest.raises(DataError, match=message):
        reader.cells(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "is not JSON: Expecting property name"),
        (b'{"a": NaN}', "is not JSON: NaN is no JSON number; write null"),
        (b"[1]", "is no JSON object; each line must be one"),
        (b"7", "is no JSON object"),
        (b'{"a": "\xff"}', "is not UTF-8 text"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "is not JSON: Exceeds the limit"),
    ],
)
def test_json_lines_that_cannot_be_used(line: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        JsonLines().cells(line)


def test_json_lines() -> None:
    assert JsonLines().cells(b'{"a": 1}') == {"a": 1}
    assert JsonLines().cells(BOM + b'{"a": 1}') == {"a": 1}
    assert JsonLines().cells(b"  ") is None


def test_a_string_without_its_end_is_told_in_one_at() -> None:
    with pytest.raises(DataError, match=r"^is not JSON: Unterminated string starting at character 9$"):
        JsonLines().cells(b'{"key": "a')
