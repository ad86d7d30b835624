from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from tests.read.packets.making_names import client_hello, crypto_frame, dns_answer, quic_initial, sent, tls_flow
from tests.read.packets.making_packets import Frame, pcap

from kvec.read.packets import named_flows
from kvec.read.packets.captures import open_capture
from kvec.read.packets.named_flows import LEVELS, NO_APPLICATION, NO_LOOKUP, NO_SERVICE, name_flows
from kvec.read.packets.naming import NO_HELLO
from kvec.read.packets.ndpi import SCHEMA
from kvec.words.flows import FlowSettings

ME, RESOLVER = "10.0.0.1", ("10.0.0.53", 53)


def named(frames: Sequence[Frame], by: str, level: str = "") -> pl.DataFrame:
    frames = sorted(frames, key=lambda frame: frame.time)
    capture = open_capture(io.BytesIO(pcap(frames, nano=True)), "a.pcap")
    return name_flows(capture, by, level or LEVELS[by][-1], FlowSettings()).frame


def test_server_names() -> None:
    web, six = ("192.0.2.1", 443), ("2001:db8::1", 443)
    frames = [
        *tls_flow((ME, 5000), web, "www.example.org", 10.0),
        *tls_flow((ME, 5001), web, None, 11.0),
        *tls_flow(("2001:db8::9", 5002), six, "six.example.net", 12.0),
        sent((ME, 5003), web, quic_initial(crypto_frame(0, client_hello("quic.example.com")[5:]), b"12345678"), 13.0),
        sent((ME, 5004), ("192.0.2.9", 9999), b"hello", 14.0),
    ]
    found = named(frames, "sni")
    assert found["client_port"].to_list() == [5000, 5001, 5002, 5003, 5004]
    assert found["name"].to_list() == ["www.example.org", None, "six.example.net", "quic.example.com", None]
    assert found["reason"].to_list() == [None, "a hello without a server name", None, None, NO_HELLO]
    assert found.select("client", "server", "server_port", "protocol", "packets").row(0) == (ME, *web, "tcp", 6)
    assert found.select("start", "end").row(0) == pytest.approx((10.0, 10.05))


def test_domains_of_server_names() -> None:
    pytest.importorskip("publicsuffixlist")
    frames = tls_flow((ME, 5000), ("192.0.2.1", 443), "a.b.example.co.uk", 10.0)
    assert named(frames, "sni", "domain")["name"].to_list() == ["example.co.uk"]


def test_two_flows_of_one_tuple_have_a_name_each() -> None:
    web = ("192.0.2.1", 443)
    frames = tls_flow((ME, 5000), web, "one.example", 10.0) + tls_flow((ME, 5000), web, "two.example", 500.0)
    assert named(frames, "sni")["name"].to_list() == ["one.example", "two.example"]


def test_names_by_lookups() -> None:
    frames = [
        sent(RESOLVER, (ME, 4000), dns_answer("www.example.org", "192.0.2.1"), 5.0),
        sent((ME, 4000), RESOLVER, b"question", 4.9),
        sent((ME, 5000), ("192.0.2.1", 9), b"x", 6.0),
        sent((ME, 5001), ("192.0.2.2", 9), b"x", 6.0),
    ]
    found = named(frames, "dns")
    assert found["name"].to_list() == [None, "www.example.org", None]
    assert found["reason"].to_list() == [NO_LOOKUP, None, NO_LOOKUP]


def test_names_by_ports() -> None:
    frames = [sent((ME, 5000), ("192.0.2.1", 53), b"x", 6.0), sent((ME, 5000), ("192.0.2.1", 61000), b"x", 6.0)]
    found = named(frames, "port")
    assert found["name"].to_list() == ["dns", None] and found["reason"].to_list() == [None, NO_SERVICE]


@pytest.mark.parametrize("is_plain", [True, False])
def test_names_by_ndpi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_plain: bool) -> None:
    """nDPI is given the file as it is, or a plain copy of what is compressed."""
    given: list[Path] = []

    def known(path: Path, by_category: bool) -> pl.DataFrame:
        given.append(path)
        assert path.read_bytes()[:4] == b"\x4d\x3c\xb2\xa1"
        row = ("192.0.2.1", 443, ME, 5000, "17", 6.0, 6.0, "Category" if by_category else "App")
        return pl.DataFrame([row], schema=SCHEMA, orient="row")

    monkeypatch.setattr(named_flows, "ndpi_flows", known)
    frames = [sent((ME, 5000), ("192.0.2.1", 443), b"x", 6.0004), sent((ME, 5001), ("192.0.2.1", 443), b"x", 6.0)]
    raw, path = pcap(frames, nano=True), tmp_path / "a.pcap"
    if is_plain:
        path.write_bytes(raw)
    else:
        import gzip

        path.write_bytes(gzip.compress(raw))
    found = name_flows(open_capture(path), "ndpi", "category", FlowSettings(), path).frame
    assert found["name"].to_list() == ["Category", None] and found["reason"].to_list() == [None, NO_APPLICATION]
    assert (given[0] == path) is is_plain


def test_a_capture_without_packets() -> None:
    for by in ("sni", "dns", "port"):
        assert named([], by).is_empty()


def test_what_is_no_flow_is_counted() -> None:
    capture = open_capture(io.BytesIO(pcap([Frame(bytes(12) + b"\x08\x06" + bytes(28))])), "a.pcap")
    assert sum(name_flows(capture, "port", "service", FlowSettings()).counters.values()) == 1
