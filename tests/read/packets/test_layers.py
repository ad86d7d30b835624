"""Headers: what was put into a packet is found in it, and nothing that is put into one breaks the reader."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.packets import making_packets as make
from tests.read.packets.making_packets import Frame, packets_of
from tests.read.packets.stacks import Found, frames

from kvec.read.packets.headers import NO_PORTS
from kvec.read.packets.headers import PORTS as HAS_PORTS
from kvec.read.packets.layers import (
    ADDRESSES,
    KIND,
    NUMBER,
    OUTER,
    OUTER_VERSION,
    PORTS,
    PROBLEMS,
    PROTOCOL,
    TAGS,
    TUNNEL,
    VERSION,
    Layers,
    dissect,
)
from kvec.read.packets.tunnels import KINDS
from kvec.words.errors import SettingError


def end_of(row: np.ndarray, at: int, version: int) -> str:
    return str(ip_address(row[at : at + (4 if version == 4 else 16)].tobytes()))


def found_in(frame: Frame, layers: Layers, i: int = 0, start: int = 0) -> Found:
    """What the columns say of one packet, the sender first; the content is as long as it was captured."""
    row = layers.endpoints[i]
    version, at = int(row[VERSION]), int(layers.payload_at[i])
    ends = [end_of(row, a, version) for a in ADDRESSES]
    ports = [int.from_bytes(row[p : p + 2].tobytes(), "big") for p in PORTS]
    if layers.flipped[i]:
        ends.reverse()
        ports.reverse()
    assert row[PROTOCOL] == layers.protocol[i]
    size = int(layers.payload[i])
    return Found(
        *ends, int(layers.protocol[i]), (ports[0], ports[1]), row[KIND] == HAS_PORTS, int(layers.flags[i]),
        int(layers.sequence[i]), int(layers.acknowledged[i]), int(layers.ttl[i]), size,
        b"" if at < 0 else frame.data[at - start : at - start + size],
        tuple(tag for p in TAGS if (tag := int.from_bytes(row[p : p + 2].tobytes(), "big"))),
        KINDS[row[TUNNEL]], int.from_bytes(row[NUMBER : NUMBER + 4].tobytes(), "big"),
        tuple(end_of(row, a, int(row[OUTER_VERSION])) for a in OUTER) if row[TUNNEL] else ("", ""),  # type: ignore[arg-type]
    )  # fmt: skip


def canonical(found: Found) -> Found:
    """The form in which the identity keeps a packet: two VLANs, the tunnel's lower address first."""
    first, second = found.outer
    if first:
        first, second = sorted((first, second), key=lambda a: make.address(a))
    return replace(found, tags=found.tags[:2], outer=(first, second))


def problem_of(data: bytes, link: int = 1, wire: int = 0) -> str:
    return PROBLEMS[dissect(packets_of([Frame(data, link=link, wire=wire)])).problem[0]]


def one(data: bytes, link: int = 1, wire: int = 0, keyed: str = "inner") -> Found:
    frame = Frame(data, link=link, wire=wire)
    layers = dissect(packets_of([frame]), keyed)
    assert PROBLEMS[layers.problem[0]] == ""
    return found_in(frame, layers)


@settings(max_examples=300)
@given(frames())
def test_what_was_put_in_is_found(made: tuple[Frame, Found, Found]) -> None:
    frame, inner, outermost = made
    for keyed, expected in (("inner", inner), ("outer", outermost)):
        layers = dissect(packets_of([frame]), keyed)
        assert PROBLEMS[layers.problem[0]] == ""
        assert found_in(frame, layers) == canonical(expected)
        assert layers.fragment[0] == 0 and not layers.is_later[0]


@given(st.lists(frames(), max_size=8))
def test_packets_do_not_disturb_each_other(made: list[tuple[Frame, Found, Found]]) -> None:
    block = packets_of([frame for frame, _, _ in made])
    layers = dissect(block)
    for i, (frame, inner, _) in enumerate(made):
        assert found_in(frame, layers, i, int(block.starts[i])) == canonical(inner)


@given(frames())
def test_the_way_back_has_the_same_identity(made: tuple[Frame, Found, Found]) -> None:
    """Both directions of a plain flow differ in the direction alone."""
    _, inner, _ = made
    there = make.udp(*inner.ports, b"there")
    back = make.udp(*reversed(inner.ports), b"back")
    build = make.ipv4 if "." in inner.source else make.ipv6
    packets = [build(inner.source, inner.target, 17, there), build(inner.target, inner.source, 17, back)]
    layers = dissect(packets_of([Frame(p, link=101) for p in packets]), "outer")
    assert (layers.endpoints[0] == layers.endpoints[1]).all()
    same = (make.address(inner.source), inner.ports[0]) == (make.address(inner.target), inner.ports[1])
    assert same or layers.flipped[0] != layers.flipped[1]


@settings(max_examples=200)
@given(
    st.binary(max_size=200), st.sampled_from([0, 1, 9, 12, 50, 51, 101, 104, 105, 108, 113, 127, 204, 219, 276, 999])
)
def test_no_bytes_break_it(data: bytes, link: int) -> None:
    for keyed in ("inner", "outer"):
        layers = dissect(packets_of([Frame(data, link=link)]), keyed)
        assert layers.problem[0] < len(PROBLEMS)
        assert -1 <= layers.payload_at[0] < len(data)
        assert 0 <= layers.payload[0] <= 65535 + len(data)


@settings(max_examples=200)
@given(frames(), st.data())
def test_no_damage_breaks_it(made: tuple[Frame, Found, Found], data: st.DataObject) -> None:
    whole = bytearray(made[0].data)
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    layers = dissect(packets_of([Frame(bytes(cut), link=made[0].link)]))
    assert layers.payload_at[0] < len(cut)


@given(frames(), st.integers(0, 200))
def test_cut_headers_are_said_to_be_cut(made: tuple[Frame, Found, Found], size: int) -> None:
    """A snapped packet is read as the whole one was, is keyed by an outer packet, or is not used."""
    frame, inner, _ = made
    layers = dissect(packets_of([Frame(frame.data[:size], link=frame.link, wire=len(frame.data))]))
    if (
        layers.problem[0] == 0
        and KINDS[layers.endpoints[0][TUNNEL]] == inner.tunnel
        and layers.protocol[0] == inner.protocol
    ):
        seen = found_in(frame, layers)
        assert (seen.source, seen.target, seen.payload) == (inner.source, inner.target, inner.payload)


TCP = make.tcp(5000, 443, make.SYN, 7, 0, b"hello")
PLAIN = make.ipv4("10.0.0.1", "93.184.216.34", 6, TCP)


def test_snapped_packets_use_the_length_on_the_wire() -> None:
    found = one(
        make.ethernet(0x0800, make.ipv4("10.0.0.1", "10.0.0.2", 6, make.tcp(1, 2, data=bytes(1000))))[:60], wire=1054
    )
    assert (found.payload, found.content) == (1000, bytes(6))
    assert (
        one(make.ethernet(0x0800, make.ipv4("10.0.0.1", "10.0.0.2", 6, make.tcp(1, 2, data=bytes(1000))))[:54]).content
        == b""
    )


def test_padding_is_no_payload() -> None:
    assert one(make.ethernet(0x0800, PLAIN) + bytes(30)).payload == 5


def test_a_length_of_nothing_is_the_rest_of_the_packet() -> None:
    assert one(make.ipv4("10.0.0.1", "10.0.0.2", 6, TCP, total=0), 101).payload == 5
    assert one(make.ipv6("::1", "::2", 6, TCP, length=0), 101).payload == 5
    assert one(make.ipv4("10.0.0.1", "10.0.0.2", 17, make.udp(1, 2, b"abc", length=0)), 101).payload == 3


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "headers cut off"),
        (make.ethernet(0x0800, PLAIN)[:13], "headers cut off"),
        (make.ethernet(0x0800, PLAIN)[:40], "headers cut off"),
        (make.ethernet(0x0800, PLAIN)[:50], "headers cut off"),
        (make.ethernet(0x0806, bytes(28)), "not IP"),
        (make.ethernet(0x0026, b"\x42\x42\x03" + bytes(35)), "not IP"),
        (make.ethernet(0x8863, bytes(20)), "not IP"),
        (make.ethernet(0x0800, b"\x44" + PLAIN[1:]), "malformed"),
        (make.ethernet(0x0800, b"\x54" + PLAIN[1:]), "malformed"),
        (make.ethernet(0x0800, make.ipv4("1.1.1.1", "2.2.2.2", 6, TCP, total=30)), "malformed"),
        (make.ethernet(0x0800, make.ipv4("1.1.1.1", "2.2.2.2", 6, TCP, total=19)), "malformed"),
        (make.ethernet(0x0800, make.ipv4("1.1.1.1", "2.2.2.2", 17, make.udp(1, 2, length=7))), "malformed"),
        (make.ethernet(0x0800, make.ipv4("1.1.1.1", "2.2.2.2", 6, TCP[:12] + b"\x40" + TCP[13:])), "malformed"),
        (make.ethernet(0x86DD, make.ipv6("::1", "::2", 0, b"\0\xff" + bytes(30))), "malformed"),
        (make.ethernet(0x86DD, make.ipv6("::1", "::2", 0, make.extension(0, b"") * 5000)), "too many layers"),
        (make.ethernet(0x8100, make.vlan(1, 0x8100, b"") * 100_000), "too many layers"),
        (make.ethernet(0x8847, make.mpls([1, 2], b"")[:4] * 60_000), "too many layers"),
    ],
)  # fmt: skip
def test_problems_are_named(data: bytes, problem: str) -> None:
    assert problem_of(data) == problem


def test_other_links() -> None:
    assert problem_of(PLAIN, 147) == "unknown link type"
    assert problem_of(make.wifi(0x0800, PLAIN, flags=0x41), 105) == "not IP"  # encrypted
    assert problem_of(b"\x80" + bytes(60), 105) == "not IP"  # a beacon
    assert problem_of(make.loopback(7, PLAIN), 0) == "not IP"
    assert problem_of(make.radiotap(b"", 12)[:2] + bytes(20), 127) == "malformed"
    for data, link in (
        (make.hdlc(0x0800, PLAIN), 50),
        (make.ppp(0x21, PLAIN), 50),
        (make.pppoe(make.ppp(0x21, PLAIN, False)), 51),
    ):
        assert one(data, link).ports == (5000, 443)


def test_a_thousand_tunnels_are_too_many_and_the_ones_before_are_used() -> None:
    data = PLAIN
    for _ in range(1000):
        data = make.ipv4("10.9.9.1", "10.9.9.2", 4, data)
    found = one(data, 101)
    assert (found.tunnel, found.source) == ("ipip", "10.9.9.1")


def test_what_is_no_tunnel_stays_what_it_is() -> None:
    for inside in (b"", b"\x08", bytes(8), make.vxlan(1, b""), make.vxlan(1, make.ethernet(0x0806, bytes(28)))):
        found = one(make.ipv4("10.0.0.1", "10.0.0.2", 17, make.udp(9, 4789, inside)), 101)
        assert (found.ports, found.tunnel, found.payload) == ((9, 4789), "", len(inside))
    looping = make.gtp(1, b"", [bytes(2)])
    for inside in (looping, looping[:-4] + b"\0\0\0\x85", make.gtp(1, PLAIN)[:1] + b"\x01" + bytes(30), bytes(40)):
        assert one(make.ipv4("10.0.0.1", "10.0.0.2", 17, make.udp(2152, 2152, inside)), 101).tunnel == ""
    for inside in (b"", b"\0\0", b"\x40\0\x08\0" + PLAIN, b"\0\7\x08\0" + PLAIN, make.gre(0x0806, bytes(28))):
        found = one(make.ipv4("10.0.0.1", "10.0.0.2", 47, inside), 101)
        assert (found.protocol, found.tunnel) == (47, "")


def test_other_gre() -> None:
    mirrored = make.ethernet(0x0800, PLAIN)
    pptp = b"\x30\x81\x88\x0b" + bytes(12) + make.ppp(0x21, PLAIN)
    for inside in (
        make.gre(0x88BE, bytes(8) + mirrored, has_sequence=True),
        make.gre(0x88BE, mirrored),
        make.gre(0x22EB, bytes(12) + mirrored, has_sequence=True),
        make.gre(0x22EB, bytes(11) + b"\1" + bytes(8) + mirrored, has_sequence=True),
        make.gre(0x883E, bytes(4) + PLAIN),
        make.gre(0x883E, PLAIN),
        pptp,
    ):
        found = one(make.ipv4("10.0.0.1", "10.0.0.2", 47, inside), 101)
        assert (found.source, found.ports, found.tunnel) == ("10.0.0.1", (5000, 443), "gre")


def test_a_pseudowire_with_its_control_word() -> None:
    assert one(make.ethernet(0x8847, make.mpls([17], bytes(4) + make.ethernet(0x0800, PLAIN)))).ports == (5000, 443)


def test_a_tag_of_nothing_names_no_network() -> None:
    assert one(make.ethernet(0x8100, make.vlan(0, 0x0800, PLAIN, 5))).tags == ()
    assert one(make.ethernet(0x8100, make.vlan(1, 0x8100, make.vlan(2, 0x8100, make.vlan(3, 0x0800, PLAIN))))).tags == (
        1,
        2,
    )


def test_fragments_are_tied_together() -> None:
    whole = make.udp(1000, 2000, bytes(100))

    def parts(source: str, identity: int) -> list[bytes]:
        return [
            make.ipv4(source, "10.0.0.2", 17, whole[:48], identity=identity, more=True),
            make.ipv4(source, "10.0.0.2", 17, whole[48:96], identity=identity, offset=48, more=True),
            make.ipv4(source, "10.0.0.2", 17, whole[96:], identity=identity, offset=96),
        ]

    def parts6(identity: int) -> list[bytes]:
        first = make.fragment6(17, whole[:48], identity, 0, more=True)
        return [
            make.ipv6("::1", "::2", 44, first),
            make.ipv6("::1", "::2", 44, make.fragment6(17, whole[48:], identity, 48)),
        ]

    groups = [parts("10.0.0.1", 1), parts("10.0.0.1", 2), parts("10.0.0.3", 1), parts6(1), parts6(70_001)]
    layers = dissect(packets_of([Frame(p, link=101) for group in groups for p in group]))
    assert not layers.problem.any()
    at, seen = 0, set()
    for group in groups:
        ids = set(layers.fragment[at : at + len(group)].tolist())
        assert len(ids) == 1 and 0 not in ids
        seen |= ids
        assert layers.is_later[at : at + len(group)].tolist() == [False] + [True] * (len(group) - 1)
        assert layers.payload[at : at + len(group)].sum() == 100
        at += len(group)
    assert len(seen) == len(groups)
    assert layers.endpoints[1][KIND] == NO_PORTS


def test_keyed_by_what_is_known() -> None:
    with pytest.raises(SettingError, match="keyed is 'both'; it can be inner or outer"):
        dissect(packets_of([]), "both")
    assert len(dissect(packets_of([])).problem) == 0
