"""Lines, however the bytes of them come."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvec.read.arriving_lines import BOM, MOST_QUOTED, Arrived, CsvLines, JsonLines, Piece, Source, Splitter
from kvec.words.errors import DataError


def split(parts: list[bytes], most: int = 1000, has_quotes: bool = False) -> list[Piece]:
    splitter = Splitter(most, has_quotes)
    return [piece for part in parts for piece in splitter.feed(part)] + splitter.finish()


@given(st.lists(st.sampled_from([b"a", b"bcd", b"", b"\r", b'"', b"x\r", b"long" * 5]), max_size=12), st.data())
def test_lines_do_not_depend_on_how_bytes_come(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    for has_quotes in (False, True):
        found = split(parts, 12, has_quotes)
        assert found == split([whole], 12, has_quotes)
        assert sum(piece.size for piece in found) == len(whole), "sizes add up to where the next line begins"
    plain = split(parts)
    ended = lines[:-1] if lines and not lines[-1] else lines
    assert [piece.content for piece in plain] == [line.removesuffix(b"\r") for line in ended]


def test_a_line_that_is_too_long_is_bounded_and_told() -> None:
    splitter = Splitter(100)
    pieces = [piece for _ in range(50) for piece in splitter.feed(b"x" * 1000)]
    assert pieces == [] and sum(map(len, splitter._parts)) <= 1100, "no more is kept than needed"
    (long, short) = splitter.feed(b"\nshort\n")
    assert long.problem == "is longer than 100 bytes" and long.size == 50_001 and len(long.content) == 100
    assert (short.content, short.problem) == (b"short", "")


ROWS = st.lists(
    st.lists(st.text(st.sampled_from('a",;\n é'), max_size=5), min_size=2, max_size=2), min_size=1, max_size=8
)


@given(ROWS)
def test_csv_cells_are_those_of_the_csv_module(rows: list[list[str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    reader = CsvLines(["a", "b"], "", lambda columns: None)
    found = [reader.cells(piece.content) for piece in split([out.getvalue().encode()], has_quotes=True)]
    expected = [{"a": a or None, "b": b or None} if a or b else None for a, b in rows]
    assert found == [None, *expected]


def test_a_quote_that_is_not_closed_spoils_one_line_only() -> None:
    lines = [b'1,"open', *(b"%d,x" % i for i in range(2 * MOST_QUOTED)), b'8,"a\nb"', b'9,"end']
    pieces = split([b"\n".join(lines)], 10_000, has_quotes=True)
    bad = [piece for piece in pieces if piece.problem]
    assert [piece.content for piece in bad] == [b'1,"open', b'9,"end']
    assert [piece.lines for piece in pieces[-2:]] == [2, 1]
    assert len(pieces) == 2 * MOST_QUOTED + 3


@pytest.mark.parametrize(
    ("header", "row", "cells"),
    [
        ("a,b", "1,2", {"a": "1", "b": "2"}),
        ("a;b", "1;2", {"a": "1", "b": "2"}),
        ("a\tb", "1\t2", {"a": "1", "b": "2"}),
        ("\ufeffa,b", "1,2", {"a": "1", "b": "2"}),
        ("a,a,b", "1,3,2", {"a": "1", "b": "2"}),
        ("x,b,a", "0,2,1", {"a": "1", "b": "2"}),
        ("a,b", "1", {"a": "1"}),
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


def test_a_row_with_a_problem_has_no_cells() -> None:
    source = Source("rows.ndjson", JsonLines())
    with pytest.raises(DataError, match=r"^is longer"):
        source.cells(Arrived(3, b"{}", problem="is longer than 5 bytes"))
    assert source.place(Arrived(3, b"{}")) == "rows.ndjson, line 3"
    assert Arrived(3, b'1,"a\nb"').last == 4
