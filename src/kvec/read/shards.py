"""Parquet files that need not fit in memory: which tangles lie where in them, and whole tangles as they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kvec.read.cells import identity
from kvec.read.files import ENDINGS, FAILURES, ROW, Opened, Part, Rows, ending, open_table
from kvec.read.rows import columns_of, find_schema, labels_source, read_table
from kvec.read.table import Note, Table
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Schema

CHUNK = 1 << 20  # rows that are read at a time
NEAR = 1 << 16  # rows between two tangles that are read too, rather than read again from another place


@dataclass(frozen=True)
class Shards:
    """A table of Parquet files of which only the places of tangles are known."""

    source: str
    schema: Schema  # resolved on the first rows
    places: pl.DataFrame  # of each tangle (and group, if there are groups) by name: rows, first and last of them
    notes: tuple[Note, ...]  # of the first rows
    guessed: dict[str, str]
    _files: tuple[_File, ...]
    _labels: Any

    def read(self, wanted: pl.DataFrame) -> pl.DataFrame:
        """The items of some tangles, or of some groups of them, in the order of the files, as `read_table` has them."""
        names = [name for name in ("tangle", "group") if name in wanted.columns]
        rows = self.places.join(wanted, on=names, how="semi").sort("first")
        spans = joined_spans(rows["first"].to_numpy(), rows["last"].to_numpy())
        tangles = wanted.select(pl.col(names).cast(pl.String)).unique()
        parts = [
            Part(file.name, file.columns, _loader(file, here, self.schema, tangles))
            for file in self._files
            if (here := file.within(spans))
        ]
        opened = Opened(self.source, tuple(parts), is_folder=len(self._files) > 1)
        return read_table(opened, self.schema, labels=self._labels).frame


@dataclass(frozen=True)
class _File:
    name: str
    columns: tuple[str, ...]
    start: int  # rows of the files before
    n_rows: int

    def within(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The spans of rows, counted from 0 in this file."""
        cut = ((max(a - self.start, 0), min(b - self.start, self.n_rows)) for a, b in spans)
        return [(a, b) for a, b in cut if a < b]

    def chunks(self, spans: Sequence[tuple[int, int]], columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows of these spans, some at a time, numbered from 1 as rows of the file."""
        lazy = pl.scan_parquet(self.name)
        for a, b in spans:
            for first in range(a, b, CHUNK):
                try:
                    frame = lazy.select(columns).slice(first, min(CHUNK, b - first)).collect()
                except FAILURES as error:
                    reason = (str(error).strip().splitlines() or ["no reason given"])[0]
                    raise DataError(f"{self.name}: cannot be read as Parquet: {reason}") from None
                yield frame.with_row_index(ROW, offset=first + 1).with_columns(pl.col(ROW).cast(pl.UInt32))


def open_shards(
    source: Any, schema: Schema | None = None, labels: Any = None, kinds: Mapping[str, str] | None = None
) -> Shards:
    """Look through the names of tangles; kinds of fields that are not given are guessed from the first rows."""
    if not isinstance(source, str | Path):
        raise DataError(f"streamed training reads Parquet files; give a path, not a {type(source).__name__}")
    schema = schema or find_schema(source) or Schema()
    labels = labels if labels is not None else labels_source(source, schema, False)
    opened = open_table(source, leave_out=[Path(labels)] if isinstance(labels, str | Path) else [])
    files: list[_File] = []
    for part in opened.parts:
        if (kind := ENDINGS[ending(Path(part.name))]) != "Parquet":
            raise DataError(
                f"{part.name}: is {kind}; streamed training reads Parquet: convert it, or leave out --stream"
            )
        n_rows = int(pl.scan_parquet(part.name).select(pl.len()).collect().item())
        files.append(_File(part.name, part.columns, sum(f.n_rows for f in files), n_rows))
    if not (n_rows := sum(file.n_rows for file in files)):
        raise DataError(f"{source}: there are no rows in it")
    head = _head(files, schema, labels, str(source), kinds)
    schema = head.schema
    if not schema.tangle:
        raise SettingError(f"{source}: streamed training reads whole tangles, and no tangle column is named; name one")
    if schema.tangling is not None:
        raise SettingError(
            f"{source}: schema.tangling makes new tangles of all sequences, which streamed training cannot; say "
            "--tangling none to take tangles as they are, or leave out --stream"
        )
    _refuse_fractions(files, schema)
    places = _places(files, schema)
    return Shards(str(source), schema, places, head.notes, dict(head.guessed), tuple(files), labels)


def joined_spans(first: Any, last: Any) -> list[tuple[int, int]]:
    """Spans of rows that hold all from `first` (sorted) to `last`, near ones as one.

    >>> joined_spans(np.array([0, 5, 900_000]), np.array([4, 9, 900_010]))
    [(0, 10), (900000, 900011)]
    """
    reached = np.maximum.accumulate(last)
    opens = np.flatnonzero(np.concatenate([[True], first[1:] > reached[:-1] + NEAR]))
    closes = np.concatenate([opens[1:], [len(first)]]) - 1
    return [(int(first[a]), int(reached[b]) + 1) for a, b in zip(opens, closes, strict=True)]


def _head(files: Sequence[_File], schema: Schema, labels: Any, source: str, kinds: Mapping[str, str] | None) -> Table:
    """The first rows as a table, by which the schema is settled."""
    file = next(file for file in files if file.n_rows)

    def load(wanted: Sequence[str]) -> pl.DataFrame:
        return next(file.chunks([(0, min(file.n_rows, CHUNK))], wanted))

    opened = Opened(source, (Part(file.name, file.columns, load),), is_folder=len(files) > 1)
    return read_table(opened, schema, labels=labels, kinds=kinds)


def _names(frame: pl.DataFrame, schema: Schema, file: str) -> dict[str, pl.Series]:
    """Tangles and groups as text."""
    rows = Rows(frame, file)
    roles = {"tangle": schema.tangle, "group": schema.group}
    return {
        role: identity(rows, columns_of(named, frame.columns)).cast(pl.String) for role, named in roles.items() if named
    }


def _named(schema: Schema, columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*columns_of(schema.tangle, columns), *columns_of(schema.group, columns)]))


def _places(files: Sequence[_File], schema: Schema) -> pl.DataFrame:
    found = []
    for file in files:
        for frame in file.chunks([(0, file.n_rows)], _named(schema, file.columns)):
            names = _names(frame, schema, file.name)
            row = (frame[ROW].cast(pl.Int64) + (file.start - 1)).alias("row")
            found.append(_gathered(pl.DataFrame({**names, "rows": 1, "first": row, "last": row}), list(names)))
    on = [name for name in ("tangle", "group") if name in found[0].columns]
    return _gathered(pl.concat(found), on).sort("first")


def _gathered(frame: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    return frame.group_by(on).agg(pl.col("rows").sum(), pl.col("first").min(), pl.col("last").max())


def _loader(
    file: _File, spans: list[tuple[int, int]], schema: Schema, tangles: pl.DataFrame
) -> Callable[[Sequence[str]], pl.DataFrame]:
    """Reads the rows of these tangles, which lie within these spans of a file among others."""

    def load(wanted: Sequence[str]) -> pl.DataFrame:
        columns = list(dict.fromkeys([*wanted, *_named(schema, file.columns)]))
        kept = []
        for frame in file.chunks(spans, columns):
            names = pl.DataFrame(_names(frame, schema, file.name)).select(tangles.columns).with_row_index("at")
            at = names.join(tangles, on=tangles.columns, how="semi", maintain_order="left")["at"]
            kept.append(frame.select(*wanted, ROW)[at])
        return pl.concat(kept).select(ROW, *wanted)

    return load


def _refuse_fractions(files: Sequence[_File], schema: Schema) -> None:
    """Whether 1.0 is the name 1 or 1.0 is seen by a look at all rows; here some are seen at a time."""
    kinds = pl.scan_parquet(files[0].name).collect_schema()
    for name in dict.fromkeys([*schema.key, *_named(schema, files[0].columns)]):
        if name in kinds and (kinds[name].is_float() or kinds[name].is_decimal()):
            raise DataError(
                f"{files[0].name}, column {name!r}: holds {kinds[name]}; names must be whole numbers or text"
            )
