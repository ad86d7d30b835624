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

FILE = "labels.sqlite"
MOST_ROWS = 1_000_000  # sequences, the newest
_TABLE = """
CREATE TABLE IF NOT EXISTS labels (
    number INTEGER PRIMARY KEY AUTOINCREMENT, tangle TEXT NOT NULL, key TEXT NOT NULL, sequence INTEGER NOT NULL,
    label TEXT NOT NULL, labelled_at REAL NOT NULL, decided TEXT, probability REAL, n_observed INTEGER, reason TEXT,
    n INTEGER, decided_at REAL, items TEXT NOT NULL, UNIQUE (tangle, key, sequence)
)
"""
_SAID = ("decided", "probability", "n_observed", "reason", "n", "decided_at")
_LONGER = "CASE WHEN length(excluded.items) > length(items) THEN excluded.items ELSE items END"
_ADD = f"""
INSERT INTO labels (tangle, key, sequence, label, labelled_at, {", ".join(_SAID)}, items)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tangle, key, sequence) DO UPDATE SET
    number = (SELECT max(number) + 1 FROM labels), label = excluded.label, labelled_at = excluded.labelled_at,
    {", ".join(f"{name} = coalesce(excluded.{name}, {name})" for name in _SAID)}, items = {_LONGER}
"""
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

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute(_TABLE)
        except sqlite3.Error as error:
            raise ModelError(f"{path}: cannot keep labels here: {error}") from None

    def add(self, rows: Iterable[tuple[tuple[Any, Any, int], str, Said | None, Trace | None, float]]) -> int:
        """Add labels, with what was decided and the items as far as they are known; the number of the last one."""
        with self._at_once():
            for name, label, said, trace, now in rows:
                self._base.execute(_ADD, (*_named(name), label, now, *_cells(said), _items(trace)))
            last = int(self._base.execute("SELECT coalesce(max(number), 0) FROM labels").fetchone()[0])
            self._base.execute("DELETE FROM labels WHERE number <= ?", (last - MOST_ROWS,))
        return last

    def add_said(self, name: tuple[Any, Any, int], said: Said) -> None:
        """Add what was decided of a sequence whose label came first."""
        with self._at_once():
            told = ", ".join(f"{cell} = ?" for cell in _SAID)
            self._base.execute(f"UPDATE labels SET {told} {_ITS}", (*_cells(said), *_named(name)))

    def complete(self, traces: Sequence[Trace]) -> None:
        """Add the items that came behind the labels of sequences."""
        with self._at_once():
            for trace in traces:
                name = (trace.tangle, trace.key, trace.sequence)
                items = _items(trace)
                told = f"UPDATE labels SET items = ? {_ITS} AND length(items) < length(?)"
                self._base.execute(told, (items, *_named(name), items))

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


def _items(trace: Trace | None) -> str:
    return orjson.dumps([] if trace is None else [[one.time, one.value] for one in trace.traced()]).decode()


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


def labelled_items(path: Path) -> pl.DataFrame:
    """The items of all labelled sequences as a table: tangle, key, sequence, time, their values, and the label."""
    try:
        base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        rows = base.execute("SELECT tangle, key, sequence, label, items FROM labels ORDER BY number").fetchall()
        base.close()
    except sqlite3.Error as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    found = []
    for tangle, key, sequence, label, items in rows:
        names = {"tangle": str(json.loads(tangle)), "key": str(json.loads(key)), "sequence": sequence}
        for time, value in orjson.loads(items):
            found.append({**names, "time": time, **_as_text(value), "label": label})
    return pl.DataFrame(found, infer_schema_length=None)


def _as_text(value: dict[str, Any]) -> dict[str, Any]:
    """Cells of a column that are not all numbers or all text cannot stand in one table: truths become text."""
    return {name: str(cell).lower() if isinstance(cell, bool) else cell for name, cell in value.items()}
