"""Decisions as files and lines: NDJSON, CSV, Parquet, or a table for people."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from kvec.read.files import ending
from kvec.report.canvas import write_whole
from kvec.report.text import plain, table
from kvec.words.errors import SettingError
from kvec.words.items import UNKNOWN, Decision

ENDINGS = {".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv", ".parquet": "parquet"}
FIRST = ("id", "tangle", "key", "sequence", "label", "probability", "n_observed", "length", "reason", "is_known")
SHOWN = 60  # rows of a table for people at the most


def require_place(path: Path | None, endings: tuple[str, ...] = (), inputs: Iterable[Path | str | None] = ()) -> None:
    """Refuse an output path that cannot be written to, or must not, before the work is done."""
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise SettingError(f"{path}: cannot write this kind of file; it may end in {', '.join(endings)}")
    if path.is_dir():
        raise SettingError(f"{path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise SettingError(f"{path}: there is no folder {path.parent}; make it first")
    if (path.resolve().parent / "kvec.json").is_file():
        raise SettingError(f"{path}: {path.parent} is a model, and nothing else is kept in it; name a file outside it")
    require_apart(path, inputs)


def require_apart(output: Path, inputs: Iterable[Path | str | None]) -> None:
    """Refuse an output in whose place lies what the command reads: the file itself, or one in a folder of either."""
    place = output.resolve()
    if not (place.is_file() or place.is_dir()):  # new, or a device
        return
    for given in inputs:
        source = Path(given or "")
        if given is None or not source.exists():
            continue
        if output.samefile(source):
            raise SettingError(f"{output} is what is read, and would be overwritten; name another place with -o")
        if place.is_dir() and source.resolve().is_relative_to(place):
            raise SettingError(
                f"{output} would be replaced, and {source}, which is read, lies in it; name another place"
            )
        if source.is_dir() and place.parent == source.resolve() and _is_table_of(source, place):
            raise SettingError(f"{output} is there already, in the folder that is read; name another place")


def _is_table_of(folder: Path, file: Path) -> bool:
    """Whether a file in a folder is one of those that are read: a table, unless captures are read there."""
    from kvec.read.packets.tables import holds_captures  # heavy

    return bool(ending(file)) and not holds_captures(folder)


def decision_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of decisions in the order in which they are written; true labels only where some are known."""
    truths = [c for c in frame.columns if c.startswith("true_label")]
    kept = [c for c in frame.columns if c not in truths or frame[c].null_count() < frame.height]
    return frame.select(*FIRST, *(c for c in kept if c not in FIRST))


def decision_row(decision: Decision, label_names: Sequence[str]) -> dict[str, Any]:
    """One decision by the same columns."""
    row = {name: getattr(decision, name) for name in FIRST}
    for name, label, probability in zip(label_names[1:], decision.labels[1:], decision.probabilities[1:], strict=True):
        row |= {f"label.{name}": label, f"probability.{name}": probability}
    return row if decision.familiarity is None else row | {"familiarity": decision.familiarity}


def write_decisions(rows: pl.DataFrame, path: Path) -> None:
    """Write a file of decisions, whole or not at all."""
    content = io.BytesIO()
    kind = ENDINGS[path.suffix.lower()]
    if kind == "parquet":
        rows.write_parquet(content)
    elif kind == "csv":
        rows.write_csv(content)
    else:
        rows.write_ndjson(content)
    write_whole(path, content.getvalue())


def print_decisions(rows: pl.DataFrame, kind: str) -> None:
    """Print decisions: all as NDJSON, or the first of them as a table."""
    if kind == "ndjson":
        sys.stdout.write(rows.write_ndjson())
        return
    print(decision_text(rows))


def decision_text(rows: pl.DataFrame) -> str:
    """The first decisions in aligned columns, with (unknown) in place of a label that is not known."""
    rows = rows.with_columns(pl.when("is_known").then("label").otherwise(pl.lit(UNKNOWN)).alias("label"))
    idle = {"id", "is_known"} | ({"sequence"} if (rows["sequence"] == 0).all() else set())
    columns = [c for c in rows.columns if c not in idle]
    cells = [
        [f"{cell:.3f}" if isinstance(cell, float) else plain("" if cell is None else cell, 32) for cell in row]
        for row in rows.select(columns).head(SHOWN).rows()
    ]
    right = [i for i, c in enumerate(columns) if c in ("sequence", "n_observed", "length") or c.startswith("prob")]
    text = table(cells, columns, right)
    left = rows.height - SHOWN
    return text if left <= 0 else f"{text}\n… and {left:,} more; write them all with -o decisions.ndjson"
