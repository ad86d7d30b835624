"""Captures as a table to learn from: flows with the labels of their file, their folder, or a file of labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import polars as pl

from kvec.read.packets.captures import UNREAD
from kvec.read.packets.flow_labels import FlowLabels, read_flow_labels
from kvec.read.packets.tables import ARCHIVE, ENDINGS, PACKED, PacketTable, packet_schema, read_packets, unread
from kvec.read.rows import read_table
from kvec.read.table import SHORT, Note, Table
from kvec.words.errors import DataError, SettingError
from kvec.words.flows import FlowSettings
from kvec.words.schema import Schema, Tangling

BY_FILE, BY_FOLDER = "by-file", "by-folder"
FEWEST_CAPTURES = 10  # for each part of a split to have one
FEWEST_OF_CLASS = 3
SIDE_BY_SIDE = 8  # flows that make a tangle where captures cannot
_PART = re.compile(r"[-_ ]\d+$")  # Weibo-1.pcap, Weibo-2.pcap: parts of one capture


def read_captures(
    given: str | Path | Sequence[str | Path],
    schema: Schema | None = None,
    labels: str | Path | None = None,
    passed_by: Callable[[str], object] | None = None,
) -> Table:
    """Read captures, or folders of them, as a table of items.

    `labels` is `by-file`, `by-folder` or a file of labels; flows without one, and those of fewer packets than
    `schema.packets.min_packets`, are then left out. What the schema does not say is as `packet_schema` has it.
    """
    paths = [Path(given)] if isinstance(given, str | Path) else [Path(one) for one in given]
    schema = whole_schema(schema or Schema())
    settings = schema.packets or FlowSettings()
    fields = list(dict.fromkeys(field.source for field in schema.values))
    packet_schema(settings, fields)  # refuses a field that packets do not have
    found = read_packets(paths, settings, fields, passed_by)
    counted = {why: n for why, n in found.counters.items() if why != UNREAD}
    notes = [Note("packets", n, f"{n:,} packet{'s' * (n != 1)}: {why}") for why, n in counted.items()]
    if lost := unread(found.counters):
        notes.append(Note("bytes", found.counters[UNREAD], lost))
    if labels is not None:
        found, more = labelled(found, str(labels), fields, settings.min_packets)
        notes += more
        schema = labelled_schema(schema, found)
    table = read_table(found.items, schema, labels_optional=labels is None)
    return replace(table, source=", ".join(map(str, paths)), notes=(*notes, *table.notes))


def whole_schema(given: Schema) -> Schema:
    """What is said about packets, over what holds for all of them."""
    said = given.to_dict()
    if not given.values:
        said.pop("values")
    settings = given.packets or FlowSettings()
    fields = tuple(dict.fromkeys(field.source for field in given.values)) or ("size", "direction")
    return Schema.from_dict(packet_schema(settings, fields).to_dict() | said)


def labelled(table: PacketTable, labels: str, fields: Sequence[str], least: int) -> tuple[PacketTable, list[Note]]:
    """The flows that have a label, of at least so many packets; `labels` is by-file, by-folder or a file of labels."""
    notes: list[Note] = []
    if labels in (BY_FILE, BY_FOLDER):
        names = _by_folder(table) if labels == BY_FOLDER else _by_file(table)
        flows = table.flows.with_columns(pl.col("capture").replace_strict(names).alias("label"))
    else:
        known = read_flow_labels(labels)
        _refuse_given_away(known, fields)
        joined = known.join(table.flows)
        notes += joined.notes
        flows = table.flows.with_columns(joined.labels.alias("label"))
    n_unnamed, named = flows["label"].null_count(), flows.drop_nulls("label")
    kept = named.filter(pl.col("packets") >= least)
    if n_short := named.height - kept.height:
        text = f"{n_short:,} of {named.height:,} labelled flows have fewer than {least} packets and are left out"
        text += "; kvec train --min-packets 1 keeps them"
        notes.append(Note(SHORT, n_short, text))
    if n_unnamed:
        notes.append(Note("flows without a label", n_unnamed, f"{n_unnamed:,} flows have no label and are left out"))
    if not kept.height:
        raise DataError(
            f"{labels}: no labelled flow has {least} packets; the longest has {max(named['packets'], default=0)}; "
            "lower --min-packets (min_packets under [packets] in a schema), or bring longer captures"
        )
    on = ["capture", "key"]
    items = table.items.join(kept.select(*on, "label"), on=on, how="inner", maintain_order="left")
    return replace(table, items=items, flows=kept), notes


def labelled_schema(schema: Schema, table: PacketTable) -> Schema:
    """The schema of labelled flows: what a split may not cut, and what is put side by side, where it does not say."""
    schema = replace(schema, labels=schema.labels or ("label",))
    if schema.group:
        return schema
    tangling = schema.tangling or side_by_side(table)
    is_cut = tangling is not None and tangling.of == "key"
    return replace(schema, group="capture, key" if is_cut else "capture", tangling=tangling)


def side_by_side(table: PacketTable) -> Tangling | None:
    """How tangles are made of captures: they are left as they are where there are ten, and three of each class.

    Where there are fewer, flows are split, and flows of all captures are put side by side.
    """
    spread = table.flows.group_by("label").agg(pl.col("capture").n_unique().alias("n"))
    is_enough = (spread["n"] >= FEWEST_OF_CLASS).all() and table.flows["capture"].n_unique() >= FEWEST_CAPTURES
    return None if is_enough else Tangling(number=SIDE_BY_SIDE, of="key", clock="common")


def _by_file(table: PacketTable) -> dict[str, str]:
    """The name of a file, or of the archive it is in; parts that are numbered from 0 or 1 on share a label."""
    stems = {name: _stem(_outermost(name)) for name, _ in table.captures}
    parts: dict[str, set[int]] = {}
    for stem in stems.values():
        if found := _PART.search(stem):
            parts.setdefault(stem[: found.start()], set()).add(int(found[0][1:]))
    whole = {short for short, n in parts.items() if len(n) > 1 and min(n) < 2 and max(n) - min(n) == len(n) - 1}
    return {name: short if (short := _PART.sub("", stem)) in whole else stem for name, stem in stems.items()}


def _by_folder(table: PacketTable) -> dict[str, str]:
    found = {}
    places = {path.absolute() for _, path in table.captures}
    for name, path in table.captures:
        place = path.absolute()
        holds_all = len(places) > 1 and all(place.parent in other.parents for other in places)
        folder = PurePosixPath(_outermost(name)).parent.name or ("" if holds_all else place.parent.name)
        if not folder:
            raise DataError(f"{path}: lies in no folder that could be its label; use --labels {BY_FILE}")
        found[name] = folder
    return found


def _outermost(name: str) -> str:
    """The name of a capture without what is inside an archive."""
    before, archive, _ = name.partition(f"{ARCHIVE}/")
    return before + ARCHIVE if archive else name


def _stem(name: str) -> str:
    """A file's name without its endings.

    >>> _stem("Malware/Nsis-ay.pcap.gz"), _stem("Benign/SMB.7z")
    ('Nsis-ay', 'SMB')
    """
    stem = PurePosixPath(name).name
    while (ending := PurePosixPath(stem).suffix).lower() in (*ENDINGS, *PACKED[1:], ARCHIVE):
        stem = stem[: -len(ending)]
    return stem


def _refuse_given_away(labels: FlowLabels, fields: Sequence[str]) -> None:
    if given := labels.gives_away(fields):
        raise SettingError(
            f"{labels.name}: the labels were made from {', '.join(given)}, which the model would see; leave "
            f"{'it' if len(given) == 1 else 'them'} out of the values"
        )
