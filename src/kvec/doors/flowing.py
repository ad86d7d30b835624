"""`kvec flows`: packets as a table of items, and what was in them for people to read."""

from __future__ import annotations

import io
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from kvec.doors.flow_book import endpoint
from kvec.doors.messages import say
from kvec.doors.outlets import Outlet
from kvec.doors.packet_sources import Interface, open_packets, require_seconds
from kvec.doors.running import Stopping
from kvec.doors.summary import counted
from kvec.doors.writing import require_place
from kvec.read.packets.filtering import Filter
from kvec.read.packets.learning import labelled, labelled_schema
from kvec.read.packets.tables import PacketTable, packet_schema, read_packets, table_of, unread
from kvec.report.canvas import write_whole
from kvec.report.text import clock, plain, table
from kvec.words.errors import DataError, SettingError
from kvec.words.flows import FlowSettings

ENDINGS = (".parquet", ".ndjson", ".jsonl")
SHOWN = 40  # flows that are shown
MOST_FLOWS = 200_000  # of an interface that are kept; from then on the largest of them, and sums


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line."""

    captures: tuple[Path, ...] = ()
    interface: str | None = None
    filter: str = ""
    seconds: float | None = None
    output: Path | None = None
    form: str = "table"
    fields: str = "size,direction"
    labels: str | None = None
    min_packets: int = 1
    keyed: str = "inner"
    idle: float = 120.0
    active: float | None = None


def show_flows(wishes: Wishes) -> None:
    """Write the items, or show the flows."""
    require_place(wishes.output, ENDINGS, (*wishes.captures, wishes.labels))
    if wishes.form not in ("table", "ndjson", "json"):
        raise SettingError(f"--format is {wishes.form!r}; it can be table, ndjson or json")
    require_seconds(wishes.seconds)
    settings = _settings(wishes)
    fields = [name.strip() for name in wishes.fields.split(",") if name.strip()]
    packet_schema(settings, fields)  # refuses unknown fields
    problem = None
    if wishes.interface is None:
        kept = Filter(wishes.filter) if wishes.filter else None
        found = read_packets(
            _given(wishes), settings, fields, lambda text: say(f"warning: passed over: {text}"), kept,
            None if _needs_items(wishes) else _drop,
        )  # fmt: skip
    else:
        found, problem = _listen(wishes, settings, fields)
    if _is_told_at_once(wishes):
        print(flows_text(found), file=sys.stderr)
    else:
        _tell(found, wishes, fields)
    if lost := unread(found.counters):
        say(f"warning: {lost}")
    if problem is not None:
        raise problem


def _tell(found: PacketTable, wishes: Wishes, fields: list[str]) -> None:
    if wishes.labels is not None:
        found, notes = labelled(found, wishes.labels, fields, wishes.min_packets)
        for note in notes:
            say(note.text)
    if wishes.output is not None:
        _write(found.items, wishes.output)
        n_items, n_flows = counted(found.items.height, "item"), counted(found.flows.height, "flow")
        say(f"{n_items} of {n_flows} are in {wishes.output}")
        _write_schema(found, wishes, fields)
    elif wishes.form == "ndjson":
        sys.stdout.write(found.items.write_ndjson())
        return
    print(json.dumps(_plain(found), allow_nan=False) if wishes.form == "json" else flows_text(found))


def flows_text(found: PacketTable) -> str:
    """The largest flows, sums, and what belongs to no flow."""
    flows = found.flows.sort("packets", descending=True, maintain_order=True)
    rows = [
        (
            *(plain(endpoint(one[end], one[f"{end}_port"], one["protocol"]), 34) for end in ("client", "server")),
            one["protocol"], f"{one['packets']:,}", f"{one['bytes']:,}", _lasted(one["end"] - one["start"]),
            "ended" if one["is_over"] else "", *([plain(one["label"], 24)] if "label" in one else []),
        )
        for one in flows.head(SHOWN).iter_rows(named=True)
    ]  # fmt: skip
    header = ("client", "server", "protocol", "packets", "bytes", "lasted", "", *["label"][: "label" in flows.columns])
    parts = [table(rows, header, right=(3, 4, 5))]
    more = found.left_out
    if (left := flows.height + more["flows"] - SHOWN) > 0:
        parts[0] += f"\n… and {left:,} more flows; -o items.parquet writes the items of all"
    n_flows, n_over = flows.height + more["flows"], int(flows["is_over"].sum()) + more["ended"]
    n_packets, n_bytes = (int(flows[name].sum()) + more[name] for name in ("packets", "bytes"))
    parts.append(
        f"{counted(n_packets, 'packet')} ({n_bytes:,} bytes) of {counted(n_flows, 'flow')} in "
        f"{counted(len(found.captures), 'capture')}; {counted(n_over, 'flow')} ended"
    )
    if found.counters:
        lost = [(reason, f"{n:,}") for reason, n in found.counters.most_common()]
        parts.append(table(lost, ("noticed", "number"), right=(1,)))
    return "\n\n".join(parts)


def _lasted(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds < 59.9995 else clock(seconds)


def _given(wishes: Wishes) -> tuple[Path, ...]:
    if not wishes.captures:
        raise SettingError("name captures, or an interface with -i")
    return wishes.captures


def _listen(wishes: Wishes, settings: FlowSettings, fields: list[str]) -> tuple[PacketTable, DataError | None]:
    """The flows of an interface until someone stops, or the time is over; what ended it early."""
    source = open_packets(wishes.captures, wishes.interface, wishes.filter, "full", 256, False)
    assert isinstance(source, Interface)
    until = time.monotonic() + (wishes.seconds or float("inf"))
    with Stopping() as stopping:
        blocks = source.blocks(lambda: stopping.is_asked or time.monotonic() > until)
        packets = (block for _, block in blocks)
        outlet = Outlet(wishes.output) if _is_told_at_once(wishes) else None
        told: Callable[[pl.DataFrame], object] | None = None if _needs_items(wishes) else _drop
        if outlet is not None:
            outlet.begin(is_kept=False, is_replaced=True)
            told = _teller(outlet)
        sources = [(source.name, Path(source.name), packets, Counter[str]())]
        found = table_of(sources, settings, fields, told, None if wishes.labels is not None else MOST_FLOWS)
        if outlet is not None:
            outlet.close()
    say(source.lost)
    return found, source.problem


def _needs_items(wishes: Wishes) -> bool:
    """Whether items are written, or labelled, when all are there; else only their flows are kept."""
    return wishes.output is not None or wishes.form == "ndjson" or wishes.labels is not None


def _drop(items: pl.DataFrame) -> None:
    """Nobody needs them."""


def _teller(outlet: Outlet) -> Callable[[pl.DataFrame], None]:
    return lambda items: outlet.write(items.rows(named=True))


def _is_told_at_once(wishes: Wishes) -> bool:
    """Whether items are written as they come: as lines, without the labels that whole flows have."""
    is_lines = wishes.form == "ndjson" if wishes.output is None else wishes.output.suffix.lower() != ".parquet"
    return wishes.interface is not None and is_lines and wishes.labels is None


def _write(items: pl.DataFrame, path: Path) -> None:
    content = io.BytesIO()
    if path.suffix.lower() == ".parquet":
        items.write_parquet(content)
    else:
        items.write_ndjson(content)
    write_whole(path, content.getvalue())


def _write_schema(found: PacketTable, wishes: Wishes, fields: list[str]) -> None:
    """A TOML beside the items, so that whoever reads them knows what is what."""
    assert wishes.output is not None
    path = wishes.output.with_suffix(".toml")
    if path.exists():
        say(f"warning: {path} is there already and stays as it is; the items are read by it")
        return
    schema = packet_schema(_settings(wishes), fields)
    if wishes.labels is not None:
        schema = labelled_schema(schema, found)
    write_whole(path, schema.to_toml().encode())


def _settings(wishes: Wishes) -> FlowSettings:
    return FlowSettings(
        idle=wishes.idle, active=wishes.active, keyed=wishes.keyed, min_packets=max(wishes.min_packets, 1)
    )


def _plain(found: PacketTable) -> dict[str, object]:
    more = {"smaller_flows": dict(found.left_out)} if found.left_out else {}
    return {"flows": found.flows.to_dicts(), **more, "not_in_a_flow": dict(found.counters)}
