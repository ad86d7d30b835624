"""Applications of flows as nDPI names them, through NFStream."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kvec.read.packets.captures import Packets
from kvec.words.errors import DataError, MissingExtra

NANOSECOND_PCAP = 0xA1B23C4D
LOOKUPS = ("DNS", "MDNS", "LLMNR")  # what follows them is what was asked for, not what the flow is
INSTALL = 'labels by nDPI need NFStream: pip install "kvec[ndpi]" (Linux and macOS)'
SCHEMA = {
    "client": pl.String, "client_port": pl.Int64, "server": pl.String, "server_port": pl.Int64, "protocol": pl.String,
    "start": pl.Float64, "end": pl.Float64, "label": pl.String,
}  # fmt: skip


def application(name: str) -> str | None:
    """The application in nDPI's name of a flow.

    >>> application("TLS.YouTube"), application("DNS.Google"), application("Unknown")
    ('YouTube', 'DNS', None)
    """
    first, _, rest = name.partition(".")
    found = first if first in LOOKUPS else rest or first
    return found if found not in ("", "Unknown") else None


def ndpi_flows(path: str | Path, by_category: bool = False) -> pl.DataFrame:
    """The flows of a pcap or pcapng file that nDPI knows, each with its application or its category as label."""
    try:
        from nfstream import NFStreamer
    except ImportError:
        raise MissingExtra(INSTALL) from None
    rows: list[tuple[Any, ...]] = []
    if not Path(path).exists():
        return pl.DataFrame(schema=SCHEMA)
    try:
        for flow in NFStreamer(source=str(path), n_dissections=20, n_meters=0, idle_timeout=120, active_timeout=10**9):
            label = application(flow.application_name)
            if label is not None:
                label = flow.application_category_name if by_category else label
                ends = (flow.src_ip, flow.src_port, flow.dst_ip, flow.dst_port, str(flow.protocol))
                first, last = flow.bidirectional_first_seen_ms / 1e3, flow.bidirectional_last_seen_ms / 1e3
                rows.append((*ends, first, last, label))
    except (ValueError, OSError, RuntimeError) as error:
        raise DataError(f"{path}: NFStream cannot read it: {' '.join(str(error).split())}") from None
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


class PlainCopy:
    """A plain pcap file of packets that libpcap cannot read where they are: compressed, or in an archive.

    It has one link type, that of the first packet; packets of others are left out.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "plain.pcap"
        self._link: int | None = None

    def __enter__(self) -> PlainCopy:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def add(self, block: Packets) -> None:
        """Write the packets of one block."""
        if not len(block):
            return
        with self.path.open("ab") as file:
            if self._link is None:
                self._link = int(block.links[0])
                file.write(np.array([NANOSECOND_PCAP, 2 | 4 << 16, 0, 0, 1 << 18, self._link], "<u4").tobytes())
            file.write(_records(block, np.flatnonzero(block.links == self._link)).tobytes())


def _records(block: Packets, kept: Any) -> Any:
    sizes, times = block.sizes[kept].astype(np.int64), block.times[kept]
    seconds, rest = np.divmod(times, 1_000_000_000)
    heads = np.stack([seconds, rest, sizes, block.wire[kept].astype(np.int64)], axis=1).astype("<u4").view(np.uint8)
    ends = np.cumsum(sizes + 16)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    begins = ends - sizes - 16
    out[begins[:, None] + np.arange(16)] = heads
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    out[np.repeat(begins + 16, sizes) + within] = block.data[np.repeat(block.starts[kept], sizes) + within]
    return out
