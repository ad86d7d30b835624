"""From a path on the command line to a table of items: tables, captures, MovieLens folders, the authors' .npy files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from kvec.doors.flags import SchemaFlags
from kvec.doors.messages import say
from kvec.read.authors import npy_files, read_authors
from kvec.read.files import ending
from kvec.read.packets.learning import read_captures, whole_schema
from kvec.read.packets.tables import FIELDS, holds_captures
from kvec.read.ratings import read_movielens
from kvec.read.rows import naming_schema, read_table, schema_beside
from kvec.read.shards import Shards, open_shards
from kvec.read.table import Table
from kvec.tangle.tangling import Split
from kvec.words.errors import ModelError, SettingError
from kvec.words.schema import Field, Schema


def read_by_flags(path: Path, flags: SchemaFlags) -> tuple[Table, str]:
    """Read a table or captures as their flags say, and tell where the rest of the schema came from."""
    if holds_captures(path):
        return _captures_by_flags(path, flags)
    _refuse_packet_flags(path, flags)
    loaded = _special(path, flags.label)
    if loaded is not None:
        frame, schema, kind = loaded
        table = read_table(frame, flags.over(schema), labels=flags.labels)
        return replace(table, source=str(path)), kind
    file = flags.schema or schema_beside(path)
    schema = flags.over(Schema.from_toml(file) if file else Schema())
    with naming_schema(file, flags.entries):
        return read_table(path, schema, labels=flags.labels, kinds=flags.kinds), str(file) if file else ""


def open_by_flags(path: Path, flags: SchemaFlags) -> tuple[Shards, str]:
    """Parquet files that are read in windows, as their flags say, and where the rest of the schema came from."""
    _refuse_packet_flags(path, flags)
    file = flags.schema or schema_beside(path)
    schema = flags.over(Schema.from_toml(file) if file else Schema())
    with naming_schema(file, flags.entries):
        return open_shards(path, schema, flags.labels, flags.kinds), str(file) if file else ""


def read_by_schema(path: Path, schema: Schema, labels: Path | None = None) -> Table:
    """Read a table or captures as the schema of a model says; labels may be missing."""
    if holds_captures(path):
        return read_captures(path, schema, labels, _passed_by)
    loaded = _special(path, schema.labels[0] if schema.labels else None)
    source = path if loaded is None else loaded[0]
    table = read_table(source, schema, labels=labels, labels_optional=True)
    return replace(table, source=str(path))


def _captures_by_flags(path: Path, flags: SchemaFlags) -> tuple[Table, str]:
    file = flags.schema or schema_beside(path)
    said = Schema.from_toml(file) if file else Schema()
    if flags.value_names:  # so that what holds for packets, such as their sessions, fits these fields
        known = {field.name: field for field in said.values}
        fields = tuple(known.get(name) or Field(name, kind=FIELDS.get(name, "auto")) for name in flags.value_names)
        said = replace(said, values=fields)
    schema = flags.over(whole_schema(said))
    if flags.tangling == "none" and not schema.group:
        schema = replace(schema, group="capture")
    table = read_captures(path, schema, flags.labels, _passed_by)
    n = table.frame["tangle"].n_unique()
    return table, f"the packets of {n:,} capture{'s' * (n != 1)}" + (f" and {file}" if file else "")


def _refuse_packet_flags(path: Path, flags: SchemaFlags) -> None:
    if flags.min_packets is not None:
        raise SettingError(f"--min-packets is for captures; {path} holds none")


def _passed_by(problem: str) -> None:
    say(f"warning: passed over: {problem}")


def take_part(
    table: Table, split: dict[str, Any] | None, part: str, model: Path, do: str = "evaluate"
) -> tuple[Table, Table | None]:
    """One part of the data a model was trained on, and the training part to compare it with, unless it is that."""
    if split is None:
        raise ModelError(f"{model} was trained on separate files, so it knows no parts; {do} those files instead")
    found = Split.from_dict(split)
    chosen = replace(table, frame=found.part(table.frame, part))
    return chosen, None if part == "train" else replace(table, frame=found.part(table.frame, "train"))


def _special(path: Path, label: str | None) -> tuple[pl.DataFrame, Schema, str] | None:
    """What a loader of a public set makes of the path, if it is one."""
    if (path / "users.dat").is_file() and (path / "movies.dat").is_file():
        return (*read_movielens(path, label or "gender"), "MovieLens-1M")
    if path.suffix == ".npy" or _holds_rows(path):
        n = len(npy_files(path))
        return (*read_authors(path), f"the authors' rows in {n} .npy file{'s' * (n > 1)}; --label can be label or flag")
    return None


def _holds_rows(path: Path) -> bool:
    """Whether a folder holds the authors' rows; where it holds tables too, those are read, and that is said."""
    rows = sorted(path.glob("*.npy")) if path.is_dir() else []
    if rows and (tables := [file.name for file in sorted(path.iterdir()) if ending(file)]):
        say(f"warning: {path}: tables such as {tables[0]} are read, {rows[0].name} and other .npy files are not")
        return False
    return bool(rows)
