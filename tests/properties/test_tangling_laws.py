"""Laws of tangling on random tables: untangling undoes tangling, splits share out every item once."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from kvec.tangle.tangling import arrange, retangle, split
from kvec.words.schema import CLOCKS, Tangling

NUMBERS = st.integers(0, 4)
ITEMS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=40)


def frame_of(rows: list[tuple[int, int, int, int]]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["tangle", "key", "time", "order"], orient="row")
    return frame.with_columns(
        pl.col("time").cast(pl.Float64), group=pl.col("tangle") // 2, row=pl.int_range(1, pl.len() + 1)
    )


def untangled(frame: pl.DataFrame) -> list[list[int]]:
    """The rows of each key of each tangle, in order of arrival."""
    parts = arrange(frame).partition_by("tangle", "key", maintain_order=True)
    return sorted(part["row"].to_list() for part in parts)


@settings(deadline=None)
@given(ITEMS)
def test_arrange_is_the_plain_stable_sort(rows: list[tuple[int, int, int, int]]) -> None:
    frame = frame_of(rows)
    seen = list(dict.fromkeys(frame["tangle"]))
    plain = sorted(frame.iter_rows(named=True), key=lambda r: (seen.index(r["tangle"]), r["time"], r["order"]))
    arranged = arrange(frame)
    assert arranged["row"].to_list() == [r["row"] for r in plain]
    assert arrange(arranged) is arranged


@settings(deadline=None)
@given(ITEMS, st.sampled_from(CLOCKS), st.sampled_from(["key", "group"]), st.integers(1, 4), st.integers(0, 3))
def test_untangling_undoes_tangling(
    rows: list[tuple[int, int, int, int]], clock: str, of: str, number: int, seed: int
) -> None:
    frame = frame_of(rows)
    before = untangled(frame)
    tangled = retangle(frame, Tangling(number, of, clock), seed)
    assert untangled(tangled) == before
    assert arrange(tangled) is tangled
    units = tangled.group_by("tangle").agg(pl.struct("group" if of == "group" else "key").n_unique().alias("n"))
    assert units.filter(pl.col("n") != number).height <= 1


@settings(deadline=None)
@given(ITEMS, st.integers(0, 5))
def test_a_split_shares_out_every_item_once(rows: list[tuple[int, int, int, int]], seed: int) -> None:
    frame = frame_of(rows).drop("group")
    unit = "tangle" if frame["tangle"].n_unique() > 1 else "key"
    n_units = frame[unit].n_unique()
    if n_units < 2:
        return
    parts = split(frame, (1, 1), seed)
    assert pl.concat(parts).sort("row").equals(frame)
    assert not set(parts[0][unit]) & set(parts[1][unit])
    assert abs(parts[0][unit].n_unique() - n_units / 2) < 1
