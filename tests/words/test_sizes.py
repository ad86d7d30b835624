"""The rows of the embedding table: every part has its own, and parts that are switched off have none."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from kvec.words.sizes import Vocabularies

SOME = st.integers(0, 5)


@given(fields=st.lists(st.integers(2, 9), max_size=4), slots=SOME, positions=SOME, arrivals=SOME, gaps=SOME)
def test_each_part_has_its_own_rows_without_a_gap(
    fields: list[int], slots: int, positions: int, arrivals: int, gaps: int
) -> None:
    sizes = Vocabularies(tuple(fields), slots, positions, arrivals, gaps, projected=3)
    assert sizes.sizes() == [*fields, slots, positions, arrivals, gaps, gaps]
    parts = [size for size in (*fields, slots, positions, arrivals, gaps, gaps) if size]
    rows = [range(start, start + size) for start, size in zip(sizes.starts(), parts, strict=True)]
    assert [*chain(*rows)] == [*range(sum(parts))]


def test_nothing_at_all_has_no_rows() -> None:
    assert Vocabularies((), 0, 0, 0, 0, projected=4).starts() == []
