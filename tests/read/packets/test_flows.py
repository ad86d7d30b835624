"""Flows: who is the client, when a flow ends, what it is called, and what is counted instead."""

from __future__ import annotations

from ipaddress import ip_address
from socket import AF_INET6, inet_ntop

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.packets import making_packets as make
from tests.read.packets.making_packets import ACK, FIN, RST, SYN, Frame, packets_of
from tests.read.packets.stacks import Found, frames

from kvec.read.packets.flow_names import LONGEST_ADDRESS, LONGEST_KEY, names_of
from kvec.read.packets.flows import Flows
from kvec.read.packets.headers import PORTS, TYPE
from kvec.read.packets.layers import OUTER_VERSION, WIDTH, dissect
from kvec.read.packets.tracking import N_DATAGRAMS, hash_of
from kvec.words.errors import SettingError
from kvec.words.flows import FlowSettings

A, B, SECOND = "10.0.0.1", "93.184.216.34", 10**9


def items(frames_: list[Frame], flows: Flows | None = None) -> pl.DataFrame:
    flows, packets = flows or Flows(), packets_of(frames_)
    return flows.take(packets, dissect(packets, flows.settings.keyed)).frame()


def talk(*said: tuple[float, str, int, int, int, int]) -> list[Frame]:
    """Packets of a connection: (seconds, `>` or `<`, flags, sequence, acknowledged, payload)."""
    made = []
    for seconds, way, flags, sequence, acknowledged, size in said:
        ends, ports = ((A, B), (5000, 443)) if way == ">" else ((B, A), (443, 5000))
        segment = make.tcp(*ports, flags, sequence, acknowledged, bytes(size))
        made.append(Frame(make.ipv4(*ends, 6, segment, ttl=50), round(seconds * SECOND), link=101))
    return made


HANDSHAKE = ((0.0, ">", SYN, 100, 0, 0), (0.1, "<", SYN | ACK, 500, 101, 0), (0.2, ">", ACK, 101, 501, 0))
WHOLE = (
    *HANDSHAKE,
    (0.3, ">", ACK, 101, 501, 10),
    (0.4, "<", ACK, 501, 111, 300),
    (0.5, ">", FIN | ACK, 111, 801, 0),
    (0.6, "<", FIN | ACK, 801, 112, 0),
    (0.7, ">", ACK, 112, 802, 0),
)


def test_a_connection_from_beginning_to_end() -> None:
    flows = Flows()
    found = items(talk(*WHOLE), flows)
    assert found["key"].unique().to_list() == ["10.0.0.1:5000-93.184.216.34:443/tcp"]
    assert found["direction"].to_list() == [0, 1, 0, 0, 1, 0, 1, 0]
    assert found["is_end"].to_list() == [False] * 7 + [True]
    assert found["gap"].to_list() == pytest.approx([0.0] + [0.1] * 7)
    assert found["payload"].to_list() == [0, 0, 0, 10, 300, 0, 0, 0]
    assert found["size"].to_list() == [40, 40, 40, 50, 340, 40, 40, 40]
    assert found["ttl"].to_list() == [50] * 8
    assert found["flags"].to_list()[:2] == [SYN, SYN | ACK]
    first = found.row(0, named=True)
    assert (first["client"], first["client_port"], first["server"], first["server_port"]) == (A, 5000, B, 443)
    assert first["protocol"] == "tcp"
    assert (flows.opened, flows.ended, flows.counters) == (1, 1, {})


def test_the_client_is_known_from_the_answer_too() -> None:
    assert items(talk(*WHOLE[1:]))["direction"].to_list()[:3] == [1, 0, 0]
    assert items(talk(*WHOLE[4:]))["direction"].to_list()[:2] == [0, 1]  # nobody knows: the first sender


def test_an_end_is_acknowledged_by_its_number() -> None:
    """An acknowledgement of earlier data that comes after both FINs is not the end."""
    late = (0.65, ">", ACK, 112, 700, 0)
    found = items(talk(*WHOLE[:7], late, WHOLE[7]))
    assert found["is_end"].to_list() == [False] * 8 + [True]


def test_a_reset_ends_at_once_and_nothing_comes_after() -> None:
    flows = Flows()
    found = items(talk(*HANDSHAKE, (1.0, "<", RST, 501, 0, 0), (1.1, ">", ACK, 101, 501, 5)), flows)
    assert found["is_end"].to_list() == [False] * 3 + [True]
    assert flows.counters == {"after the end": 1}


def test_a_reset_that_does_not_fit_ends_nothing() -> None:
    data = [(2.0 + n / 100, ">", ACK, 101 + n, 501, 1) for n in range(100)]
    for made_up in (RST, RST | ACK):
        for way in "<>":
            found = items(talk(*HANDSHAKE, (1.0, way, made_up, 123_456, 77, 0), *data))
            assert len(found) == 104 and not found["is_end"].any()


@pytest.mark.parametrize(
    "said",
    [
        ((0.0, ">", SYN, 100, 0, 0), (0.1, "<", RST | ACK, 0, 101, 0)),  # refused
        (*HANDSHAKE, (0.3, ">", ACK, 101, 501, 10), (0.4, ">", RST, 111, 0, 0)),  # after data not yet acknowledged
        (*HANDSHAKE, (0.3, ">", FIN | ACK, 101, 501, 0), (0.4, "<", RST, 501, 0, 0)),
        (*HANDSHAKE, (0.3, "<", ACK, 501, 101, 9), (0.4, ">", RST, 101, 0, 0)),
        ((0.0, ">", RST, 4711, 0, 0),),  # nothing is known
    ],
)
def test_resets_that_fit(said: tuple[tuple[float, str, int, int, int, int], ...]) -> None:
    assert items(talk(*said))["is_end"].to_list() == [False] * (len(said) - 1) + [True]


def test_the_same_ends_again_are_another_flow() -> None:
    again = ((2.0, ">", SYN, 999, 0, 0), (2.1, ">", SYN, 999, 0, 0), (2.2, "<", SYN | ACK, 5, 1000, 0))
    flows = Flows()
    found = items(talk(*WHOLE, *again, (300.0, ">", ACK, 1000, 6, 1)), flows)
    base = "10.0.0.1:5000-93.184.216.34:443/tcp"
    assert found["key"].to_list() == [base] * 8 + [f"{base} #2"] * 3 + [f"{base} #3"]
    assert found["flow"].to_list() == [0] * 8 + [1] * 3 + [2]
    assert found["gap"].to_list()[-1] == 0
    assert flows.opened == 3


def test_a_new_beginning_in_the_midst_is_another_flow() -> None:
    found = items(talk(*HANDSHAKE, (1.0, ">", SYN, 7777, 0, 0)))
    assert found["flow"].to_list() == [0, 0, 0, 1]


def test_several_answers_to_one_beginning_are_one_flow() -> None:
    found = items(talk(*HANDSHAKE, (0.3, "<", SYN | ACK, 12345, 101, 0)))
    assert found["flow"].unique().to_list() == [0]


def test_an_answer_captured_before_its_beginning_is_one_flow_with_it() -> None:
    found = items(talk(HANDSHAKE[1], HANDSHAKE[0], *WHOLE[2:]))
    assert found["flow"].to_list() == [0] * 8
    assert found["direction"].to_list()[:3] == [1, 0, 0]
    assert items(talk(HANDSHAKE[1], (0.2, ">", SYN, 7777, 0, 0)))["flow"].to_list() == [0, 1]


def test_an_active_timeout_cuts_and_the_client_stays_the_client() -> None:
    flows = Flows(FlowSettings(active=1.0))
    found = items(
        talk(*HANDSHAKE, (1.5, ">", ACK, 101, 501, 1), (1.6, "<", ACK, 501, 102, 1), (1.7, ">", ACK, 0, 0, 0)), flows
    )
    assert found["is_end"].to_list() == [False, False, False, True, False, False]
    assert found["flow"].to_list() == [0, 0, 0, 0, 1, 1]
    assert found["direction"].to_list() == [0, 1, 0, 0, 1, 0]
    assert flows.counters == {}


def datagram(seconds: float, source: str = A, target: str = B, first: int = 5353, second: int = 53) -> Frame:
    return Frame(make.ipv4(source, target, 17, make.udp(first, second, b"x")), round(seconds * SECOND), link=101)


def test_silence_makes_another_flow_of_datagrams() -> None:
    found = items([datagram(0), datagram(120), datagram(240.1), datagram(200)])
    assert found["flow"].to_list() == [0, 0, 1, 1]
    assert found["gap"].to_list() == [0.0, 120.0, 0.0, 0.0]  # a clock that runs backwards makes no negative gap
    assert items([datagram(0), datagram(1e9)], Flows(FlowSettings(idle=float("inf"))))["flow"].to_list() == [0, 0]


def test_one_time_in_the_future_does_not_stop_the_clock() -> None:
    flows = Flows()
    seconds = [0, 1, 10_000, 2, 4, 7, 6, 300]
    found = items([datagram(at, first=at) for at in seconds], flows)
    assert found["time"].to_list() == [0, 1, 10_000, 10_000, 10_002, 10_005, 10_005, 10_298]
    assert flows.counters == {"clock set anew": 1, "times set forward to the packet before": 1}


def test_one_time_in_the_past_does_not_set_the_clock_forward() -> None:
    flows = Flows()
    found = items([datagram(at, first=1) for at in (1000, 1001, 0, 1002, 0, 1003)], flows)
    assert found["time"].to_list() == [1000, 1001, 1001, 1002, 1002, 1003]
    assert flows.counters == {"clock set anew": 2}


def test_the_latest_time_there_is_does_not_overflow() -> None:
    late = Frame(datagram(0).data, 2**63 - 1, link=101)
    found = items([datagram(1), late, datagram(2), datagram(3), late, datagram(0)])
    assert found["time"].is_sorted() and found["time"].to_list()[1:] == [(2**63 - 1) / 1e9] * 5


def fragments(identity: int = 9, swapped: bool = False) -> list[Frame]:
    whole = make.udp(5353, 53, bytes(92))
    parts = [
        make.ipv4(B, A, 17, whole[:48], identity=identity, more=True),
        make.ipv4(B, A, 17, whole[48:], identity=identity, offset=48),
    ]
    return [Frame(p, link=101) for p in (reversed(parts) if swapped else parts)]


def test_the_first_fragment_keys_the_others() -> None:
    asked = Frame(make.ipv4(A, B, 17, make.udp(53, 5353)), link=101)
    found = items([asked, *fragments()])
    assert found["key"].n_unique() == 1
    assert found["direction"].to_list() == [0, 1, 1]
    assert found["payload"].to_list() == [0, 40, 52]


def test_fragments_across_blocks_and_without_a_first() -> None:
    flows = Flows()
    first, second = fragments()
    items([first], flows)
    assert len(items([second], flows)) == 1
    assert len(items(fragments(10)[1:], flows)) == 0
    late = Frame(second.data, 61 * SECOND, link=101)
    assert len(items([late], flows)) == 0
    assert flows.counters == {"fragments without a first": 2}


def test_a_flood_of_fragments_is_bounded() -> None:
    flows = Flows()
    for start in range(0, 2 * N_DATAGRAMS, 1024):
        items([fragments(n & 0xFFFF)[0] for n in range(start, start + 1024)], flows)
    assert flows._datagrams.shape[0] == N_DATAGRAMS


def test_a_fragmented_tunnel_goes_where_its_first_part_went() -> None:
    inner = make.ipv4("192.168.0.1", "192.168.0.2", 6, make.tcp(1, 2, data=bytes(60)))
    outer = make.gre(0x0800, inner)
    parts = [
        make.ipv4(A, B, 47, outer[:64], identity=3, more=True),
        make.ipv4(A, B, 47, outer[64:], identity=3, offset=64),
    ]
    keys = items([Frame(p, link=101) for p in parts])["key"].to_list()
    assert keys == [f"192.168.0.1:1-192.168.0.2:2/tcp gre {A}-{B}"] * 2


def test_what_cannot_be_used_is_counted() -> None:
    flows = Flows()
    arp, cut = Frame(make.ethernet(0x0806, bytes(28))), Frame(make.ethernet(0x0800, b""))
    strange = Frame(b"x", link=147)
    assert len(items([arp, cut, strange, arp], flows)) == 0
    assert flows.counters == {"not IP": 2, "headers cut off": 1, "unknown link type": 1}


def test_keys_tell_their_context() -> None:
    inner = make.ipv4(A, B, 17, make.udp(9, 53))
    six = make.ipv6("2001:db8::1", "2001:db8::2", 6, make.tcp(1, 2))

    def key(data: bytes, link: int = 1, keyed: str = "inner") -> str:
        return str(items([Frame(data, link=link)], Flows(FlowSettings(keyed=keyed)))["key"][0])

    plain = f"{A}:9-{B}:53/udp"
    assert key(make.ethernet(0x86DD, six)) == "[2001:db8::1]:1-[2001:db8::2]:2/tcp"
    assert key(make.ethernet(0x8100, make.vlan(12, 0x8100, make.vlan(34, 0x0800, inner)))) == f"{plain} vlan 12 vlan 34"
    assert key(make.ipv4("10.9.9.2", "10.9.9.1", 47, make.gre(0x0800, inner)), 101) == f"{plain} gre 10.9.9.1-10.9.9.2"
    tunnel = make.ipv6("fe80::2", "fe80::1", 17, make.udp(999, 4789, make.vxlan(42, make.ethernet(0x0800, inner))))
    assert key(tunnel, 101) == f"{plain} vxlan 42 fe80::1-fe80::2"
    assert key(tunnel, 101, "outer") == "[fe80::1]:4789-[fe80::2]:999/udp"
    assert key(make.ipv4(A, B, 1, make.icmp(8, 0, 77)), 101) == f"{A}:77-{B}:77/icmp"
    assert key(make.ipv4(A, B, 1, make.icmp(3, 1)), 101) == f"{A}-{B}/icmp 3/1"
    assert key(make.ipv4(A, B, 50, bytes(8)), 101) == f"{A}-{B}/esp"
    assert key(make.ipv4(A, B, 253, bytes(8)), 101) == f"{A}-{B}/253"
    assert key(make.ipv4(A, B, 132, make.sctp(5, 6)), 101) == f"{A}:5-{B}:6/sctp"


def test_an_echo_and_its_answer_are_one_flow() -> None:
    asked, answered = make.ipv4(A, B, 1, make.icmp(8, 0, 77)), make.ipv4(B, A, 1, make.icmp(0, 0, 77))
    found = items([Frame(asked, link=101), Frame(answered, link=101)])
    assert found["direction"].to_list() == [0, 1] and found["key"].n_unique() == 1


@given(
    st.one_of(
        st.binary(min_size=16, max_size=16), st.lists(st.sampled_from([0, 0, 1, 0xFFFF, 0xAB]), min_size=8, max_size=8)
    )
)
def test_addresses_as_the_system_writes_them(given: bytes | list[int]) -> None:
    packed = given if isinstance(given, bytes) else b"".join(n.to_bytes(2, "big") for n in given)
    data = make.ipv6(str(ip_address(packed)), "::", 17, make.udp(1, 1))
    assert items([Frame(data, link=101)])["client"].to_list() == [inet_ntop(AF_INET6, packed)]


def test_the_longest_names_have_room() -> None:
    row = np.full((1, WIDTH), 255, np.uint8)
    for kind in (PORTS, TYPE):
        row[0, :4] = (6, 255, kind, 6)
        row[0, OUTER_VERSION] = 6
        key, client, server = names_of(row, np.array([2**62]), np.array([1]))
        assert len(key[0]) < LONGEST_KEY and len(client[0]) < LONGEST_ADDRESS and len(server[0]) < LONGEST_ADDRESS


@settings(max_examples=30)
@given(st.lists(frames(), max_size=12), st.integers(1, 5), st.integers(1, 12))
def test_blocks_of_any_size_give_the_same(made: list[tuple[Frame, Found, Found]], most: int, size: int) -> None:
    all_frames = [frame for frame, _, _ in made] * 2
    whole = items(all_frames, Flows(FlowSettings(max_flows=most)))
    flows = Flows(FlowSettings(max_flows=most))
    parts = [
        items(all_frames[at : at + size], flows).with_columns(pl.col("row") + at)
        for at in range(0, len(all_frames), size)
    ]
    if parts:
        assert pl.concat(parts).equals(whole)


def test_memory_stays_within_the_limit_and_forgets_the_oldest() -> None:
    flows = Flows(FlowSettings(max_flows=100))
    frames_ = [datagram(0, first=1000 + n) for n in range(1000)]
    found = items(frames_, flows)
    assert found["flow"].to_list() == list(range(1000))
    assert flows.counters == {"open flows forgotten": 900}
    assert len(flows._state) == 100
    again = items([frames_[-1], frames_[0]], flows)
    assert again["flow"].to_list() == [999, 1000]  # one is remembered, the other is not
    assert again["key"][0] == found["key"][-1]
    assert again["key"][1] == f"{found['key'][0]} #1001"


def test_a_key_that_was_forgotten_does_not_come_again() -> None:
    flows = Flows(FlowSettings(max_flows=2, idle=10.0))
    seconds = [0, 1, 2, 3, 20, 21, 22, 40]
    found = items([datagram(at, first=first) for at in seconds for first in (1, 2, 1, 3)], flows)
    by_key = found.group_by("key").agg(pl.col("flow").n_unique())
    assert flows.opened == found["key"].n_unique() > 10
    assert by_key["flow"].to_list() == [1] * len(by_key)


def test_what_fell_silent_was_not_open_when_it_is_forgotten() -> None:
    flows = Flows(FlowSettings(max_flows=1, idle=10.0))
    items([datagram(0, first=1), datagram(10, first=2), datagram(20.1, first=3)], flows)
    assert flows.counters == {"open flows forgotten": 1}


def factors_of(seed: int) -> npt.NDArray[np.int64]:
    return np.frombuffer(np.random.default_rng(seed).bytes(2 * WIDTH), np.int64)


def test_no_two_bits_of_an_identity_cancel_each_other() -> None:
    base = np.random.default_rng(0).integers(0, 256, WIDTH, np.uint8)
    same = [(i, j) for i in range(8 * WIDTH) for j in range(i, 8 * WIDTH)]
    for seed in range(4):
        factors, left = factors_of(seed), []
        plain = hash_of(base.view(np.int64), factors)
        for i, j in same:
            other = base.copy()
            other[i >> 3] ^= 1 << (i & 7)
            if i != j:
                other[j >> 3] ^= 1 << (j & 7)
            if hash_of(other.view(np.int64), factors) == plain:
                left.append((i, j))
        same = left
    assert not same


def test_endpoints_made_to_collide_are_spread() -> None:
    """Flips of the two highest bits of each word, which a product that is cut off would lose."""
    made = np.zeros((4096, WIDTH), np.uint8)
    for number, row in enumerate(made):
        for i in range(10):
            row[8 * i + 7] ^= 0x80 * (number >> i & 1)
        for i in range(2):
            is_flipped = number >> (10 + i) & 1
            row[8 * i + 7] ^= 0x40 * is_flipped
            row[8 * i + 15] ^= 0x40 * is_flipped
            row[8 * i + 12] ^= 0x02 * is_flipped
    for seed in range(3):
        hashes = np.array([hash_of(row.view(np.int64), factors_of(seed)) for row in made])
        assert len(np.unique(hashes)) > 4000
        assert len(np.unique(hashes & 8191)) > 2000


def test_one_flow_after_the_other_as_memory_grows() -> None:
    flows = Flows()
    for start in range(0, 30_000, 3000):
        items([datagram(0, first=n) for n in range(start, start + 3000)], flows)
    found = items([datagram(1, first=n) for n in range(30_000)], flows)
    assert flows.opened == 30_000
    assert found["flow"].to_list() == list(range(30_000))


def test_nothing_gives_nothing() -> None:
    found = items([])
    assert len(found) == 0
    assert found.schema["key"] == pl.String and found.schema["time"] == pl.Float64


@pytest.mark.parametrize(
    "settings_", [{"idle": 0}, {"idle": None}, {"active": -1.0}, {"max_flows": 0}, {"keyed": "x"}, {"idle": "5"}]
)
def test_settings_that_cannot_hold(settings_: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=next(iter(settings_))):
        FlowSettings(**settings_)  # type: ignore[arg-type]


def test_the_plain_code_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the compiler the same functions run as Python."""
    import kvec.read.packets.tracking as tracking

    flows, packets = Flows(), packets_of(talk(*WHOLE))
    compiled = flows.take(packets, dissect(packets)).frame()
    for name in (
        "in_order",
        "hash_of",
        "rebuild",
        "_find",
        "_forget",
        "_unlink",
        "_link_newest",
        "_begins",
        "_resets",
        "track",
    ):
        monkeypatch.setattr(tracking, name, getattr(getattr(tracking, name), "py_func", getattr(tracking, name)))
    monkeypatch.setattr("kvec.read.packets.flows.track", tracking.track)
    monkeypatch.setattr("kvec.read.packets.flows.in_order", tracking.in_order)
    monkeypatch.setattr("kvec.read.packets.flows.rebuild", tracking.rebuild)
    assert items(talk(*WHOLE)).equals(compiled)
