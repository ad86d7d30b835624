"""Tables of items in one canonical form, whatever they were read from (§III of the paper)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from kvec.words.errors import DataError
from kvec.words.items import Item
from kvec.words.schema import Schema

SHORT = "short flows"  # the note on labelled flows that are left out


@dataclass(frozen=True)
class Note:
    """A counted warning about a table that can be read all the same."""

    kind: str  # such as "not finite", "out of order", "text among numbers", "missing labels"
    count: int
    text: str


@dataclass(frozen=True)
class Table:
    """Items in the order of their source, and what was found while reading them.

    Columns of `frame`: tangle, key, group, time, order, end (the last four only where the schema has them),
    `value.<field>`, `label.<name>`, row (1-based, in its file) and, for a folder, file.
    """

    frame: pl.DataFrame
    schema: Schema  # resolved: every value field is there with a kind that is not `auto`
    source: str
    notes: tuple[Note, ...] = ()
    guessed: Mapping[str, str] = field(default_factory=dict)  # what was guessed, and why

    def place(self, index: int) -> str:
        """Where an item came from, for messages."""
        row = self.frame["row"][index]
        if "file" in self.frame.columns:
            return f"{self.frame['file'][index]}, row {row}"
        return f"{self.source}, row {row}"


def require_labels(table: Table) -> None:
    """Refuse a table that cannot be trained on: no labels, or only one class.

    Keys without a label are context for the others. Where keys return as other sequences, each item says whose label
    it has, so none may be missing.
    """
    if not table.schema.label_names:
        raise DataError(f"{table.source}: no label column is named; name one with label (or a table of labels)")
    for name in table.schema.label_names:
        labels = table.frame[f"label.{name}"]
        if labels.null_count() and (table.schema.end or table.schema.expiry is not None):
            without = table.frame.filter(labels.is_null()).select("tangle", "key").n_unique()
            first = int(labels.is_null().arg_max() or 0)
            raise DataError(
                f"{table.place(first)}, column {name!r}: key {table.frame['key'][first]} has no label "
                f"({without:,} of {table.frame.select('tangle', 'key').n_unique():,} keys have none); "
                "label every key, or leave those keys out"
            )
        classes = labels.drop_nulls().unique()
        if len(classes) < 2:
            found = f"every key has the label {classes[0]!r}" if len(classes) else "no key has a label"
            short = "".join(f"; {note.text}" for note in table.notes if note.kind == SHORT)
            raise DataError(f"{table.source}, column {name!r}: {found}; training needs at least two classes{short}")


def iterate(table: Table) -> Iterator[Item]:
    """The items of a table one by one, in its order."""
    frame = table.frame
    times = frame["time"] if "time" in frame.columns else pl.repeat(None, frame.height, dtype=pl.Float64, eager=True)
    ends = frame["end"] if "end" in frame.columns else pl.repeat(False, frame.height, eager=True)
    values = frame.select(pl.col(f"value.{name}").alias(name) for name in table.schema.value_names)
    for tangle, key, value, time, is_end in zip(
        frame["tangle"], frame["key"], values.iter_rows(named=True), times, ends, strict=True
    ):
        yield Item(tangle, key, value, time, is_end)
