"""The general road from any table to items: files, folders and frames, read as a schema says (§III of the paper)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from kvec.read.cells import ends, identity, orders, times
from kvec.read.fields import value_field
from kvec.read.files import FILE, ROW, Opened, Rows, ending, first, open_table
from kvec.read.labels import labels_from_events, labels_in_rows, labels_in_table
from kvec.read.table import Note, Table, iterate, require_labels
from kvec.read.unfolding import LAST, TIME, unfold
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Field, Schema, require_fields

__all__ = [
    "Note", "Table", "find_schema", "iterate", "read_table", "require_columns", "require_labels", "schema_beside",
]  # fmt: skip

ROLES = ("tangle", "group", "time", "order", "end")
ARRIVAL = ("tangle", "key", "group", "time", "order", "end")
WAYS_OUT = {
    "key": " say which column tells sequences apart, as in --key case_id, or key = … in a TOML beside the data;",
    "labels": " name another with --label, or a second table that holds it with --labels;",
}
SHOWN = 20  # columns listed in a message at the most


def read_table(
    source: Any, schema: Schema | None = None, *, labels: Any = None, labels_optional: bool = False,
    kinds: Mapping[str, str] | None = None,
) -> Table:  # fmt: skip
    """Read a file, a folder or a frame as a table of items.

    Without a schema, one is looked for beside the data, else guessed from the names of the columns. `labels` is a
    second table that is joined per key. `labels_optional` reads data without labels by a schema that names some.
    `kinds` are those of fields that are guessed.

    >>> table = read_table({"key": ["a", "b", "a"], "size": [40, 52, 40], "label": ["web", "mail", "web"]})
    >>> table.frame.columns, table.guessed["size"]
    (['tangle', 'key', 'value.size', 'label.label', 'row'], '2 different whole numbers')
    """
    if schema is None and (file := schema_beside(source)):
        with naming_schema(file):
            return read_table(
                source, Schema.from_toml(file), labels=labels, labels_optional=labels_optional, kinds=kinds
            )
    schema = schema or Schema()
    is_given = labels is not None
    labels = labels if is_given else labels_source(source, schema, labels_optional)
    opened = open_table(source, leave_out=[Path(labels)] if isinstance(labels, str | Path) else [])
    opened_labels = None if labels is None else open_table(labels)
    schema, guessed = _with_columns(schema, opened, opened_labels, kinds or {})
    _require_clock(schema, opened)
    named, here = _named_columns(schema, opened, opened_labels, labels_optional)
    rows = opened.read(named)
    notes: list[Note] = []
    if schema.unfold:
        rows, notes = unfold(rows, schema)
    frame = _arrivals(rows, schema)
    notes += _out_of_order(rows, frame, schema)
    frame, rows, more = _labelled(frame, rows, schema, opened_labels, here, labels_optional and not is_given)
    notes += more
    fields = []
    for given in schema.values:
        cells, field, why, note = value_field(rows, given)
        frame = frame.with_columns(cells)
        fields.append(field)
        notes += [note] if note else []
        guessed |= {field.name: why} if why else {}
    made = [f"value.{name}" for name in schema.value_names] + [f"label.{name}" for name in schema.label_names]
    frame = frame.select(c for c in (*ARRIVAL, *made, "row", "file") if c in frame.columns)
    return Table(frame, replace(schema, values=tuple(fields)), opened.name, tuple(notes), guessed)


def find_schema(source: Any) -> Schema | None:
    """The schema in a TOML beside the data: `flows.toml` for `flows.csv.gz`, or `kvec.toml` in the folder."""
    file = schema_beside(source)
    return Schema.from_toml(file) if file else None


def schema_beside(source: Any) -> Path | None:
    """The file that `find_schema` reads."""
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    if path.is_dir():
        candidates = [path / "kvec.toml"]
    else:
        candidates = [
            path.with_name(path.name[: len(path.name) - len(ending(path))] + ".toml"),
            path.parent / "kvec.toml",
        ]
    return next((c for c in candidates if c.is_file()), None)


@contextmanager
def naming_schema(file: Path | None, but_not: Container[str] = ()) -> Iterator[None]:
    """Where a column is missing, say which file named it; entries that came from elsewhere excepted."""
    try:
        yield
    except DataError as error:
        entry = re.search(r"\(schema\.(\w+)\)", str(error))
        if file is None or entry is None or entry[1] in but_not:
            raise
        raise DataError(f"{error}; the schema is from {file}") from None


def labels_source(source: Any, schema: Schema, labels_optional: bool) -> Path | None:
    """The labels file of a schema: relative to the data, else to the working directory."""
    if not schema.labels_file or schema.outcome:
        return None
    file = Path(schema.labels_file)
    if isinstance(source, str | Path):
        beside = (Path(source) if Path(source).is_dir() else Path(source).parent) / file
        file = beside if beside.exists() else file
    return None if labels_optional and not file.exists() else file


def _with_columns(
    schema: Schema, opened: Opened, labels: Opened | None, kinds: Mapping[str, str]
) -> tuple[Schema, dict[str, str]]:
    """The schema with its value and label columns filled in, and what was guessed."""
    guessed: dict[str, str] = {}
    if labels and not (schema.labels or schema.outcome):
        others = [c for c in labels.columns if c not in (*schema.key, schema.tangle)]
        chosen = "label" if "label" in others else others[0] if len(others) == 1 else ""
        if not chosen:
            raise DataError(
                f"{labels.name}: which column is the label? name it with --label, or labels = … in a TOML beside the "
                f"data: {', '.join(others) or '(none)'}"
            )
        schema = replace(schema, labels=(chosen,))
        guessed["schema.labels"] = f"column {chosen!r} of {labels.name}"
    if schema.values:
        return schema, guessed
    for role in ROLES:
        if not getattr(schema, role) and role in opened.columns and role not in _roles(schema, opened.columns):
            schema = replace(schema, **{role: role})  # type: ignore[arg-type]
            guessed[f"schema.{role}"] = "a column of that name"
    if "label" in opened.columns and not schema.label_names and "label" not in _roles(schema, opened.columns):
        schema = replace(schema, labels=("label",))
        guessed["schema.labels"] = "a column named 'label'"
    taken = {*_roles(schema, opened.columns), "label"}
    names = [c for c in schema.unfold or opened.columns if c not in taken]
    if not names:
        raise DataError(f"{opened.name}: no value columns are left; columns: {_listed(opened.columns)}")
    require_fields(kinds, names)
    return replace(schema, values=tuple(Field(name, kind=kinds.get(name, "auto")) for name in names)), guessed


def _roles(schema: Schema, columns: Sequence[str]) -> set[str]:
    named = [name for role in ROLES for name in columns_of(getattr(schema, role), columns)]
    return {*schema.key, *named, *schema.labels, schema.unfold_gap}


def _named_columns(
    schema: Schema, opened: Opened, labels: Opened | None, labels_optional: bool
) -> tuple[list[str], tuple[str, ...]]:
    """The columns to read, all checked to be there, and the labels that are there."""
    named = [(name, "key") for name in schema.key]
    for role in ROLES:
        named += [(name, role) for name in columns_of(getattr(schema, role), opened.columns)]
    named += [(field.source, "values") for field in schema.values] + [(name, "unfold") for name in schema.unfold]
    if schema.unfold_gap:
        named.append((schema.unfold_gap, "unfold_gap"))
    here: tuple[str, ...] = ()
    if schema.outcome:
        named.append((schema.outcome.column, "outcome"))
    else:
        holder = labels or opened
        here = tuple(n for n in schema.labels if n in holder.columns or not labels_optional)
        require_columns(holder.name, holder.columns, [(name, "labels") for name in here], WAYS_OUT)
        if labels:
            require_columns(labels.name, labels.columns, [(name, "key") for name in schema.key])
        else:
            named += [(name, "labels") for name in here]
    require_columns(opened.name, opened.columns, named, {} if labels_optional else WAYS_OUT)
    if leaking := set(schema.labels) & {field.source for field in schema.values}:
        raise SettingError(f"schema: {min(leaking)!r} is both a value and the label; take it out of the values")
    return [name for name, _ in named], here


def columns_of(named: str, columns: Sequence[str]) -> tuple[str, ...]:
    """One column, or several with commas between: a tangle or group that only they tell apart together."""
    return (named,) if named in columns else tuple(name.strip() for name in named.split(",") if name.strip())


def require_columns(
    source: str, columns: Sequence[str], named: Sequence[tuple[str, str]], ways_out: Mapping[str, str] | None = None
) -> None:
    """Refuse columns that are not there; each is named with its entry of the schema."""
    for name, entry in named:
        if name not in columns:
            near = difflib.get_close_matches(name, columns, 1, cutoff=0.6)
            hint = f" did you mean {near[0]!r}?" if near else ""
            if not near or name in Schema().key:  # a name that nobody gave
                hint += (ways_out or {}).get(entry, "")
            raise DataError(
                f"{source}: there is no column {name!r} (schema.{entry});{hint} columns: {_listed(columns)}"
            )


def _require_clock(schema: Schema, opened: Opened) -> None:
    for entry, length in (("expiry", schema.expiry), ("session_gap", schema.session_gap)):
        if length is not None and not (schema.time or schema.unfold_gap):
            raise SettingError(f"{opened.name}: schema.{entry} is {length:g}, but no time column is named; name one")


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(columns[:SHOWN]) + (f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else "")


def _arrivals(rows: Rows, schema: Schema) -> pl.DataFrame:
    """The columns that say which sequence an item belongs to and when it arrived."""
    no_tangle = pl.Series([0], dtype=pl.Int64).new_from_index(0, rows.frame.height)
    columns = {
        "tangle": identity(rows, columns_of(schema.tangle, rows.frame.columns)) if schema.tangle else no_tangle,
        "key": identity(rows, schema.key, schema.empty_key),
    }
    if schema.group:
        columns["group"] = identity(rows, columns_of(schema.group, rows.frame.columns))
    if schema.unfold_gap:
        columns["time"] = rows.frame[TIME]
    elif schema.time:
        columns["time"] = times(rows, schema.time)
    if schema.order:
        columns["order"] = orders(rows, schema.order)
    if schema.end:
        end = ends(rows, schema.end)
        columns["end"] = end & rows.frame[LAST] if schema.unfold and schema.end not in schema.unfold else end
    columns["row"] = rows.frame[ROW]
    if FILE in rows.frame.columns:
        columns["file"] = rows.frame[FILE]
    return pl.DataFrame(columns)


def _out_of_order(rows: Rows, frame: pl.DataFrame, schema: Schema) -> list[Note]:
    if not schema.time or schema.unfold:
        return []
    above = pl.col("time").shift().over("tangle") if schema.tangle else pl.col("time").shift()
    is_late = frame.select((pl.col("time") < above).fill_null(False)).to_series()
    if not (count := int(is_late.sum())):
        return []
    place = f"{rows.place(first(is_late))}, column {schema.time!r}"
    text = f"{place}: {count:,} item(s) lie before the item above them, the first here; they get sorted"
    return [Note("out of order", count, text)]


def _labelled(
    frame: pl.DataFrame, rows: Rows, schema: Schema, labels: Opened | None, here: tuple[str, ...], is_optional: bool
) -> tuple[pl.DataFrame, Rows, list[Note]]:
    """Labels from wherever they are, and the items that remain when the outcome is cut away."""
    if schema.outcome:
        frame, stays, notes = labels_from_events(rows, frame, schema.outcome)
        return frame.filter(stays), rows.with_frame(rows.frame.filter(stays)), notes
    if labels and here:
        tangle = columns_of(schema.tangle, labels.columns)
        tangle = tangle if set(tangle) <= set(labels.columns) else ()
        known = labels.read([*schema.key, *tangle, *here])
        frame, notes = labels_in_table(rows, frame, known, schema.key, tangle, here, schema.empty_key, is_optional)
    else:
        frame, notes = labels_in_rows(rows, frame, here, bool(schema.end or schema.expiry))
    for name in (n for n in schema.labels if n not in here):
        frame = frame.with_columns(pl.lit(None, pl.String).alias(f"label.{name}"))
        n_keys = frame.select("tangle", "key").n_unique()
        notes.append(Note("missing labels", n_keys, f"{rows.name}: there is no label column {name!r}"))
    return frame, rows, notes
