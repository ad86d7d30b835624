"""Turns the columns of a source into the types of the canonical table, naming the cell that does not fit."""

from __future__ import annotations

import polars as pl

from kvec.read.files import Rows, first
from kvec.words.errors import DataError

CLOCK_FORMS = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%dT%H:%M%z")
TRUE, FALSE = ("true", "1", "yes"), ("false", "0", "no")


def identity(rows: Rows, columns: tuple[str, ...], empty: str | None = None) -> pl.Series:
    """Keys, tangles or groups as Int64 or String; several columns are joined as text with `|`.

    `empty` names those whose cell is empty; without such a name they are refused (None: none can be given).
    """
    parts = [_one_identity(rows, column, empty) for column in columns]
    if len(parts) == 1:
        return parts[0]
    texts = [p.cast(pl.String).str.replace_all("|", r"\|", literal=True) for p in parts]  # a|b, c is not a, b|c
    return pl.select(pl.concat_str(texts, separator="|")).to_series()


def _one_identity(rows: Rows, column: str, empty: str | None) -> pl.Series:
    names = plain(rows, column, exact=True)
    if names.dtype == pl.Float64:
        names = names.cast(pl.Int64 if are_whole(names) else pl.String)
    if names.dtype == pl.String and (is_bare := names == "").any():  # a CSV file has no such cell
        names = names.set(is_bare, None)
    if not names.null_count():
        return names
    if not empty:
        way_out = "" if empty is None else ", or one for all such items with --empty-key NAME (schema.empty_key)"
        rows.refuse(first(names.is_null()), column, f"is empty; every item needs a name here{way_out}")
    return names.cast(pl.String).fill_null(empty)


def plain(rows: Rows, column: str, exact: bool = False) -> pl.Series:
    """A column as Int64, Float64 or String, by what it holds; `exact` keeps text such as 007 or 1.50 as it is."""
    cells = rows.frame[column]
    _require_single(rows, column)
    if cells.dtype.is_integer():
        narrow = cells.cast(pl.Int64, strict=False)
        return narrow if narrow.null_count() == cells.null_count() else cells.cast(pl.String)
    if cells.dtype.is_float() or cells.dtype.is_decimal():
        return cells.cast(pl.Float64).fill_nan(None) if exact else cells.cast(pl.Float64)
    if cells.dtype.is_temporal() and not exact:
        return seconds(cells)
    try:
        text = cells.cast(pl.String)
    except pl.exceptions.PolarsError:
        raise DataError(
            f"{rows.name}, column {column!r}: holds {cells.dtype}, which cannot be read as text; turn it into text "
            "or numbers first"
        ) from None
    return _typed(text, exact) if column in rows.texts else text


def _require_single(rows: Rows, column: str) -> None:
    dtype = rows.frame[column].dtype
    if isinstance(dtype, pl.List | pl.Array):
        way_out = "leave the column out, or name it in schema.unfold"
    elif isinstance(dtype, pl.Struct | pl.Binary | pl.Object):
        way_out = "leave the column out, or turn it into text or numbers first"
    else:
        return
    raise DataError(f"{rows.name}, column {column!r}: holds {dtype}, not single values; {way_out}")


def _typed(text: pl.Series, exact: bool) -> pl.Series:
    """Text as numbers where all of it is numbers; 007 is a name, not a number."""
    if text.null_count() == len(text):
        return text
    whole = text.cast(pl.Int64, strict=False)
    if whole.null_count() == text.null_count():
        padded = (text.str.starts_with("0") & (text.str.len_bytes() > 1)) | text.str.contains(r"^(\+|-0)")
        return text if padded.any() else whole
    if exact:
        return text
    number = text.str.strip_chars().cast(pl.Float64, strict=False)
    if number.null_count() == text.null_count():
        return number
    lower = text.str.to_lowercase()
    return lower if lower.is_in(["true", "false"]).all() else text


def numbers(rows: Rows, column: str) -> pl.Series:
    """A column as Float64, refusing text that is no number."""
    cells = rows.frame[column]
    if cells.dtype == pl.Boolean:
        return cells.cast(pl.Float64)
    found = plain(rows, column)
    if found.dtype != pl.String:
        return found.cast(pl.Float64)
    parsed = found.str.strip_chars().cast(pl.Float64, strict=False)
    if (bad := parsed.is_null() & found.is_not_null()).any():
        rows.refuse(first(bad), column, f"{found[first(bad)]!r} is no number; make the field categorical, or mend it")
    return parsed


def times(rows: Rows, column: str) -> pl.Series:
    """A column as Float64 seconds: from numbers, dates, or text such as 2014-10-22 11:15:41."""
    cells = rows.frame[column]
    found = seconds(cells) if cells.dtype.is_temporal() else plain(rows, column)
    if found.dtype == pl.String:
        found = _clock(found)
    found = found.cast(pl.Float64)
    if (bad := found.is_null() | ~found.is_finite()).any():
        given = cells[first(bad)]
        problem = "is empty" if given is None else f"{str(given)!r} is no time"
        rows.refuse(first(bad), column, f"{problem}; write seconds, or a form such as 2024-05-01 12:30:00")
    return found


def seconds(cells: pl.Series) -> pl.Series:
    """Dates, times and durations as seconds."""
    if cells.dtype == pl.Date:
        return cells.cast(pl.Int64).cast(pl.Float64) * 86_400
    per_second = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[getattr(cells.dtype, "time_unit", "ns")]
    ticks = cells.cast(pl.Int64)
    return (ticks // per_second).cast(pl.Float64) + (ticks % per_second) / per_second  # whole seconds stay exact


def _clock(text: pl.Series) -> pl.Series:
    tidy = (
        text.str.strip_chars().str.replace_all("/", "-").str.replace(r"^(\S+)\s+", "${1}T").str.replace("Z$", "+00:00")
    )
    found = tidy.cast(pl.Float64, strict=False)
    for form in CLOCK_FORMS:
        if not found.null_count():
            break
        parsed = tidy.str.to_datetime(form, time_unit="us", strict=False)
        found = found.zip_with(found.is_not_null(), seconds(parsed))
    return found


def orders(rows: Rows, column: str) -> pl.Series:
    """The order column as Int64 or Float64."""
    found = plain(rows, column)
    found = numbers(rows, column) if found.dtype == pl.String else found
    bad = found.is_null() | ~found.is_finite() if found.dtype == pl.Float64 else found.is_null()
    if bad.any():
        rows.refuse(first(bad), column, f"{rows.frame[column][first(bad)]!r} is no order; every item needs a number")
    return found


def ends(rows: Rows, column: str) -> pl.Series:
    """The end marks as booleans; an empty cell is no end."""
    cells = rows.frame[column]
    if cells.dtype == pl.Boolean:
        return cells.fill_null(False)
    text = (cells.cast(pl.Int64, strict=False) if cells.dtype.is_numeric() else plain(rows, column)).cast(pl.String)
    text = text.str.to_lowercase()
    if (bad := ~text.is_in([*TRUE, *FALSE]) & cells.is_not_null()).any():
        rows.refuse(first(bad), column, f"{cells[first(bad)]!r} is no end mark; use true and false, or 1 and 0")
    return text.is_in(TRUE).fill_null(False)


def label_text(rows: Rows, column: str) -> pl.Series:
    """Labels as text, whole numbers without a point: 58, not 58.0; empty text is a missing label."""
    found = plain(rows, column, exact=True)
    if found.dtype == pl.Float64:
        return (found.cast(pl.Int64) if are_whole(found) else found).cast(pl.String)
    text = found.cast(pl.String)
    if column in rows.texts and text.str.contains(r"^-?\d+(\.0+)?$").all():
        text = text.str.replace(r"\.0+$", "")
    return text.set(text == "", None) if (text == "").any() else text


def are_whole(found: pl.Series) -> bool:
    """Whether floats can be told as whole numbers without loss."""
    return bool(((found == found.floor()) & (found.abs() < 2**53)).all())
