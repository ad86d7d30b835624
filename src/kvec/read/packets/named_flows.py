"""The flows of a capture with the names that one method finds for them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from kvec.read.packets.captures import Capture, Packets
from kvec.read.packets.flow_labels import FlowLabels
from kvec.read.packets.flows import Arrived, Flows
from kvec.read.packets.layers import Layers, dissect
from kvec.read.packets.naming import NO_LOOKUP, DnsNames, Payloads, SniNames, registrable
from kvec.read.packets.ndpi import PlainCopy, ndpi_flows
from kvec.read.packets.services import services_of
from kvec.words.flows import FlowSettings

LEVELS = {"sni": ("domain", "host"), "dns": ("domain", "host"), "port": ("service",), "ndpi": ("app", "category")}
NO_SERVICE = "neither port is a known service's"
NO_APPLICATION = "nDPI knows no application"
ENDS = ("client", "client_port", "server", "server_port", "protocol")
PLAIN = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x0a\x0d\x0d\x0a")
SEEN = {
    "key": pl.String, "direction": pl.UInt8, "time": pl.Float64, "client": pl.String, "client_port": pl.Int64,
    "server": pl.String, "server_port": pl.Int64, "protocol": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class NamedFlows:
    """`frame` has key, client, client_port, server, server_port, protocol, start, end, packets, name and reason."""

    frame: pl.DataFrame
    counters: Counter[str]  # what of the capture became no packet of a flow, by reason


def name_flows(capture: Capture, by: str, level: str, settings: FlowSettings, path: Path | None = None) -> NamedFlows:
    """Read a capture to its end and name its flows; nDPI reads the file at `path` itself where it can."""
    flows, sni, dns = Flows(settings), SniNames(), DnsNames()
    parts = [_sums(pl.DataFrame(schema=SEEN).with_columns(pl.lit(1).alias("packets")))]
    with ExitStack() as stack:
        copy = stack.enter_context(PlainCopy()) if by == "ndpi" and not (path and _is_plain(path)) else None
        for packets in capture:
            layers = dissect(packets, settings.keyed)
            arrived = flows.take(packets, layers)
            seen = pl.DataFrame({name: getattr(arrived, name) for name in SEEN}, schema=SEEN)
            parts.append(_sums(seen.with_columns(pl.lit(1).alias("packets"))))
            if by in ("sni", "dns"):
                (sni if by == "sni" else dns).take(_payloads(packets, layers, arrived, seen))
            if copy is not None:
                copy.add(packets)
        whole = _sums(pl.concat(parts))
        if by == "ndpi":
            names = _by_tuple(ndpi_flows(copy.path if copy else path or "", level == "category"), whole)
        elif by == "port":
            names = services_of(whole)
        elif by == "dns":
            names = dns.names_of(whole)
        else:
            names = pl.Series([sni.names.get(key) for key in whole["key"]], dtype=pl.String)
    if level == "domain":
        names = pl.Series([None if name is None else registrable(name) for name in names], dtype=pl.String)
    reason = {"dns": NO_LOOKUP, "port": NO_SERVICE, "ndpi": NO_APPLICATION}.get(by)
    reasons = [
        reason or sni.reason_of(key) if name is None else None for key, name in zip(whole["key"], names, strict=True)
    ]
    named = whole.with_columns(names.alias("name"), pl.Series("reason", reasons, dtype=pl.String))
    return NamedFlows(named, Counter(capture.counters) + Counter(flows.counters))


def _sums(seen: pl.DataFrame) -> pl.DataFrame:
    """One row for each flow, from rows for its packets or for parts of it."""
    start, end = ("start", "end") if "start" in seen.columns else ("time", "time")
    return seen.group_by("key", maintain_order=True).agg(
        pl.col(ENDS).first(),
        pl.col(start).min().alias("start"),
        pl.col(end).max().alias("end"),
        pl.col("packets").sum(),
    )


def _payloads(packets: Packets, layers: Layers, arrived: Arrived, seen: pl.DataFrame) -> Payloads:
    row = np.asarray(arrived.row)
    at = layers.payload_at[row]
    captured = packets.starts[row] + packets.sizes[row] - at
    size = np.where(at >= 0, np.clip(np.minimum(layers.payload[row], captured), 0, None), 0)
    sequence = pl.Series("sequence", layers.sequence[row])
    return Payloads(seen.with_columns(sequence, pl.Series("at", at), pl.Series("size", size)), packets.data)


def _is_plain(path: Path) -> bool:
    """Whether libpcap can read the file as it is."""
    with path.open("rb") as file:
        return file.read(4) in PLAIN


def _by_tuple(known: pl.DataFrame, flows: pl.DataFrame) -> pl.Series:
    rows = known.with_columns(pl.lit(None, pl.String).alias("capture"), pl.int_range(1, pl.len() + 1).alias("row"))
    found, _ = FlowLabels.of("nDPI", rows, ("ndpi",)).search(flows.with_columns(pl.lit("").alias("capture")))
    return found
