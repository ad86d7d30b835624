"""Captures as a table of items: a row per packet, a key per flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl

from kvec.read.packets.captures import UNREAD, Capture, Packets, open_captures
from kvec.read.packets.filtering import Filter
from kvec.read.packets.flows import Arrived, Flows
from kvec.read.packets.layers import dissect
from kvec.words.errors import DataError, SettingError
from kvec.words.flows import FlowSettings
from kvec.words.schema import Field, Schema

ENDINGS = (".pcap", ".pcapng", ".cap", ".dmp", ".ntar")
PACKED = ("", ".gz", ".zst", ".xz", ".bz2")
ARCHIVE = ".7z"
FIELDS = {
    "size": "categorical",
    "direction": "categorical",
    "gap": "binned",
    "flags": "categorical",
    "payload": "categorical",
    "ttl": "categorical",
    "client_port": "categorical",
    "server_port": "categorical",
}  # what a packet can tell a model, and how it is told
MOST_PARTS = 1000  # blocks that are added up at a time
LARGEST = 10_000  # flows that are kept where there are too many
NOTHING = Packets(
    np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64),
    np.empty(0, np.uint16),
)  # fmt: skip
FLOW = ("client", "client_port", "server", "server_port", "protocol")


@dataclass(frozen=True)
class PacketTable:
    """Items (capture, key, time, the fields, end) and flows of captures, and what could not be read of them."""

    items: pl.DataFrame
    flows: (
        pl.DataFrame
    )  # capture, key, client…protocol, start, end, packets, bytes, is_over; label where there are some
    counters: Counter[str]
    captures: tuple[tuple[str, Path], ...]  # names and files
    left_out: Counter[str] = field(default_factory=Counter)  # flows, packets, bytes and ended ones that are not listed


def is_capture(path: Path) -> bool:
    """Whether a file is a capture by its name.

    >>> is_capture(Path("Benign/Gmail.pcap")), is_capture(Path("day1.pcapng.zst")), is_capture(Path("flows.csv.gz"))
    (True, True, False)
    """
    name = path.name.lower()
    return name.endswith(ARCHIVE) or any(name.endswith(e + packed) for e in ENDINGS for packed in PACKED)


def holds_captures(path: Path) -> bool:
    """Whether a path is a capture, or a folder with captures somewhere in it."""
    if path.is_dir():
        return any(is_capture(file) for file in path.rglob("*") if not file.name.startswith("."))
    return is_capture(path)


def each_capture(
    given: Sequence[Path], passed_by: Callable[[str], object] | None = None
) -> Iterator[tuple[str, Path, Capture]]:
    """Every capture of files, archives and folders, in the order of their names, under a short name of its own.

    What is no capture is told to `passed_by`, in a folder or among several files; a single file must be one.
    """
    for path in given:
        if not path.exists():
            raise DataError(f"{path}: no such file or folder")
    files: list[tuple[Path, str, bool]] = []
    for path in given:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if is_capture(file) and not file.name.startswith("."))
            files += [(file, file.relative_to(path).as_posix(), True) for file in inside]
        else:
            files.append((path, path.name, len(given) > 1))
    unlike: dict[Path, tuple[Path, str, bool]] = {}
    for one in files:
        unlike.setdefault(one[0].resolve(), one)  # named twice, or beside its folder
    times = Counter(name for _, name, _ in unlike.values())
    n_read = 0
    for path, name, is_found in unlike.values():
        short = name if times[name] == 1 else path.as_posix()
        try:
            for capture in open_captures(path):
                n_read += 1
                yield short + capture.name.removeprefix(str(path)), path, capture
        except DataError as error:
            if not is_found:
                raise
            if passed_by is not None:
                passed_by(str(error))
    if not n_read:
        where = f"{given[0]}: there is no capture in this folder" if len(given) == 1 else "none of these is a capture"
        raise DataError(f"{where}; pcap and pcapng can be read")


def read_packets(
    given: Sequence[Path],
    settings: FlowSettings,
    fields: Sequence[str] = ("size", "direction"),
    passed_by: Callable[[str], object] | None = None,
    filter: Filter | None = None,
    given_away: Callable[[pl.DataFrame], object] | None = None,
) -> PacketTable:
    """Read captures to their ends: the items of all their flows, or of the packets that a filter lets through."""

    def blocks(capture: Capture) -> Iterable[Packets]:
        return capture if filter is None else map(filter.passing, capture)

    found = each_capture(given, passed_by)
    table = table_of(
        ((name, path, blocks(capture), capture.counters) for name, path, capture in found), settings, fields, given_away
    )
    if filter is not None:
        table.counters.update(filter.lost)
    if not table.flows.height:
        raise no_flows(str(given[0]), table.counters)
    return table


def no_flows(name: str, counters: Counter[str]) -> DataError:
    """What is wrong with captures that hold no flow."""
    why = ", ".join(f"{n:,} × {reason}" for reason, n in counters.most_common(3))
    return DataError(f"{name}: no packet of it belongs to a flow{f' ({why})' if why else ''}")


def unread(counters: Counter[str]) -> str:
    """What to say where a part of the captures could not be read; else nothing.

    >>> unread(Counter({UNREAD: 5000}))
    'captures are damaged or cut off: 5,000 bytes were not read, whatever packets they hold'
    """
    n = counters[UNREAD]
    return f"captures are damaged or cut off: {n:,} bytes were not read, whatever packets they hold" if n else ""


def table_of(
    sources: Iterable[tuple[str, Path, Iterable[Packets], Counter[str]]],
    settings: FlowSettings,
    fields: Sequence[str] = ("size", "direction"),
    given_away: Callable[[pl.DataFrame], object] | None = None,
    most: int | None = None,
) -> PacketTable:
    """The items of packets, each source a capture of its own, with what could not be read of it.

    Where items are `given_away`, a block at a time, the table does not keep them. Of more than `most` flows it keeps
    the largest, and sums of all others.
    """
    items, sums, counters, captures = [], [], Counter[str](), []
    totals = Counter[str]()
    for name, path, blocks, lost in sources:
        flows = Flows(settings)
        captures.append((name, path))
        for packets in chain(blocks, [NOTHING]):
            arrived = flows.take(packets, dissect(packets, settings.keyed))
            block = item_columns(arrived, fields, name)
            if given_away is not None and block.height:
                given_away(block)
            items.append(block if given_away is None else block.clear())
            sums.append(_sums(_seen(arrived, name)))
            totals.update(packets=len(arrived), bytes=int(arrived.size.sum()))
            is_many = most is not None and sum(part.height for part in sums) > most
            if len(sums) > MOST_PARTS or is_many:
                items, sums = [pl.concat(items)], [_sums(pl.concat(sums))]
                if most is not None and sums[0].height > most:
                    sums = [sums[0].top_k(min(most, LARGEST), by="packets")]
        counters += lost
        counters += flows.counters
        totals.update(flows=flows.opened, ended=flows.ended)
    kept = _sums(pl.concat(sums))
    listed = {name: int(kept[name].sum()) for name in ("packets", "bytes")}
    listed |= {"flows": kept.height, "ended": int(kept["is_over"].sum())}
    left_out = Counter() if most is None else totals - Counter(listed)
    return PacketTable(pl.concat(items), kept, counters, tuple(captures), left_out)


def item_columns(arrived: Arrived, fields: Sequence[str], capture: str) -> pl.DataFrame:
    """The items of some packets as the columns of a table."""
    columns = {"key": arrived.key, "time": arrived.time, **{name: getattr(arrived, name) for name in fields}}
    frame = pl.DataFrame({**columns, "end": arrived.is_end})
    return frame.select(pl.lit(capture).alias("capture"), pl.all())


def packet_schema(settings: FlowSettings, fields: Sequence[str] = ("size", "direction")) -> Schema:
    """How the items of captures are read: flows that see each other in one capture, bursts of one direction."""
    for name in fields:
        if name not in FIELDS:
            raise SettingError(f"{name!r} is no field of a packet; fields: {', '.join(FIELDS)}")
    told = [name for name in ("size", "direction") if name in fields]
    return Schema(
        key=("key",),
        tangle="capture",
        time="time",
        end="end",
        values=tuple(Field(name, kind=FIELDS[name]) for name in fields),
        session=("direction",) if "direction" in fields else (),
        match=tuple(told) if 0 < len(told) < len(fields) else (),
        expiry=settings.idle,
        packets=settings,
    )


# -- flows --------------------------------------------------------------------------------------------------------


def _seen(arrived: Arrived, capture: str) -> pl.DataFrame:
    columns = {name: getattr(arrived, name) for name in FLOW}
    frame = pl.DataFrame({"key": arrived.key, **columns, "start": arrived.time, "bytes": arrived.size})
    return frame.with_columns(
        pl.lit(capture).alias("capture"), pl.col("start").alias("end"), pl.lit(1, pl.Int64).alias("packets"),
        pl.col("bytes").cast(pl.Int64), pl.Series("is_over", arrived.is_end, dtype=pl.Boolean),
    )  # fmt: skip


def _sums(seen: pl.DataFrame) -> pl.DataFrame:
    return seen.group_by("capture", "key", maintain_order=True).agg(
        pl.col(*FLOW).first(), pl.col("start").min(), pl.col("end").max(), pl.col("packets", "bytes").sum(),
        pl.col("is_over").any(),
    )  # fmt: skip
