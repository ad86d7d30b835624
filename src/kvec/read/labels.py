"""One label per key: from a column, from a second table, or from an event of the sequence itself."""

from __future__ import annotations

import polars as pl

from kvec.read.cells import identity, label_text, plain
from kvec.read.files import Rows, first
from kvec.read.table import Note
from kvec.words.errors import DataError
from kvec.words.schema import Outcome

SEQUENCE = ["tangle", "key"]
ONE_IN_ROWS = "a key has one in a tangle, unless schema.end or schema.expiry says when it returns as another sequence"
ONE_IN_TABLE = "a key has one, unless the labels table has the tangle columns too"


def labels_in_rows(
    rows: Rows, frame: pl.DataFrame, names: tuple[str, ...], can_return: bool = False
) -> tuple[pl.DataFrame, list[Note]]:
    """Add the label columns of the table itself; a label given on some items of a key holds for all of them.

    Where a key can return as another sequence, with another label, each sequence has the label of its first item.
    """
    for name in names:
        frame = frame.with_columns(label_text(rows, name).alias(f"label.{name}"))
        if can_return:
            continue
        _refuse_two_labels(rows, frame, SEQUENCE, name, ONE_IN_ROWS)
        if frame[f"label.{name}"].null_count():
            frame = frame.with_columns(pl.col(f"label.{name}").drop_nulls().first().over(SEQUENCE))
    return frame, _missing(rows, frame, names)


def labels_in_table(
    rows: Rows,
    frame: pl.DataFrame,
    labels: Rows,
    key: tuple[str, ...],
    tangle: tuple[str, ...],
    names: tuple[str, ...],
    empty_key: str,
    is_optional: bool = False,
) -> tuple[pl.DataFrame, list[Note]]:
    """Join the labels of a second table per key, and per tangle if that table has it; some must be found there."""
    columns = {"key": identity(labels, key, empty_key)} | ({"tangle": identity(labels, tangle)} if tangle else {})
    on = list(columns)
    known = pl.DataFrame({**columns, **{f"label.{name}": label_text(labels, name) for name in names}})
    for name in names:
        _refuse_two_labels(labels, known, on, name, "a key has one in a tangle" if tangle else ONE_IN_TABLE)
    known = known.group_by(on, maintain_order=True).agg(pl.all().drop_nulls().first())
    texts = [name for name in on if known[name].dtype != frame[name].dtype]
    given = frame.select(on).with_columns(pl.col(texts).cast(pl.String))
    joined = given.join(known.with_columns(pl.col(texts).cast(pl.String)), on=on, how="left", maintain_order="left")
    if not is_optional and all(joined[f"label.{name}"].null_count() == joined.height for name in names):
        raise DataError(
            f"{labels.name}: has a label for none of the keys in {rows.name} (such as {frame['key'][0]!r}); "
            f"do its {', '.join(map(repr, key))} mean the same?"
        )
    frame = pl.concat([frame, joined.drop(on)], how="horizontal")
    return frame, _missing(rows, frame, names)


def labels_from_events(rows: Rows, frame: pl.DataFrame, outcome: Outcome) -> tuple[pl.DataFrame, pl.Series, list[Note]]:
    """Label every sequence by its first outcome event; also say which items come before the cut."""
    column = f"label.{outcome.name}"
    by = [name for name in ("time", "order") if name in frame.columns]
    events = frame.select(*SEQUENCE, *by).with_columns(
        plain(rows, outcome.column).cast(pl.String).alias("event"), pl.int_range(pl.len()).alias("index")
    )
    events = events.sort(by, maintain_order=True) if by else events
    events = events.with_columns(pl.int_range(pl.len()).alias("position"))
    labels = events.filter(pl.col("event").is_in(list(outcome.label_from)))
    labels = labels.group_by(SEQUENCE, maintain_order=True).agg(pl.col("event").first().alias(column))
    cuts = events.filter(pl.col("event").is_in(list(outcome.cut_before or outcome.label_from)))
    cuts = cuts.group_by(SEQUENCE).agg(pl.col("position").min().alias("cut"))
    found = frame.select(SEQUENCE).with_columns(events.sort("index")["position"])
    found = found.join(labels, on=SEQUENCE, how="left", maintain_order="left")
    found = found.join(cuts, on=SEQUENCE, how="left", maintain_order="left")
    stays = found.select((pl.col("cut").is_null() | (pl.col("position") < pl.col("cut"))).alias("stays")).to_series()
    if not stays.any():
        raise DataError(f"{rows.name}, column {outcome.column!r}: no item comes before its sequence is cut")
    notes = []
    for name in outcome.label_from:
        if not (events["event"] == name).any():
            text = f"{rows.name}, column {outcome.column!r}: the outcome {name!r} never happens"
            notes.append(Note("no such event", 0, text))
    n_lost = found.select(SEQUENCE).n_unique() - found.filter(stays).select(SEQUENCE).n_unique()
    if n_lost:
        text = f"{rows.name}: {n_lost:,} sequence(s) have no item before the cut and are left out"
        notes.append(Note("cut to nothing", n_lost, text))
    return frame.with_columns(found[column].fill_null(outcome.otherwise)), stays, notes


def _refuse_two_labels(rows: Rows, frame: pl.DataFrame, on: list[str], name: str, way_out: str) -> None:
    column = f"label.{name}"
    span = frame.group_by(on).agg(pl.col(column).min().alias("least"), pl.col(column).max().alias("most"))
    if span.filter(pl.col("least") != pl.col("most")).is_empty():
        return
    labelled = frame.select(*on, column).with_row_index("index").drop_nulls(column)
    labelled = labelled.with_columns(pl.col("index", column).first().over(on).name.prefix("first "))
    later = labelled.filter(pl.col(column) != pl.col(f"first {column}")).row(0, named=True)
    rows.refuse(
        later["index"],
        name,
        f"key {later['key']} has two labels, {later[f'first {column}']!r} in {rows.place(later['first index'])} "
        f"and {later[column]!r} here; {way_out}",
    )


def _missing(rows: Rows, frame: pl.DataFrame, names: tuple[str, ...]) -> list[Note]:
    notes = []
    for name in names:
        is_null = frame[f"label.{name}"].is_null()
        if is_null.any():
            count = frame.filter(is_null).select(SEQUENCE).n_unique()
            at = first(is_null)
            text = f"{rows.place(at)}, column {name!r}: {count:,} key(s) have no label, {frame['key'][at]} is the first"
            notes.append(Note("missing labels", count, text))
    return notes
