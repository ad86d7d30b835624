from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.read.packets.making_names import client_hello, crypto_frame, dns_answer, dtls_hello, quic_initial

from kvec.read.packets import naming, quic
from kvec.read.packets.naming import (
    NO_HELLO,
    NO_PACKAGE,
    OTHER_QUIC,
    DnsNames,
    Payloads,
    SniNames,
    _suffixes,
    registrable,
)  # fmt: skip
from kvec.words.errors import MissingExtra

HELLO = client_hello("www.example.org")
SCHEMA = {
    "key": pl.String, "direction": pl.UInt8, "protocol": pl.String, "time": pl.Float64, "client": pl.String,
    "client_port": pl.Int64, "server": pl.String, "server_port": pl.Int64, "sequence": pl.UInt32, "at": pl.Int64,
    "size": pl.Int64,
}  # fmt: skip


def block(*packets: dict[str, Any]) -> Payloads:
    rows, data = [], b""
    for given in packets:
        packet: dict[str, Any] = {
            "key": "k", "direction": 0, "protocol": "tcp", "time": 1.0, "client": "10.0.0.1", "client_port": 5000,
            "server": "192.0.2.1", "server_port": 443, "sequence": 0, "payload": b"",
        } | given  # fmt: skip
        payload = packet.pop("payload")
        rows.append(packet | {"at": len(data) if payload else -1, "size": len(payload)})
        data += payload
    return Payloads(pl.DataFrame(rows, schema=SCHEMA), np.frombuffer(data, np.uint8))


def test_hellos_of_many_flows_over_several_blocks() -> None:
    names = SniNames()
    second = client_hello("other.example.net")
    names.take(block(
        {"key": "a", "payload": HELLO[:100]}, {"key": "b", "payload": b"GET /"}, {"key": "c"},
        {"key": "d", "sequence": 9, "payload": second}, {"key": "d", "sequence": 9 + len(second), "payload": b"x"},
    ))  # fmt: skip
    assert names.names == {"d": "other.example.net"}
    assert names.reason_of("a") == "a hello cut off" and names.reason_of("b") == NO_HELLO
    names.take(block({"key": "e", "direction": 1, "payload": b"\x16\x03\x03\0\x05\x02\0\0\x01x"}))
    names.take(block({"key": "a", "sequence": 100, "payload": HELLO[100:]}))
    assert names.names == {"d": "other.example.net", "a": "www.example.org"}
    assert not names._open, "what is done is forgotten"


def test_a_hello_whose_second_half_comes_first() -> None:
    names = SniNames()
    names.take(block({"sequence": 60, "payload": HELLO[60:]}, {"sequence": 0, "payload": HELLO[:60]}))
    assert names.names == {"k": "www.example.org"}


def test_a_hello_without_a_name_tells_why() -> None:
    names = SniNames()
    names.take(block({"payload": client_hello(None)}))
    assert not names.names and names.reason_of("k") == "a hello without a server name"


def test_datagrams() -> None:
    pytest.importorskip("cryptography")
    names = SniNames()
    names.take(block(
        {"key": "a", "protocol": "udp", "payload": dtls_hello(HELLO[5:])},
        {"key": "b", "protocol": "udp", "payload": quic_initial(crypto_frame(0, HELLO[5:]), b"12345678")},
        {"key": "c", "protocol": "udp", "payload": b"\xc3Q050" + bytes(100)},
        {"key": "d", "protocol": "udp", "payload": b"\xc3\x12\x34\x56\x78" + bytes(100)},
        {"key": "e", "protocol": "udp", "payload": dtls_hello(client_hello(None)[5:])},
    ))  # fmt: skip
    assert names.names == {"a": "www.example.org", "b": "www.example.org"}
    assert [names.reason_of(key) for key in "cde"] == [OTHER_QUIC, NO_HELLO, "a hello without a server name"]


def test_quic_without_the_package_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    packet = quic_initial(crypto_frame(0, HELLO[5:]), b"12345678")
    monkeypatch.setattr(quic, "_cryptography", lambda: None)
    names = SniNames()
    names.take(block({"protocol": "udp", "payload": packet}))
    assert names.reason_of("k") == NO_PACKAGE


def test_open_hellos_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naming, "MOST_OPEN", 3)
    names = SniNames()
    for i in range(10):
        names.take(block({"key": f"k{i}", "payload": HELLO[:50]}))
    assert [key for key, _ in names._open] == ["k7", "k8", "k9"]


def test_an_empty_block() -> None:
    for names in (SniNames(), DnsNames()):
        names.take(Payloads(pl.DataFrame(schema=SCHEMA), np.zeros(0, np.uint8)))
        names.take(block({}))


def flow(client: str, server: str, start: float) -> dict[str, Any]:
    return {"client": client, "server": server, "start": start}


def test_flows_have_the_name_that_their_client_was_told_last() -> None:
    names = DnsNames()
    ask = {"protocol": "udp", "direction": 1, "server_port": 53, "server": "10.0.0.53"}
    over_tcp = dns_answer("tcp.example", "192.0.2.9")
    names.take(block(
        ask | {"time": 5.0, "payload": dns_answer("one.example", "192.0.2.1", "2001:db8::1")},
        ask | {"time": 9.0, "payload": dns_answer("two.example", "192.0.2.1")},
        ask | {"time": 9.5, "payload": dns_answer("other.example", "192.0.2.1"), "client": "10.0.0.2"},
        ask | {"time": 1.0, "protocol": "tcp", "payload": len(over_tcp).to_bytes(2, "big") + over_tcp},
        ask | {"time": 2.0, "direction": 0, "payload": dns_answer("lie.example", "192.0.2.66")},
    ))  # fmt: skip
    flows = pl.DataFrame([
        flow("10.0.0.1", "192.0.2.1", 20.0), flow("10.0.0.1", "192.0.2.1", 6.0), flow("10.0.0.1", "192.0.2.1", 4.0),
        flow("10.0.0.1", "2001:db8::1", 6.0), flow("10.0.0.3", "192.0.2.1", 20.0), flow("10.0.0.1", "192.0.2.9", 20.0),
        flow("10.0.0.1", "192.0.2.66", 20.0),
    ])  # fmt: skip
    told = ["two.example", "one.example", None, "one.example", "other.example", "tcp.example", None]
    assert names.names_of(flows).to_list() == told


def test_answers_that_nobody_gave() -> None:
    assert DnsNames().names_of(pl.DataFrame([flow("10.0.0.1", "192.0.2.1", 1.0)])).to_list() == [None]


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("a.b.example.com", "example.com"), ("example.com", "example.com"), ("www.bbc.co.uk", "bbc.co.uk"),
        ("x.s3.amazonaws.com", "amazonaws.com"), ("co.uk", "co.uk"), ("tv.local", "tv.local"),
        ("localhost", "localhost"),
    ],
)  # fmt: skip
def test_domains(host: str, domain: str) -> None:
    pytest.importorskip("publicsuffixlist")
    assert registrable(host) == domain


def test_domains_without_the_list_say_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def importing(name: str, *rest: Any) -> Any:
        if name == "publicsuffixlist":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", importing)
    _suffixes.cache_clear()
    with pytest.raises(MissingExtra, match="--level host"):
        registrable("never.seen.before.example")
    monkeypatch.undo()
    _suffixes.cache_clear()
