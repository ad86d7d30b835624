"""What is remembered of flows while they are watched."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from tests.doors.made_captures import flow
from tests.read.packets.making_packets import Frame, ethernet, icmp, ipv6, packets_of, udp

from kvec.doors.flow_book import FlowBook
from kvec.read.packets.flows import Arrived, Flows
from kvec.read.packets.layers import dissect
from kvec.words.flows import FlowSettings
from kvec.words.items import Decision, Reason

CAPTURE = "day1.pcap"


def arrived(frames: Sequence[Frame], flows: Flows | None = None) -> Arrived:
    packets = packets_of(frames)
    return (flows or Flows(FlowSettings())).take(packets, dissect(packets))


def decision(key: str, label: str = "web", n_observed: int = 4) -> Decision:
    return Decision(CAPTURE, key, 0, (label,), (0.9,), n_observed, None, Reason.HALTED)


def datagrams(n: int) -> list[Frame]:
    """Flows of one packet each."""
    pairs = [(1000 + i, udp(1000 + i, 53, b"ask")) for i in range(n)]
    return [Frame(ethernet(0x86DD, ipv6("fe80::1", "fe80::2", 17, data)), port * 10**9) for port, data in pairs]


def test_packets_are_counted_beyond_the_decision() -> None:
    frames, flows, book = flow("ask", "10.0.0.7", 20_000, 100.0, random.Random(1)), Flows(FlowSettings()), FlowBook()
    book.take(CAPTURE, arrived(frames[:6], flows))
    (one,) = book.newest(5)
    assert (one.client, one.server, one.protocol, one.start) == ("10.0.0.7:20000", "192.0.2.1:443", "tcp", 100.0)
    assert one.earliness == 1.0 and one.decision is None
    key = "10.0.0.7:20000-192.0.2.1:443/tcp"
    (known,) = book.decided([decision(key)])
    size = sum(len(f.data) for f in frames[:4])
    assert known == {  # as it was when the fourth packet came, though the block brought six
        "client": "10.0.0.7:20000", "server": "192.0.2.1:443", "protocol": "tcp", "start": 100.0,
        "time": pytest.approx(frames[3].time / 1e9), "packets": 4, "bytes": size,
    }  # fmt: skip
    book.take(CAPTURE, arrived(frames[6:], flows))
    assert (one.packets, one.bytes) == (38, sum(len(f.data) for f in frames))
    assert one.earliness == 4 / 38 and one.last == pytest.approx(frames[-1].time / 1e9)
    assert (book.packets, book.bytes, book.n_flows, book.n_decided) == (38, one.bytes, 1, 1)


def test_the_same_endpoints_in_another_capture_are_another_flow() -> None:
    book = FlowBook()
    for name in (CAPTURE, "day2.pcap"):
        book.take(name, arrived(datagrams(1)))
    assert book.n_flows == 2
    book.decided([decision("[fe80::1]:1000-[fe80::2]:53/udp")])
    assert [one.decision is None for one in book.newest(5)] == [False, True]


def test_labels_are_summed_up() -> None:
    book = FlowBook()
    found = arrived(datagrams(5))
    book.take(CAPTURE, found)
    keys = found.key.to_list()
    book.decided([decision(key, "web" if i else "mail", i + 1) for i, key in enumerate(keys)])
    assert book.labels == {"web": 4, "mail": 1}
    assert book.mean_observed("web") == 3.5 and book.mean_observed("mail") == 1.0 and book.mean_observed("none") == 0.0


def test_only_so_many_flows_are_remembered() -> None:
    book = FlowBook(most=3)
    found = arrived(datagrams(10))
    book.take(CAPTURE, found)
    keys = found.key.to_list()
    assert (book.n_flows, book.packets) == (10, 10)
    assert [one.client for one in book.newest(9)] == [f"[fe80::1]:{port}" for port in (1009, 1008, 1007)]
    assert book.decided([decision(keys[0])]) == [{}], "it is named all the same"
    assert book.n_decided == 1 and book.labels == {"web": 1}


def test_who_still_speaks_is_remembered() -> None:
    book, flows = FlowBook(most=2), Flows(FlowSettings())
    long, others = datagrams(1), datagrams(6)[1:]
    for other in others:
        book.take(CAPTURE, arrived(long, flows))
        book.take(CAPTURE, arrived([other], flows))
    (known,) = book.decided([decision("[fe80::1]:1000-[fe80::2]:53/udp")])
    assert known["packets"] == 5 and book.n_flows == 6


def test_those_named_last_come_first_then_those_opened_last() -> None:
    book = FlowBook()
    found = arrived(datagrams(6))
    book.take(CAPTURE, found)
    keys = found.key.to_list()
    book.decided([decision(keys[i]) for i in (4, 0)])

    def ports(n: int) -> list[int]:
        return [int(one.client.rpartition(":")[2]) - 1000 for one in book.newest(n)]

    assert ports(9) == [0, 4, 5, 3, 2, 1]
    assert ports(3) == [0, 4, 5] and ports(1) == [0]


def test_a_ping_has_no_port() -> None:
    book = FlowBook()
    book.take(CAPTURE, arrived([Frame(ethernet(0x86DD, ipv6("fe80::1", "fe80::2", 58, icmp(128, 0, 7))))]))
    (one,) = book.newest(1)
    assert (one.client, one.server, one.protocol) == ("fe80::1", "fe80::2", "icmp6")
