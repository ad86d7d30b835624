"""Parquet from a sink's NDJSON files: each is turned when it is whole, and goes when its Parquet file is there.

Flink's own Parquet writer is a jar that its Python package lacks, so the command that waits for the job turns them.
A file has one name in both forms. Where the command is ended between the two steps, it is turned once more, into the
same file: each decision is in Parquet exactly once.
"""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl

from kvec.doors.messages import say
from kvec.report.canvas import write_whole
from kvec.words.errors import DataError

FORMS = ("ndjson", "parquet")
LOOK = 2.0  # seconds between two looks at the folder
TYPES: dict[str, pl.DataType] = {
    "probability": pl.Float64(), "n_observed": pl.Int64(), "length": pl.Int64(), "sequence": pl.Int64(),
    "is_known": pl.Boolean(), "familiarity": pl.Float64(),
}  # fmt: skip


def turn(folder: Path) -> int:
    """Turn all NDJSON files of a folder that are whole into Parquet; how many there were."""
    lines = sorted(folder.glob("[!.]*.ndjson"))
    for path in lines:
        content = io.BytesIO()
        _table(path).write_parquet(content)
        write_whole(path.with_suffix(".parquet"), content.getvalue())
        path.unlink(missing_ok=True)
    return len(lines)


def _table(path: Path) -> pl.DataFrame:
    """The decisions of a file, with the same types whatever it holds; names of tangles and keys are text."""
    with path.open(encoding="utf-8") as file:
        rows: list[dict[str, Any]] = [json.loads(line) for line in file]
    types = {name: TYPES.get(name.partition(".")[0], pl.String()) for row in rows for name in row}
    columns = {name: [row.get(name) for row in rows] for name in types}
    return pl.DataFrame(
        {name: list(map(_text, cells)) if types[name] == pl.String else cells for name, cells in columns.items()},
        schema=types,
    )


def _text(cell: Any) -> str | None:
    """A cell as text that UTF-8 can hold: halves of surrogate pairs are written out."""
    return None if cell is None else str(cell).encode("utf-8", "backslashreplace").decode()


class Turning:
    """Turns the files of a folder while the block runs, and all that are left at its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="kvec-parquet", daemon=True)

    def __enter__(self) -> Turning:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise DataError(
                f"{self._failure}; decisions that are not in Parquet are in the .ndjson files of {self._folder}"
            ) from self._failure

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(LOOK)
            try:
                turn(self._folder)
                self._failure = None
            except Exception as failure:  # the lines stay; perhaps there is room for them at the next look
                if self._failure is None:
                    say(f"cannot turn decisions into Parquet: {failure}")
                self._failure = failure
