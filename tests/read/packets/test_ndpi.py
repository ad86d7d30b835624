from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.read.packets.making_packets import Frame, packets_of

from kvec.read.packets.captures import open_capture
from kvec.read.packets.ndpi import PlainCopy, application, ndpi_flows
from kvec.words.errors import DataError, MissingExtra


def seen(name: str, category: str = "Web") -> SimpleNamespace:
    return SimpleNamespace(
        application_name=name, application_category_name=category, src_ip="10.0.0.1", src_port=5000, dst_ip="192.0.2.1",
        dst_port=443, protocol=6, bidirectional_first_seen_ms=1500, bidirectional_last_seen_ms=2500,
    )  # fmt: skip


def pretend(monkeypatch: pytest.MonkeyPatch, *flows: Any) -> None:
    def streamer(source: str, **settings: Any) -> Any:
        for flow in flows:
            if isinstance(flow, Exception):
                raise flow
            yield flow

    monkeypatch.setitem(sys.modules, "nfstream", SimpleNamespace(NFStreamer=streamer))  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.pcap").write_bytes(b"x")
    return tmp_path / "a.pcap"


def test_flows_that_ndpi_knows(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    pretend(monkeypatch, seen("TLS.Apple"), seen("Unknown"), seen("DNS.Apple", "Network"))
    flows = ndpi_flows(file)
    assert flows["label"].to_list() == ["Apple", "DNS"]
    assert flows.row(0)[:7] == ("10.0.0.1", 5000, "192.0.2.1", 443, "6", 1.5, 2.5)
    assert ndpi_flows(file, by_category=True)["label"].to_list() == ["Web", "Network"]


def test_names() -> None:
    names = ["HTTP", "QUIC.YouTube", "MDNS.Spotify", "Unknown", "", "TLS.Unknown"]
    assert [application(name) for name in names] == ["HTTP", "YouTube", "MDNS", None, None, None]


def test_failures_say_the_way_out(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    pretend(monkeypatch, ValueError("bad\nfile"))
    with pytest.raises(DataError, match=r"a\.pcap: NFStream cannot read it: bad file$"):
        ndpi_flows(file)
    monkeypatch.setitem(sys.modules, "nfstream", None)
    with pytest.raises(MissingExtra, match="pip install"):
        ndpi_flows(file)


def test_a_plain_copy_holds_the_same_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [Frame(bytes([i]) * (3 + i), time=10**18 + i, wire=100 + i) for i in range(5)]
    with PlainCopy() as copy:
        pretend(monkeypatch, seen("TLS"))
        assert ndpi_flows(copy.path).is_empty(), "there was no packet"
        copy.add(packets_of([]))
        copy.add(packets_of(frames[:2]))
        copy.add(packets_of([*frames[2:], Frame(b"other", link=101)]))
        blocks = list(open_capture(copy.path))
        for name in ("sizes", "wire", "times", "links"):
            cells = np.concatenate([getattr(block, name) for block in blocks])
            assert np.array_equal(cells, getattr(packets_of(frames), name)), name
        assert b"".join(f.data for f in frames) == b"".join(
            block.data[at : at + size].tobytes()
            for block in blocks
            for at, size in zip(block.starts, block.sizes, strict=True)
        )
        folder = copy.path.parent
    assert not folder.exists()


def test_the_real_nfstream_reads_the_copy() -> None:
    pytest.importorskip("nfstream")
    udp = bytes.fromhex("0035c350001c0000") + bytes.fromhex("000781800001000100000000") + bytes(8)
    ip = bytes.fromhex("450000300001000040110000c0000235c0000201") + udp
    frame = Frame(bytes(12) + b"\x08\0" + ip, time=1_700_000_000 * 10**9)
    with PlainCopy() as copy:
        copy.add(packets_of([frame]))
        flows = ndpi_flows(copy.path)
    assert isinstance(flows, pl.DataFrame)
    assert flows.rows() == [] or flows.row(0)[:4] == ("192.0.2.53", 53, "192.0.2.1", 50000)
