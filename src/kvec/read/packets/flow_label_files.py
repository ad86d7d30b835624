"""Opens files that label flows: kvec's own, exports of nDPI and NFStream, Zeek logs, tables of usual columns."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from kvec.read.broken import what_is_wrong
from kvec.read.files import FAILURES, ROW, Rows
from kvec.words.errors import DataError

# Names as they are compared: small letters and digits only. The first one that is there is taken.
COLUMNS: dict[str, tuple[str, ...]] = {
    "capture": ("capture", "pcap", "pcapfile", "capturefile", "filename"),
    "client": (
        "client", "clientip", "clientaddress", "srcip", "sourceip", "ipsrc", "idorigh", "origh", "saddr", "srcaddr",
        "sourceaddress", "sourceipaddress", "srcaddress", "src", "source",
    ),
    "client_port": ("clientport", "srcport", "sourceport", "idorigp", "origp", "sport"),
    "server": (
        "server", "serverip", "serveraddress", "dstip", "destip", "destinationip", "ipdst", "idresph", "resph", "daddr",
        "dstaddr", "destinationaddress", "destinationipaddress", "dstaddress", "dst", "dest", "destination",
    ),
    "server_port": ("serverport", "dstport", "destport", "destinationport", "idrespp", "respp", "dport"),
    "protocol": ("protocol", "proto", "ipproto", "ipprotocol", "l4proto", "transport", "protocolidentifier"),
    "start": (
        "start", "starttime", "timestart", "firstseen", "bidirectionalfirstseenms", "flowstart", "ts", "timestamp",
        "stime", "first", "time",
    ),
    "end": ("end", "endtime", "timeend", "lastseen", "bidirectionallastseenms", "flowend", "te", "ltime", "last"),
    "duration": ("duration", "dur", "durationms", "flowduration"),
    "label": ("label", "class", "applicationname", "ndpiproto", "application", "app", "service"),
    "by": ("by",),
}  # fmt: skip
NEEDED = ("client", "client_port", "server", "server_port", "protocol", "label")
MAKERS = {"ndpiproto": "ndpi", "applicationname": "ndpi", "service": "zeek"}  # a label column that says who gave it
THOUSANDTHS = {"durationms": 1e3, "flowduration": 1e6}  # CICFlowMeter counts microseconds
UNSET = ["", "-", "(empty)"]  # in a Zeek log


@dataclass(frozen=True)
class LabelFile:
    """The rows of a file of labels, and which column plays which role."""

    rows: Rows
    columns: dict[str, str]  # role to the column's own name
    maker: str | None  # who gave the labels, where the file shows it
    duration_unit: float  # how many make a second


def open_label_file(path: Path, label: str | None = None) -> LabelFile:
    """Read a file of labels of flows; `label` names its label column where it has several or an unusual one."""
    frame, texts = _read(path)
    plain = {name: re.sub(r"[^a-z0-9]", "", name.lower()) for name in frame.columns}
    columns: dict[str, str] = {}
    for role, names in COLUMNS.items():
        found = next((own for name in names for own, known in plain.items() if known == name), None)
        if found is not None:
            columns[role] = found
    if label is not None:
        if label not in frame.columns:
            raise DataError(f"{path}: has no column {label!r}; it has {', '.join(frame.columns[:20])}")
        columns["label"] = label
    for role in NEEDED:
        if role not in columns:
            raise DataError(
                f"{path}: no column tells the {role.replace('_', ' ')} of a flow; name one {role!r} "
                f"(it has {', '.join(frame.columns[:20])})"
            )
    if not frame.height:
        raise DataError(f"{path}: there are no rows in it")
    rows = Rows(frame.with_row_index(ROW, offset=1), str(path), frozenset(frame.columns) if texts else frozenset())
    unit = THOUSANDTHS.get(plain[columns["duration"]], 1.0) if "duration" in columns else 1.0
    return LabelFile(rows, columns, MAKERS.get(plain[columns["label"]]), unit)


def _read(path: Path) -> tuple[pl.DataFrame, bool]:
    """The cells of a file, and whether all of them are text."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a file of labels in it")
    raw = path.read_bytes()
    kind = "CSV"
    try:
        if raw[:4] == b"PAR1":
            kind = "Parquet"
            return pl.read_parquet(io.BytesIO(raw)), False
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        raw = raw.removeprefix(b"\xef\xbb\xbf")
        if not raw.strip():
            raise DataError(f"{path}: the file is empty")
        if b"#fields" in raw[: 1 << 16]:
            return _zeek(raw), True
        if raw.lstrip()[:1] == b"{":
            kind = "NDJSON"
            return pl.read_ndjson(io.BytesIO(raw), infer_schema_length=None), False
        header = raw.split(b"\n", 1)[0].decode("utf-8", "replace")
        separator = max(",;|\t", key=header.count)
        frame = pl.read_csv(
            io.BytesIO(raw.removeprefix(b"#")), infer_schema=False, separator=separator, null_values=[""]
        )
        return frame.rename({name: name.strip() for name in frame.columns}), True
    except (*FAILURES, EOFError, zlib.error) as error:
        raise DataError(f"{path}: {what_is_wrong(path, kind, error)}") from None


def _zeek(raw: bytes) -> pl.DataFrame:
    """A Zeek log of tab-separated columns; labels that were added after three spaces are columns too."""
    head = [line for line in raw[: 1 << 16].decode("utf-8", "replace").splitlines() if line.startswith("#")]
    separator = next((line.split()[1] for line in head if line.startswith("#separator")), "\\x09")
    separator = chr(int(separator[2:], 16)) if separator.startswith("\\x") else separator
    named = next(line for line in head if line.startswith("#fields"))
    if "   " in named:
        raw, named = raw.replace(b"   ", separator.encode()), named.replace("   ", separator)
    return pl.read_csv(
        io.BytesIO(raw), infer_schema=False, separator=separator, comment_prefix="#", has_header=False,
        new_columns=named.split(separator)[1:], quote_char=None, null_values=UNSET,
    )  # fmt: skip
