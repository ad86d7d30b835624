"""Parquet from a sink's NDJSON files: each is turned when it is whole, and goes when its Parquet file is there.

Flink's own Parquet writer is a jar that its Python package lacks, so the command that waits for the job turns them.
A file has one name in both forms. Where the command is ended between the two steps, it is turned once more, into the
same file: each decision is in Parquet exactly once.
"""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl

from kvec.decide.snapshot import sync_folder
from kvec.doors.messages import say
from kvec.doors.writing import FIRST
from kvec.words.errors import DataError

FORMS = ("ndjson", "parquet")
PREFIX = "kvec-decisions"  # of the files of a sink, so that nobody else's are turned
LOOK = 2.0  # seconds between two looks at the folder
TYPES: dict[str, pl.DataType] = {
    "sequence": pl.Int64(), "probability": pl.Float64(), "n_observed": pl.Int64(), "length": pl.Int64(),
    "is_known": pl.Boolean(), "familiarity": pl.Float64(),
}  # fmt: skip


def turn(folder: Path, label_names: Sequence[str]) -> None:
    """Turn all NDJSON files of a sink that are whole into Parquet; one that cannot be read does not hold up others."""
    failure: Exception | None = None
    for path in sorted(folder.glob(f"{PREFIX}-*.ndjson")):
        try:
            _turn(path, label_names)
        except Exception as problem:  # its lines stay; perhaps there is room for them at the next look
            failure = failure or problem
    if failure is not None:
        raise failure


def _turn(path: Path, label_names: Sequence[str]) -> None:
    content = io.BytesIO()
    _table(path, label_names).write_parquet(content)
    draft = path.with_name(f".{path.stem}.{os.getpid()}.part")
    try:
        with draft.open("wb") as out:
            out.write(content.getbuffer())
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path.with_suffix(".parquet"))
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)  # only then may the lines go
    path.unlink(missing_ok=True)


def _table(path: Path, label_names: Sequence[str]) -> pl.DataFrame:
    """The decisions of a file, with the same columns whatever it holds; names of tangles and keys are text."""
    more = [f"{what}.{name}" for name in label_names[1:] for what in ("label", "probability")]
    types = {name: TYPES.get(name.partition(".")[0], pl.String()) for name in (*FIRST, *more, "familiarity")}
    with path.open(encoding="utf-8") as file:
        rows: list[dict[str, Any]] = [json.loads(line) for line in file]
    columns = {name: [row.get(name) for row in rows] for name in types}
    return pl.DataFrame(
        {name: list(map(_text, cells)) if types[name] == pl.String else cells for name, cells in columns.items()},
        schema=types,
    )


def _text(cell: Any) -> str | None:
    """A cell as text that UTF-8 can hold: halves of surrogate pairs are written out."""
    return None if cell is None else str(cell).encode("utf-8", "backslashreplace").decode()


class Turning:
    """Turns the files of a sink while the block runs, those an earlier command left too, and the rest at its end."""

    def __init__(self, folder: Path, label_names: Sequence[str]) -> None:
        self._folder, self._label_names = folder, label_names
        self._is_over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="kvec-parquet", daemon=True)

    def __enter__(self) -> Turning:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()
        if error is not None:
            return
        if self._failure is not None:
            raise DataError(
                f"{self._failure}; decisions that are not in Parquet are in the .ndjson files of {self._folder}"
            ) from self._failure
        if not self._folder.is_dir():
            raise DataError(f"{self._folder} cannot be seen from here, so its files were not turned into Parquet")

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(LOOK)
            try:
                turn(self._folder, self._label_names)
                self._failure = None
            except Exception as failure:
                if self._failure is None:
                    say(f"cannot turn decisions into Parquet: {failure}")
                self._failure = failure
