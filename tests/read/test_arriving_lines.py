"""Lines, however the bytes of them come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvec.read.arriving_lines import MOST_QUOTED, Piece, Splitter


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


def test_a_quote_that_is_not_closed_spoils_one_line_only() -> None:
    lines = [b'1,"open', *(b"%d,x" % i for i in range(2 * MOST_QUOTED)), b'8,"a\nb"', b'9,"end']
    pieces = split([b"\n".join(lines)], 10_000, has_quotes=True)
    bad = [piece for piece in pieces if piece.problem]
    assert [piece.content for piece in bad] == [b'1,"open', b'9,"end']
    assert [piece.lines for piece in pieces[-2:]] == [2, 1]
    assert len(pieces) == 2 * MOST_QUOTED + 3
