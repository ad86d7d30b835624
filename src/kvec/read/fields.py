"""Makes the value fields of the canonical table, and guesses the kinds that are not given."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from kvec.read.cells import are_whole, numbers, plain
from kvec.read.files import Rows, first
from kvec.read.table import Note
from kvec.words.schema import Field

FEW = 64  # so many different whole numbers are always categories
MANY = 20_000  # more different whole numbers than this never are
REPEATS = 20  # in between they are when each is seen this often on average
MOSTLY = 0.9  # of a column's cells numbers, and the others are named


def value_field(rows: Rows, field: Field) -> tuple[pl.Series, Field, str, Note | None]:
    """The values of a field, the field with its kind settled, why that kind was guessed, and what was odd."""
    cells, note = _finite(rows, field, _found(rows, field))
    if field.transform == "sign":
        cells = (cells >= 0).cast(pl.Int64)
    elif field.transform == "magnitude":
        cells = cells.abs()
    why = ""
    if field.kind == "auto":
        kind, why = guess_kind(cells)
        field = replace(field, kind=kind)
        note = note or _among_numbers(rows, field, cells)
    if field.kind != "categorical":
        cells = cells.cast(pl.Float64)
    elif cells.dtype == pl.Float64:
        is_whole = are_whole(cells)
        cells = cells.cast(pl.Int64) if is_whole else cells.cast(pl.String).str.replace(r"\.0$", "")  # 40 is never 40.0
    return cells.alias(f"value.{field.name}"), field, why, note


def guess_kind(cells: pl.Series) -> tuple[str, str]:
    """Categorical or binned, and the reason.

    >>> guess_kind(pl.Series([6, 17, 6, 6]))
    ('categorical', '2 different whole numbers')
    >>> guess_kind(pl.Series([0.5, 0.25]))
    ('binned', 'numbers with fractions')
    """
    if cells.dtype == pl.String:
        return "categorical", "text"
    if cells.dtype == pl.Float64 and not are_whole(cells):
        return "binned", "numbers with fractions"
    different = cells.drop_nulls().n_unique()
    is_few = different <= FEW or (different <= MANY and len(cells) - cells.null_count() >= REPEATS * different)
    return "categorical" if is_few else "binned", f"{different:,} different whole numbers"


def _found(rows: Rows, field: Field) -> pl.Series:
    if field.transform == "first":
        text = plain(rows, field.source, exact=True).cast(pl.String)
        return text.str.split_exact("|", 1).struct.field("field_0").str.strip_chars()
    found = plain(rows, field.source)
    needs_numbers = field.transform in ("sign", "magnitude") or field.kind in ("binned", "projected")
    return numbers(rows, field.source) if needs_numbers and found.dtype == pl.String else found


def _finite(rows: Rows, field: Field, cells: pl.Series) -> tuple[pl.Series, Note | None]:
    """NaN and infinities become missing values, counted."""
    if cells.dtype != pl.Float64:
        return cells, None
    bad = ~cells.is_finite().fill_null(True)
    if not (count := int(bad.sum())):
        return cells, None
    place = f"{rows.place(first(bad))}, column {field.source!r}"
    text = f"{place}: {count:,} value(s) are NaN or infinite and count as missing, the first here"
    return cells.set(bad, None), Note("not finite", count, text)


def _among_numbers(rows: Rows, field: Field, cells: pl.Series) -> Note | None:
    """Names the text that keeps a column of numbers from being one."""
    if cells.dtype != pl.String:
        return None
    number = cells.str.strip_chars().cast(pl.Float64, strict=False)
    is_text = number.is_null() & cells.is_not_null()
    count, n = int(is_text.sum()), len(cells) - cells.null_count()
    if not 0 < count <= (1 - MOSTLY) * n:
        return None
    others = f" and {count - 1:,} more" if count > 1 else ""
    text = (
        f"{rows.place(first(is_text))}, column {field.source!r}: {cells[first(is_text)]!r}{others} among {n - count:,} "
        f"numbers makes the field categorical; mend it, or, if it is meant, say --kind {field.name}=categorical"
    )
    return Note("text among numbers", count, text)
