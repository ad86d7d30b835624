"""What looks wrong in a table that can be read all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from kvec.tangle.sessions import Sequences
from kvec.tangle.tangles import factor
from kvec.words.schema import Schema

MOSTLY = 0.9  # of a text column's values differ, or read as dates
MANY = 20  # rows, from which on values that hardly repeat are odd
_DATE = r"^\s*(\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[/.]\d{1,2}[/.](\d{4}|\d{2}))([T ,].*)?$"
_COMMA = r"^\s*[+-]?\d*,\d+\s*$"
FEW = 3  # a class of fewer sequences cannot be in the training, the validation and the test part


@dataclass(frozen=True)
class Finding:
    """Something that looks wrong; the table can be read all the same."""

    kind: str
    count: int
    text: str


@dataclass(frozen=True)
class FieldFacts:
    """What one value field holds."""

    name: str
    kind: str
    values: int  # different ones
    missing: int
    guessed: str = ""  # why this kind was chosen, where it was not given


def in_rows(
    frame: pl.DataFrame, sequences: Sequences, tangle: np.ndarray, schema: Schema, source: str
) -> list[Finding]:
    """What is odd about rows, keys and tangles."""
    return [*_repeated(frame, source), *_in_two_tangles(frame, schema), *_alone(sequences, tangle, schema)]


def in_fields(
    arranged: pl.DataFrame, sequences: Sequences, fields: tuple[FieldFacts, ...], schema: Schema
) -> list[Finding]:
    """Fields that tell nothing, or something else than they seem to."""
    columns = [(field, arranged[f"value.{field.name}"]) for field in fields]
    return [
        *(_constant(field) for field in fields if field.values < 2),
        *(finding for field, column in columns for finding in _all_different(column, field)),
        *(finding for field, column in columns for finding in _dates(column, field, schema)),
        *(finding for field, column in columns for finding in _decimal_commas(column, field)),
        *(finding for field in fields for finding in _tells_label(arranged, sequences, field, schema)),
    ]


def in_labels(
    arranged: pl.DataFrame, sequences: Sequences, fields: tuple[FieldFacts, ...], schema: Schema,
    labels: Mapping[str, Mapping[str, int]],
) -> list[Finding]:  # fmt: skip
    """Labels that are not there, or classes that cannot be learned."""
    unlabelled = _unlabelled(arranged, sequences, fields, schema)
    return [*unlabelled, *(finding for name, counts in labels.items() for finding in _unbalanced(name, counts))]


def _repeated(frame: pl.DataFrame, source: str) -> list[Finding]:
    """Items that are equal in all columns to an earlier one; without a clock, equal items are nothing odd."""
    if not {"time", "order"} & set(frame.columns):
        return []
    columns = [c for c in frame.columns if c in ("tangle", "key", "time", "order") or c.startswith("value.")]
    marks = frame.select(pl.struct(columns).hash().alias("mark")).to_series()
    count = frame.height - marks.n_unique()
    if not count:
        return []
    again = int((~marks.is_first_distinct()).arg_max() or 0)
    place = f"{source}, row {frame['row'][again]}" if source else f"row {frame['row'][again]}"
    text = f"{place}: {count:,} item(s) repeat an earlier one of the same key, time and value, the first here"
    return [Finding("duplicate items", count, text)]


def _in_two_tangles(frame: pl.DataFrame, schema: Schema) -> list[Finding]:
    if not schema.tangle:
        return []
    several = frame.select("tangle", "key").unique().group_by("key").len().filter(pl.col("len") > 1)
    if not several.height:
        return []
    key, n = several.sort(pl.col("key").cast(pl.String)).row(0)
    text = f"{several.height:,} key(s) are in more than one tangle ({key} in {n:,}); each tangle has its own sequence"
    return [Finding("key in two tangles", several.height, text)]


def _alone(sequences: Sequences, tangle: np.ndarray, schema: Schema) -> list[Finding]:
    n_tangles, n = int(tangle[-1]) + 1, len(sequences.first)
    if n_tangles == n:
        return [Finding("single sequences", n, "every tangle holds one sequence; [tangling] puts several side by side")]
    if n_tangles == 1 and not schema.tangle:
        return [Finding("one tangle", 1, "all keys are in one tangle; name a tangle column, or use [tangling]")]
    return []


def _constant(field: FieldFacts) -> Finding:
    held = "one value only" if field.values else "no value at all"
    return Finding("field with one value", 1, f"field {field.name!r} holds {held}, so it tells nothing")


def _all_different(column: pl.Series, field: FieldFacts) -> list[Finding]:
    """Text or whole numbers that never repeat, or text that hardly does; measurements seldom do: nothing odd."""
    is_measured = column.dtype.is_float() and not (column == column.floor()).all()
    if is_measured or len(column) < FEW or _reads_as_dates(column) or _has_decimal_commas(column):
        return []
    if field.values == len(column):
        text = f"field {field.name!r} differs in every row, as a row number does; leave it out if it is one"
        return [Finding("field that never repeats", 1, text)]
    if column.dtype == pl.String and len(column) >= MANY and field.values > MOSTLY * len(column):
        text = (
            f"field {field.name!r} has {field.values:,} values in {len(column):,} rows, too many to learn any of them; "
            "leave it out"
        )
        return [Finding("field that hardly repeats", 1, text)]
    return []


def _dates(column: pl.Series, field: FieldFacts, schema: Schema) -> list[Finding]:
    """Text that tells when something was is of no use as a category."""
    if not _reads_as_dates(column):
        return []
    source = next(each.source for each in schema.values if each.name == field.name)
    way_out = "leave it out" if schema.time else f"if it says when items came, name it as the time: --time {source}"
    return [
        Finding(
            "dates as text", 1, f"field {field.name!r} reads as dates, such as {column.drop_nulls()[0]!r}; {way_out}"
        )
    ]


def _reads_as_dates(column: pl.Series) -> bool:
    if column.dtype != pl.String:
        return False
    known = column.drop_nulls()
    return len(known) >= FEW and int(known.str.contains(_DATE).sum()) > MOSTLY * len(known)


def _decimal_commas(column: pl.Series, field: FieldFacts) -> list[Finding]:
    """Numbers that count as text, since a comma stands where a point should."""
    if not _has_decimal_commas(column):
        return []
    example = column.filter(column.str.contains(_COMMA))[0]
    text = (
        f"field {field.name!r} holds numbers with decimal commas, such as {example!r}, which count as text; write them "
        "with points, as in 20.5"
    )
    return [Finding("decimal commas", 1, text)]


def _has_decimal_commas(column: pl.Series) -> bool:
    if column.dtype != pl.String:
        return False
    known = column.drop_nulls()
    has_comma = known.str.contains(_COMMA)
    is_number = known.str.strip_chars().cast(pl.Float64, strict=False).is_not_null()
    return bool(has_comma.any()) and int((has_comma | is_number).sum()) > MOSTLY * len(known)


def _unlabelled(
    frame: pl.DataFrame, sequences: Sequences, fields: tuple[FieldFacts, ...], schema: Schema
) -> list[Finding]:
    """No label, and the field that may be meant as one: a few classes, each sequence of one."""
    if schema.label_names:
        return []
    sources = {each.name: each.source for each in schema.values}
    near = (sources[each.name] for each in fields if _may_be_label(frame, sequences, each))
    name = next(near, None)
    how = (
        "name its column with --label"
        if name is None
        else f"{name!r} never changes within a key: is it --label {name}?"
    )
    return [Finding("no label", 1, f"no label is named, so nothing can be learned from it; {how}")]


def _may_be_label(frame: pl.DataFrame, sequences: Sequences, field: FieldFacts) -> bool:
    if field.kind != "categorical" or not 2 <= field.values <= len(sequences.first) // 2:
        return False
    values = factor(frame[f"value.{field.name}"])
    return bool((values == values[sequences.first][sequences.sequence]).all()) and sequences.length.max() > 1


def _tells_label(frame: pl.DataFrame, sequences: Sequences, field: FieldFacts, schema: Schema) -> list[Finding]:
    """A field that has one value in each sequence, and one label for each value, is the label under another name."""
    if field.values < 2 or field.values > len(sequences.first) // 2:
        return []
    values = factor(frame[f"value.{field.name}"])
    if (values != values[sequences.first][sequences.sequence]).any():
        return []
    found = []
    for name in schema.label_names:
        labels = factor(frame[f"label.{name}"])[sequences.first]
        pairs = np.unique(np.stack([values[sequences.first], labels], axis=1), axis=0)
        if len(pairs) == len(np.unique(pairs[:, 0])) and len(np.unique(labels)) > 1:
            text = f"field {field.name!r} never changes within a key and tells the label {name!r}; leave it out"
            found.append(Finding("field that gives the label away", 1, text))
    return found


def _unbalanced(name: str, counts: Mapping[str, int]) -> list[Finding]:
    if len(counts) == 1:
        text = f"label {name!r} has one class only, {next(iter(counts))!r}; training needs two"
        return [Finding("one class", 1, text)]
    rare = [label for label, n in counts.items() if n < FEW]
    if not rare:
        return []
    text = f"label {name!r}: {len(rare):,} class(es) have fewer than {FEW} sequences, such as {rare[0]!r}"
    return [Finding("rare classes", len(rare), text)]
