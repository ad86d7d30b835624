"""Unfolds tables that hold one row per sequence, with lists in their cells, into one row per item."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from kvec.read.cells import numbers, times
from kvec.read.files import Rows, first
from kvec.read.table import Note
from kvec.words.errors import DataError
from kvec.words.schema import Schema

TIME, LAST = "kvec.time", "kvec.last"  # made here: the time of each item, and whether it is the last of its row
_SEQUENCE, _GAP = "kvec.sequence", "kvec.gap"


def unfold(rows: Rows, schema: Schema) -> tuple[Rows, list[Note]]:
    """One row per item; with a gap column, its running sum and the start time give TIME."""
    names = list(dict.fromkeys([*schema.unfold, *filter(None, [schema.unfold_gap])]))
    texts = {name for name in names if rows.frame[name].dtype == pl.String}
    frame = rows.frame.with_columns(_lists(rows, name, schema.separator) for name in names)
    lengths = frame.select(pl.col(names).list.len().fill_null(0).cast(pl.Int64))
    for name in names[1:]:
        if (bad := lengths[name] != lengths[names[0]]).any():
            at = first(bad)
            expected = f"column {names[0]!r} has {lengths[names[0]][at]}"
            rows.refuse(at, name, f"has {lengths[name][at]} entries, but {expected}; they must agree")
    is_empty = lengths[names[0]] == 0
    notes = []
    if n_empty := int(is_empty.sum()):
        if n_empty == frame.height:
            raise DataError(f"{rows.name}, column {names[0]!r}: every list is empty, so there are no items")
        place = rows.place(first(is_empty))
        notes.append(Note("empty lists", n_empty, f"{place}: {n_empty:,} row(s) hold no items, the first here"))
    if schema.unfold_gap:
        frame = frame.with_columns(times(rows, schema.time).alias(TIME) if schema.time else pl.lit(0.0).alias(TIME))
    frame = frame.filter(~is_empty).with_row_index(_SEQUENCE).explode(names)
    frame = frame.with_columns((pl.col(_SEQUENCE) != pl.col(_SEQUENCE).shift(-1)).fill_null(True).alias(LAST))
    items = replace(rows, frame=frame, texts=rows.texts | texts)
    return (_timed(items, schema.unfold_gap) if schema.unfold_gap else items), notes


def _lists(rows: Rows, name: str, separator: str) -> pl.Expr:
    dtype = rows.frame[name].dtype
    if isinstance(dtype, pl.List):
        return pl.col(name)
    if isinstance(dtype, pl.Array):
        return pl.col(name).arr.to_list()
    if dtype != pl.String:
        raise DataError(f"{rows.name}, column {name!r}: holds {dtype}, not lists; schema.unfold names list columns")
    text = pl.col(name).str.strip_chars(" \t[]()")
    if separator.isspace():
        text = text.str.replace_all(r"\s+", separator)
    parts = text.str.split(separator).list.eval(pl.element().str.strip_chars().replace("", None))
    return pl.when(text != "").then(parts).alias(name)


def _timed(items: Rows, gap_column: str) -> Rows:
    gaps = numbers(items, gap_column)
    if (bad := gaps.is_null() | ~gaps.is_finite()).any():
        at = first(bad)
        items.refuse(at, gap_column, f"{items.frame[gap_column][at]!r} is no gap; every item needs a number of seconds")
    elapsed = pl.col(_GAP).cum_sum().over(_SEQUENCE)
    return items.with_frame(items.frame.with_columns(gaps.alias(_GAP)).with_columns(pl.col(TIME) + elapsed))
