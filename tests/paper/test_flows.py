"""The compiled loop over packets gives what the plain loop gives, in blocks of any size and within any limit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paper.slow_flows import SECOND, Given, Packet, SlowFlows
from tests.read.packets import making_packets as make

from kvec.read.packets.captures import Packets
from kvec.read.packets.flows import Flows
from kvec.read.packets.layers import dissect
from kvec.words.flows import FlowSettings

ends = st.tuples(st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3"]), st.sampled_from([1000, 2000]))
numbers = st.integers(0, 3)
kinds = st.sampled_from([0, make.SYN, make.SYN | make.ACK, make.ACK, make.ACK, make.FIN | make.ACK, make.RST, make.FIN])


@st.composite
def talks(draw: st.DrawFn) -> list[Packet]:
    time, said = 10_000 * SECOND, []
    for _ in range(draw(st.integers(0, 40))):
        time += draw(
            st.sampled_from(
                [0, 1, 10**6, SECOND, 9 * SECOND, 11 * SECOND, -SECOND, -11 * SECOND, 5_000 * SECOND, -100 * SECOND]
            )
        )
        source, target = draw(st.tuples(ends, ends).filter(lambda pair: pair[0] != pair[1]))
        protocol = draw(st.sampled_from(["tcp", "tcp", "udp"]))
        if protocol == "udp":
            said.append(Packet(time, source, target, "udp", 0, payload=draw(numbers)))
        else:
            said.append(Packet(time, source, target, "tcp", draw(kinds), draw(numbers), draw(numbers), draw(numbers)))
    return said


def frame_of(p: Packet) -> make.Frame:
    if p.protocol == "tcp":
        segment = make.tcp(p.source[1], p.target[1], p.flags, p.sequence, p.acknowledged, bytes(p.payload))
    else:
        segment = make.udp(p.source[1], p.target[1], bytes(p.payload))
    return make.Frame(make.ipv4(p.source[0], p.target[0], 6 if p.protocol == "tcp" else 17, segment), p.time, link=101)


def blocks_of(said: list[Packet], size: int) -> list[Packets]:
    return [make.packets_of([frame_of(p) for p in said[at : at + size]]) for at in range(0, len(said), size)]


@settings(max_examples=120)
@given(talks(), st.sampled_from([None, 5.0, 15.0]), st.sampled_from([1, 2, 5, 1000]), st.sampled_from([1, 3, 100]))
def test_flows_by_the_plain_loop(said: list[Packet], active: float | None, most: int, size: int) -> None:
    slow = SlowFlows(10.0, active, most)
    expected = [given for i, p in enumerate(said) if (given := slow.take(i, p))]
    flows = Flows(FlowSettings(idle=10.0, active=active, max_flows=most))
    found: list[Given] = []
    for at, packets in enumerate(blocks_of(said, size)):
        arrived = flows.take(packets, dissect(packets))
        for row in arrived.frame().iter_rows(named=True):
            p = said[row["row"] + at * size]
            generation = int(row["key"].partition(" #")[2] or 1)
            found.append(
                Given(
                    row["row"] + at * size,
                    round(row["time"] * 1e9),
                    row["flow"],
                    generation,
                    row["direction"],
                    round(row["gap"] * 1e9),
                    row["is_end"],
                )
            )
            client, server = (p.source, p.target) if row["direction"] == 0 else (p.target, p.source)
            assert (row["client"], row["client_port"], row["server"], row["server_port"]) == (*client, *server)
            low, high = sorted((client, server), key=lambda end: (make.address(end[0]), end[1]))
            assert row["key"].startswith(f"{low[0]}:{low[1]}-{high[0]}:{high[1]}/{p.protocol}")
            assert (row["flags"], row["payload"]) == (p.flags, p.payload)
    assert found == expected
    assert flows.opened == slow.n_flows
    assert flows.ended == sum(given.is_end for given in expected)
    counted = {
        "after the end": slow.n_after,
        "open flows forgotten": slow.n_forgotten,
        "times set forward to the packet before": slow.n_late,
        "clock set anew": slow.n_anew,
    }
    assert flows.counters == {reason: number for reason, number in counted.items() if number}
