"""Labelled sequences in an SQLite file: the label, what was decided, and the items' values, for training again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from kvec.doors.service.traces import Trace
from kvec.words.errors import DataError, ModelError
from kvec.words.schema import Field, Schema

FILE = "labels.sqlite"
MOST_ROWS = 1_000_000  # sequences, the newest
SLACK = 10_000  # more than that, before the oldest go
_TABLE = """
CREATE TABLE IF NOT EXISTS labels (
    number INTEGER PRIMARY KEY AUTOINCREMENT, tangle TEXT NOT NULL, key TEXT NOT NULL, sequence INTEGER NOT NULL,
    label TEXT NOT NULL, labelled_at REAL NOT NULL, decided TEXT, probability REAL, n_observed INTEGER, reason TEXT,
    n INTEGER, decided_at REAL, items TEXT NOT NULL, is_whole INTEGER NOT NULL, UNIQUE (tangle, key, sequence)
)
"""
_SCHEMA = "CREATE TABLE IF NOT EXISTS schema (plain TEXT NOT NULL)"
_SAID = ("decided", "probability", "n_observed", "reason", "n", "decided_at")
_LONGER = "CASE WHEN length(excluded.items) > length(items) THEN excluded.items ELSE items END"
_ADD = f"""
INSERT INTO labels (tangle, key, sequence, label, labelled_at, {", ".join(_SAID)}, items, is_whole)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tangle, key, sequence) DO UPDATE SET
    number = (SELECT max(number) + 1 FROM labels), label = excluded.label, labelled_at = excluded.labelled_at,
    {", ".join(f"{name} = coalesce(excluded.{name}, {name})" for name in _SAID)}, items = {_LONGER},
    is_whole = max(is_whole, excluded.is_whole)
"""
_PLACE = " place"  # a column for sorting alone
_ITS = "WHERE tangle = ? AND key = ? AND sequence = ?"


class Said(NamedTuple):
    """What was decided of a sequence."""

    id: str
    label: str
    probability: float
    n_observed: int
    reason: str
    n: int
    at: float


class LabelStore:
    """Appends labels; the newest label of a sequence counts, what is known of it stays.

    Names are kept as JSON, so that 1 and "1" differ.
    """

    def __init__(self, path: Path, schema: Schema) -> None:
        self._path = path
        try:
            self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute(_TABLE)
            self._base.execute(_SCHEMA)
            self._base.execute("DELETE FROM schema")
            self._base.execute("INSERT INTO schema VALUES (?)", (json.dumps(schema.to_dict()),))
        except sqlite3.Error as error:
            raise ModelError(f"{path}: cannot keep labels here: {error}") from None

    def add(self, rows: Iterable[tuple[tuple[Any, Any, int], str, Said | None, Trace | None, float]]) -> int:
        """Add labels, with what was decided and the items as far as they are known; the number of the last one."""
        with self._at_once():
            for name, label, said, trace, now in rows:
                self._base.execute(_ADD, (*_named(name), label, now, *_cells(said), *_items(trace)))
            first, last = self._base.execute(
                "SELECT coalesce(min(number), 0), coalesce(max(number), 0) FROM labels"
            ).fetchone()
            if last - first >= MOST_ROWS + SLACK:  # or fewer, where labels came again
                n = self._base.execute("SELECT count(*) FROM labels").fetchone()[0]
                self._base.execute(
                    "DELETE FROM labels WHERE number IN (SELECT number FROM labels ORDER BY number LIMIT ?)",
                    (max(n - MOST_ROWS, 0),),
                )
        return int(last)

    def add_said(self, rows: Iterable[tuple[tuple[Any, Any, int], Said]]) -> None:
        """Add what was decided of sequences whose labels came first."""
        told = ", ".join(f"{cell} = ?" for cell in _SAID)
        with self._at_once():
            self._base.executemany(
                f"UPDATE labels SET {told} {_ITS}", [(*_cells(said), *_named(name)) for name, said in rows]
            )

    def complete(self, traces: Sequence[Trace]) -> None:
        """Add the items that came behind the labels of sequences."""
        with self._at_once():
            for trace in traces:
                name = (trace.tangle, trace.key, trace.sequence)
                items, is_whole = _items(trace)
                told = f"UPDATE labels SET items = ?, is_whole = ? {_ITS} AND length(items) <= length(?)"
                self._base.execute(told, (items, is_whole, *_named(name), items))

    def since(self, number: int) -> Iterator[tuple[int, tuple[Any, Any, int], str]]:
        """Labels behind the one of this number, in the order in which they came."""
        rows = self._base.execute(
            "SELECT number, tangle, key, sequence, label FROM labels WHERE number > ? ORDER BY number", (number,)
        ).fetchall()
        for found, tangle, key, sequence, label in rows:
            yield found, (json.loads(tangle), json.loads(key), sequence), label

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Write all of it, or nothing."""
        try:
            with self._base:
                self._base.execute("BEGIN")
                yield
        except sqlite3.Error as error:
            raise ModelError(f"{self._path}: cannot be written: {error}") from None


def _named(name: tuple[Any, Any, int]) -> tuple[str, str, int]:
    tangle, key, sequence = name
    return json.dumps(tangle), json.dumps(key), sequence


def _items(trace: Trace | None) -> tuple[str, bool]:
    """The first items of a sequence as JSON, and whether they are all of it."""
    return ("[]", False) if trace is None else (orjson.dumps(trace.head).decode(), trace.is_whole)


def _cells(said: Said | None) -> tuple[Any, ...]:
    return (None,) * 6 if said is None else (
        said.label, said.probability, said.n_observed, said.reason, said.n, said.at,
    )  # fmt: skip


def labels_in(state: Path, model: str | None) -> Path:
    """Where the labels of a model lie: in its folder in the state, or in the state where that is one model's."""
    if (path := state / FILE).is_file():
        if model is not None:
            raise DataError(f"{state}: is the folder of one model; leave out --model")
        return path
    model = model or "default"
    if (path := state / model / FILE).is_file():
        return path
    if others := sorted(path.parent.name for path in state.glob(f"*/{FILE}")):
        raise DataError(f"{state}: has no labels of {model!r}; give --model {' or '.join(others)}")
    raise DataError(f"{state}: no labels were kept here; name the --state folder of kvec serve, or one in it")


class Labelled(NamedTuple):
    """Labelled sequences as a table, how it is read, and how many were left out."""

    table: pl.DataFrame
    schema: Schema
    left_out: int  # sequences of which too little is known


def labelled_items(path: Path) -> Labelled:
    """The items of all labelled sequences that are known from their first one, at least up to their decision.

    Columns are named as the model names them, so that a model which learns from the table can take over from it.
    """
    try:
        base = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        rows = base.execute(
            "SELECT tangle, key, sequence, label, n_observed, items, is_whole FROM labels ORDER BY number"
        ).fetchall()
        schema = Schema.from_dict(json.loads(base.execute("SELECT plain FROM schema").fetchone()[0]))
        base.close()
    except sqlite3.Error as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    reading = _reading(schema)
    named = {one.name: one.source for one in reading.values}
    found: list[dict[str, Any]] = []
    left_out = 0
    for tangle, key, sequence, label, n_observed, content, is_whole in rows:
        items = orjson.loads(content)
        if len(items) < (n_observed or 1):
            left_out += 1
            continue
        key = f"{json.loads(key)}#{sequence}" if sequence else str(json.loads(key))
        for place, (time, order, value) in enumerate(items, 1):
            cells = {
                reading.tangle: str(json.loads(tangle)), reading.key[0]: key, reading.time: time, reading.order: order,
                reading.end: bool(is_whole) and place == len(items), reading.labels[0]: label,
                **{named[name]: cell for name, cell in _as_text(value).items()}, _PLACE: order,
            }  # fmt: skip
            found.append({name: cell for name, cell in cells.items() if name})
    table = pl.DataFrame(found, infer_schema_length=None)
    if found:
        by = [name for name in (reading.tangle, reading.time, _PLACE) if name]
        table = table.sort(by, maintain_order=True).drop(_PLACE)
    return Labelled(table, reading, left_out)


def _reading(schema: Schema) -> Schema:
    """How the table of labelled items is read: as the model reads items, where one column can say it."""
    values = (
        Field(one.name, one.source if one.transform == "none" else one.name, one.kind, bins=one.bins)
        for one in schema.values
    )
    return Schema(
        key=schema.key if len(schema.key) == 1 else ("key",), values=tuple(values), labels=schema.label_names[:1],
        tangle="tangle" if "," in schema.tangle else schema.tangle, time=schema.time,
        order=schema.order or ("" if schema.time else "order"), end=schema.end, session=schema.session,
        session_gap=schema.session_gap, match=schema.match, expiry=schema.expiry, empty_key=schema.empty_key,
    )  # fmt: skip


def _as_text(value: dict[str, Any]) -> dict[str, Any]:
    """Cells of a column that are not all numbers or all text cannot stand in one table: truths become text."""
    return {name: str(cell).lower() if isinstance(cell, bool) else cell for name, cell in value.items()}
