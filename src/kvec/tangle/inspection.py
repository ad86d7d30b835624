"""The facts of a table of items at a glance: the paper's table I for any data set, and what looks wrong in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from kvec.tangle.sessions import Sequences, find_sequences, find_sessions
from kvec.tangle.tangles import factor
from kvec.tangle.tangling import arrange, retangle
from kvec.tangle.vocabulary import Vocabulary
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


@dataclass(frozen=True)
class Inspection:
    """The facts of a table, after its items were put in order of arrival (and into tangles, if the schema says so)."""

    items: int
    keys: int  # different ones in each tangle, summed
    sequences: int  # more than the keys where keys return after their end or expiry
    tangles: int
    groups: int | None
    mean_length: float
    least_length: int
    greatest_length: int
    mean_session_length: float
    concurrent_keys: float  # sequences between their first and last item, mean over arrivals
    most_concurrent_keys: int
    time_span: float | None  # from the first to the last time, in the units of the time column
    labels: dict[str, dict[str, int]]  # sequences of each class, by label column
    fields: tuple[FieldFacts, ...]
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `classes` are those of the first label column."""
        plain = asdict(self)
        first = next(iter(self.labels.values()), {})
        return plain | {"classes": first, "n_classes": len(first)}


def inspect_items(frame: pl.DataFrame, schema: Schema, source: str = "") -> Inspection:
    """Take the facts of a canonical frame.

    >>> items = {"tangle": [0] * 4, "key": [7, 8, 7, 7], "value.size": [40, 40, 52, 52], "row": [1, 2, 3, 4]}
    >>> schema = Schema.from_dict({"values": {"size": {"kind": "categorical"}}, "session": "size"})
    >>> facts = inspect_items(pl.DataFrame(items), schema)
    >>> facts.sequences, facts.mean_length, round(facts.mean_session_length, 2), facts.concurrent_keys
    (2, 2.0, 1.33, 1.25)
    """
    arranged = retangle(frame, schema.tangling) if schema.tangling else arrange(frame)
    tangle = arranged["tangle"].rle_id().to_numpy().astype(np.int64)
    time = arranged["time"].to_numpy() if "time" in arranged.columns else None
    is_end = arranged["end"].to_numpy() if "end" in arranged.columns else None
    sequences = find_sequences(tangle, factor(arranged["key"]), time, is_end, schema.expiry)
    session = find_sessions(sequences, _session_fields(arranged, schema), time, schema.session_gap)
    concurrent = _concurrent(sequences)
    labels = {name: _balance(arranged[f"label.{name}"], sequences) for name in schema.label_names}
    times = frame["time"].to_numpy() if "time" in frame.columns else None
    fields = tuple(_field(frame[f"value.{field.name}"], field.name, field.kind) for field in schema.values)
    return Inspection(
        items=arranged.height,
        keys=int((sequences.number == 0).sum()),
        sequences=len(sequences.first),
        tangles=int(tangle[-1]) + 1,
        groups=frame["group"].n_unique() if "group" in frame.columns else None,
        mean_length=float(sequences.length.mean()),
        least_length=int(sequences.length.min()),
        greatest_length=int(sequences.length.max()),
        mean_session_length=arranged.height / (int(session.max()) + 1),
        concurrent_keys=float(concurrent.mean()),
        most_concurrent_keys=int(concurrent.max()),
        time_span=None if times is None else float(times.max() - times.min()),
        labels=labels,
        fields=fields,
        findings=(
            *_repeated(frame, source),
            *_in_two_tangles(frame, schema),
            *_alone(sequences, tangle, schema),
            *(_constant(field) for field in fields if field.values < 2),
            *(finding for field in fields for finding in _all_different(frame[f"value.{field.name}"], field)),
            *(finding for field in fields for finding in _dates(frame[f"value.{field.name}"], field, schema)),
            *(finding for field in fields for finding in _decimal_commas(frame[f"value.{field.name}"], field)),
            *_unlabelled(arranged, sequences, fields, schema),
            *(finding for field in fields for finding in _tells_label(arranged, sequences, field, schema)),
            *(finding for name, counts in labels.items() for finding in _unbalanced(name, counts)),
        ),
    )


def _session_fields(frame: pl.DataFrame, schema: Schema) -> list[np.ndarray]:
    """The session fields as numbers that are equal where a session goes on; binned ones by their bins."""
    vocabulary = Vocabulary.fit(frame, Schema(values=tuple(f for f in schema.values if f.name in schema.session)))
    columns = []
    for field in vocabulary.coded:
        column = frame[f"value.{field.name}"]
        columns.append(factor(column) if field.kind == "categorical" else field.codes(column)[0].astype(np.int64))
    return columns


def _concurrent(sequences: Sequences) -> np.ndarray:
    """(N,) sequences that have begun and not yet ended at each arrival; those of earlier tangles all have."""
    n = len(sequences.sequence)
    begun = np.cumsum(np.bincount(sequences.first, minlength=n))
    ended = np.cumsum(np.bincount(sequences.last + 1, minlength=n + 1))[:n]
    return np.asarray(begun - ended)


def _balance(labels: pl.Series, sequences: Sequences) -> dict[str, int]:
    """Sequences of each class, largest first."""
    counts = labels[sequences.first].drop_nulls().value_counts(name="n")
    return dict(counts.sort("n", labels.name, descending=[True, False]).rows())


def _field(column: pl.Series, name: str, kind: str) -> FieldFacts:
    return FieldFacts(name, kind, column.drop_nulls().n_unique(), column.null_count())


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


def _unbalanced(name: str, counts: dict[str, int]) -> list[Finding]:
    if len(counts) == 1:
        text = f"label {name!r} has one class only, {next(iter(counts))!r}; training needs two"
        return [Finding("one class", 1, text)]
    rare = [label for label, n in counts.items() if n < FEW]
    if not rare:
        return []
    text = f"label {name!r}: {len(rare):,} class(es) have fewer than {FEW} sequences, such as {rare[0]!r}"
    return [Finding("rare classes", len(rare), text)]
