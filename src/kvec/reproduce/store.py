"""The folder of results: CSV files that grow cell by cell, and lose at most one cell whenever they are interrupted."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import polars as pl

from kvec.reproduce.plan import Cell, Outcome
from kvec.reproduce.results import ADDED, ATTENTION, CELLS, HALTS, PAIRED, POINTS, PREFIXES, whole_lines
from kvec.reproduce.timing import Took
from kvec.words.errors import DataError, SettingError

PARTS = {
    "points.csv": tuple(POINTS), "attention.csv": tuple(ATTENTION), "halts.csv": tuple(HALTS),
    "prefixes.csv": tuple(PREFIXES),
}  # fmt: skip
DONE, DATA, COMPARED, LOCK, UNITS = "cells.csv", "data.csv", "paired.csv", ".lock", "units"


class Store:
    """Adds the rows of cells to a folder that no other process writes to; use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Store:
        """Take the folder, and mend what an interrupted run left in it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.folder)
        except OSError as error:
            raise SettingError(f"{self.folder}: cannot keep results here: {error.strerror}") from None
        try:
            self._cells = {row["cell"]: row for row in _widened(self.folder / DONE, tuple(CELLS))}
            for name, columns in PARTS.items():
                rows = _widened(self.folder / name, columns)
                if any(row["cell"] not in self._cells for row in rows):
                    _replace(self.folder / name, columns, [row for row in rows if row["cell"] in self._cells])
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let others have the folder."""
        self._lock.close()

    @property
    def has_results(self) -> bool:
        """Whether there is anything to report."""
        return bool(self._cells or self.known_data())

    def is_done(self, cell: Cell) -> bool:
        """Whether a cell was run, in this profile and with all of its settings, and all that is wanted is there."""
        return why_to_run(self._cells, cell, self.folder) == ""

    def twin_of(self, cell: Cell) -> str:
        """A cell that is done and was the same training under another name, such as that of another sweep; or none."""
        alike = (cell.profile, cell.dataset, cell.training, str(cell.seed), cell.digest)
        for name, row in self._cells.items():
            known = tuple(row[each] for each in ("profile", "dataset", "training", "seed", "digest"))
            if cell.digest and known == alike and (not cell.is_paired or units_of(self.folder, name).is_file()):
                return name
        return ""

    def outcome_of(self, name: str) -> Outcome:
        """What was kept of a cell that is done."""
        units = units_of(self.folder, name)
        points, attention, halts, prefixes = (
            [row for row in _mended(self.folder / part, columns) if row["cell"] == name]
            for part, columns in PARTS.items()
        )
        found = pl.read_parquet(units) if units.is_file() else None
        return Outcome(dict(self._cells[name]), points, attention, halts, prefixes, found)

    def took(self) -> dict[str, Took]:
        """How long each cell took that is done."""
        return _took(self._cells)

    def add(self, cell: Cell, outcome: Outcome) -> None:
        """Keep what came out of a cell, in place of what it gave with other settings; it counts once all is there.

        All of its rows take the cell's name: it may have been run under another.
        """
        if self._cells.pop(cell.id, None) is not None:
            self._drop(cell.id)
        for (name, columns), rows in zip(
            PARTS.items(), (outcome.points, outcome.attention, outcome.halts, outcome.prefixes), strict=True
        ):
            _append(self.folder / name, columns, [row | {"cell": cell.id} for row in rows])
        if outcome.units is not None:
            kept = units_of(self.folder, cell.id)
            kept.parent.mkdir(exist_ok=True)
            outcome.units.write_parquet(draft := kept.with_suffix(".draft"))
            draft.replace(kept)
        row = dict.fromkeys(CELLS, "") | {name: _text(each) for name, each in (outcome.cell | identity(cell)).items()}
        _append(self.folder / DONE, tuple(CELLS), [row])
        self._cells[cell.id] = row

    def keep_paired(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep how methods compare on the same test units."""
        _replace(self.folder / COMPARED, tuple(PAIRED), rows)

    def known_data(self) -> dict[str, str]:
        """Data sets whose statistics are there, each with the digest of the part that they are of."""
        return {row["dataset"]: row.get("digest", "") for row in _mended(self.folder / DATA)}

    def add_data(self, row: Mapping[str, Any]) -> None:
        """Keep the statistics of a data set, in place of older ones."""
        others = [each for each in _mended(self.folder / DATA) if each["dataset"] != row["dataset"]]
        rows: list[Mapping[str, Any]] = [*others, row]
        _replace(self.folder / DATA, tuple(dict.fromkeys(name for one in rows for name in one)), rows)

    def _drop(self, cell: str) -> None:
        """Forget a cell: first that it is done, so that what is left of it is known to be of no use."""
        for name, columns in {DONE: tuple(CELLS), **PARTS}.items():
            rows = _mended(self.folder / name, columns)
            _replace(self.folder / name, columns, [row for row in rows if row["cell"] != cell])
        units_of(self.folder, cell).unlink(missing_ok=True)


def units_of(folder: Path, cell: str) -> Path:
    """The file with what came of each test unit of a cell.

    >>> units_of(Path("out"), "traffic-fg/kvec-paper beta=0.02/0").as_posix()
    'out/units/traffic-fg,kvec-paper beta=0.02,0.parquet'
    """
    return folder / UNITS / f"{cell.replace('/', ',')}.parquet"


def identity(cell: Cell) -> dict[str, str | int | float]:
    """What of a row of cells.csv says which cell it is."""
    return {
        "cell": cell.id,
        "profile": cell.profile,
        "dataset": cell.dataset,
        "training": cell.training,
        "setting": cell.setting,
        "value": "" if cell.value is None else f"{cell.value:g}",
        "seed": cell.seed,
        "settings": " ".join(cell.overrides),
        "time": "" if cell.time == 1 else f"{cell.time:g}",
        "digest": cell.digest,
    }


@dataclass(frozen=True)
class Looked:
    """What a folder has of some cells."""

    done: set[str]
    stale: dict[str, str]  # cells that were run once and must be run again, and why
    took: dict[str, Took]  # what each cell of the folder took


def look(folder: Path, cells: Iterable[Cell]) -> Looked:
    """Which of the cells a folder has, and how long all of its cells took; nothing is changed in it."""
    rows = {row["cell"]: row for row in _rows(whole_lines(folder / DONE), folder / DONE, tuple(CELLS))}
    why = {cell.id: why_to_run(rows, cell, folder) for cell in cells}
    return Looked(
        {name for name, reason in why.items() if not reason},
        {name: reason for name, reason in why.items() if reason and name in rows},
        _took(rows),
    )


def why_to_run(rows: Mapping[str, Mapping[str, str]], cell: Cell, folder: Path) -> str:
    """Why a cell must be run, by the rows of cells.csv; nothing where it is done."""
    row = rows.get(cell.id)
    if row is None:
        return "it never was"
    if row["profile"] != cell.profile:
        return "another profile"
    if not row.get("digest"):
        return "an older kvec kept no digest of their settings"
    if row["digest"] != cell.digest:
        same = row["settings"] == " ".join(cell.overrides)
        return "other defaults, or other sizes of the profile" if same else "other settings"
    return "" if not cell.is_paired or units_of(folder, cell.id).is_file() else "no units kept"


def _took(rows: Mapping[str, Mapping[str, str]]) -> dict[str, Took]:
    return {
        cell: Took(float(row["seconds"]), float(row["train_seconds"] or 0.0))
        for cell, row in rows.items()
        if row["seconds"]
    }


def _mended(path: Path, columns: Collection[str] = ()) -> list[dict[str, str]]:
    """The rows of a table, of which a line that was not written to its end is cut off."""
    whole = whole_lines(path)
    if path.is_file() and path.stat().st_size != len(whole):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    return _rows(whole, path, columns)


def _widened(path: Path, columns: Collection[str]) -> list[dict[str, str]]:
    """The rows of a table, which gets the columns that it did not yet have when it was begun."""
    rows = _mended(path, columns)
    header = whole_lines(path).partition(b"\n")[0].decode("utf-8")
    if header and header.strip() != ",".join(columns):
        rows = [dict.fromkeys(columns, "") | row for row in rows]
        _replace(path, columns, rows)
    return rows


def _rows(whole: bytes, path: Path, columns: Collection[str]) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(whole.decode("utf-8"), newline=""))
    lacking = set(columns).difference(reader.fieldnames or columns, ADDED)
    if columns and (lacking or set(reader.fieldnames or ()).difference(columns)):
        raise DataError(f"{path} was written by another kvec; name another folder with --out, or remove the file")
    return list(reader)


def _replace(path: Path, columns: Collection[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table anew; it is the old one or the new one at any moment."""
    draft = path.with_name(f".{path.name}.draft")
    text = _csv(columns, [dict(zip(columns, columns, strict=True)), *rows])
    _write(draft.open("wb"), text)
    draft.replace(path)


def _append(path: Path, columns: Collection[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows to a table, all in one piece."""
    is_new = not path.is_file() or not path.stat().st_size
    text = _csv(columns, [*([dict(zip(columns, columns, strict=True))] if is_new else []), *rows])
    _write(path.open("ab"), text)


def _write(file: IO[bytes], text: str) -> None:
    with file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def _csv(columns: Collection[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    csv.DictWriter(text, columns, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _text(value: object) -> str:
    return " ".join(str(value).split())  # a row is one line


def _locked(folder: Path) -> IO[bytes]:
    """Hold the lock of a folder as long as the file is open; it names its process, and falls when that ends."""
    lock = (folder / LOCK).open("a+b")
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            other = lock.read().decode("ascii", "replace").strip() or "unknown"
            lock.close()
            raise SettingError(
                f"{folder}: another kvec reproduce, process {other}, writes here; wait for it, or name another --out"
            ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()).encode("ascii"))
    lock.flush()
    return lock
