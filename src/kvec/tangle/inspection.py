"""The facts of a table of items at a glance: the paper's table I for any data set, and what looks wrong in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from kvec.tangle.findings import FieldFacts, Finding, in_fields, in_labels, in_rows
from kvec.tangle.sessions import Sequences, find_sequences, find_sessions
from kvec.tangle.tangles import factor
from kvec.tangle.tangling import arrange, retangle
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.schema import Schema


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
    tangle, time, sequences = _sequences(arranged, schema)
    session = find_sessions(sequences, _session_fields(arranged, schema), time, schema.session_gap)
    concurrent = _concurrent(sequences)
    labels = {name: _balance(arranged[f"label.{name}"], sequences) for name in schema.label_names}
    times = frame["time"].to_numpy() if "time" in frame.columns else None
    fields = _fields(frame, schema)
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
            *in_rows(frame, sequences, tangle, schema, source),
            *in_fields(arranged, sequences, fields, schema),
            *in_labels(arranged, sequences, fields, schema, labels),
        ),
    )


def misleading(frame: pl.DataFrame, schema: Schema) -> list[Finding]:
    """What of a labelled frame would mislead who learns from it: of the findings those of fields and rare classes.

    >>> items = {"tangle": [0] * 4, "key": [7, 8, 9, 7], "value.size": [5] * 4, "label.app": ["a", "b", "b", "a"]}
    >>> schema = Schema.from_dict({"values": "size", "label": "app"})
    >>> [finding.kind for finding in misleading(pl.DataFrame(items), schema)]
    ['field with one value', 'rare classes']
    """
    arranged, fields = arrange(frame), _fields(frame, schema)
    sequences = _sequences(arranged, schema)[-1]
    labels = {name: _balance(arranged[f"label.{name}"], sequences) for name in schema.label_names}
    several = {name: counts for name, counts in labels.items() if len(counts) > 1}  # one alone is refused anyway
    return [*in_fields(arranged, sequences, fields, schema), *in_labels(arranged, sequences, fields, schema, several)]


def _sequences(arranged: pl.DataFrame, schema: Schema) -> tuple[np.ndarray, np.ndarray | None, Sequences]:
    tangle = arranged["tangle"].rle_id().to_numpy().astype(np.int64)
    time = arranged["time"].to_numpy() if "time" in arranged.columns else None
    is_end = arranged["end"].to_numpy() if "end" in arranged.columns else None
    return tangle, time, find_sequences(tangle, factor(arranged["key"]), time, is_end, schema.expiry)


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


def _fields(frame: pl.DataFrame, schema: Schema) -> tuple[FieldFacts, ...]:
    columns = [(field, frame[f"value.{field.name}"]) for field in schema.values]
    return tuple(FieldFacts(f.name, f.kind, c.drop_nulls().n_unique(), c.null_count()) for f, c in columns)
