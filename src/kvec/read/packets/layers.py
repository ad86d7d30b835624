"""The headers of packets: who speaks with whom, through which tunnel, and how much; hostile bytes are only counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvec.read.packets.captures import Packets
from kvec.read.packets.compiled import compiled
from kvec.read.packets.headers import LATER, NO_PORTS, WHOLE, internet, transport
from kvec.read.packets.links import IP, PROBLEMS, TOO_MANY, first_layer, step
from kvec.read.packets.tunnels import NONE, inside
from kvec.words.errors import SettingError

__all__ = ["PROBLEMS", "Layers", "dissect"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
KEYED = ("inner", "outer")
MOST_LAYERS = 40

# The identity of a flow: both ends in canonical order, and its context.
VERSION, PROTOCOL, KIND, TUNNEL = 0, 1, 2, 3  # one byte each: of IP, above IP, of the ports, of the tunnel
ADDRESSES, PORTS = (4, 20), (36, 38)  # 16 and 2 bytes for each end, the lower (address, port) first
TAGS, NUMBER = (40, 42), 44  # the outermost two VLANs, the number of the tunnel
OUTER = (48, 64)  # the addresses of the tunnel, the lower first
OUTER_VERSION = 80
WIDTH = 88  # bytes: whole words of eight
LOW = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Layers:
    """What the headers of a block of packets say; rows are those of the block."""

    problem: npt.NDArray[np.uint8]  # (n,) 0 where the packet is usable, else an index into PROBLEMS
    endpoints: npt.NDArray[np.uint8]  # (n, WIDTH) who speaks with whom, the same for both directions
    flipped: npt.NDArray[np.bool_]  # (n,) the sender is the second endpoint
    protocol: npt.NDArray[np.uint8]  # (n,) above IP
    flags: npt.NDArray[np.uint8]  # (n,) of TCP
    ttl: npt.NDArray[np.uint8]  # (n,)
    payload: npt.NDArray[np.int32]  # (n,) bytes above the transport header by IP, whatever was captured of them
    payload_at: Ints  # (n,) where they begin in the block's data; -1 where none was captured
    fragment: Ints  # (n,) the same for all fragments of a datagram; 0: the packet is whole
    is_later: npt.NDArray[np.bool_]  # (n,) a fragment without ports, to be tied to the first by `fragment`
    sequence: npt.NDArray[np.uint32]  # (n,) of TCP
    acknowledged: npt.NDArray[np.uint32]  # (n,) of TCP


def dissect(packets: Packets, keyed: str = "inner") -> Layers:
    """Read the headers of packets; flows are keyed by the innermost or the outermost IP packet that can be read."""
    if keyed not in KEYED:
        raise SettingError(f"keyed is {keyed!r}; it can be {' or '.join(KEYED)}")
    n = len(packets)
    layers = Layers(
        problem=np.zeros(n, np.uint8),
        endpoints=np.zeros((n, WIDTH), np.uint8),
        flipped=np.zeros(n, np.bool_),
        protocol=np.zeros(n, np.uint8),
        flags=np.zeros(n, np.uint8),
        ttl=np.zeros(n, np.uint8),
        payload=np.zeros(n, np.int32),
        payload_at=np.full(n, -1, np.int64),
        fragment=np.zeros(n, np.int64),
        is_later=np.zeros(n, np.bool_),
        sequence=np.zeros(n, np.uint32),
        acknowledged=np.zeros(n, np.uint32),
    )
    _dissect(
        packets.data, packets.starts, packets.sizes, packets.wire, packets.links, keyed == "inner",
        layers.problem, layers.endpoints, layers.flipped, layers.protocol, layers.flags, layers.ttl, layers.payload,
        layers.payload_at, layers.fragment, layers.is_later, layers.sequence, layers.acknowledged,
    )  # fmt: skip
    return layers


@compiled
def _dissect(
    data: Bytes, starts: Ints, sizes: npt.NDArray[np.int32], wire: npt.NDArray[np.int32],
    links: npt.NDArray[np.uint16], is_inner: bool, problem: Bytes, endpoints: Bytes, flipped: npt.NDArray[np.bool_],
    protocol: Bytes, flags: Bytes, ttl: Bytes, payload: npt.NDArray[np.int32], payload_at: Ints, fragment: Ints,
    is_later: npt.NDArray[np.bool_], sequence: npt.NDArray[np.uint32], acknowledged: npt.NDArray[np.uint32],
) -> None:  # fmt: skip
    for i in range(len(starts)):
        at = int(starts[i])
        end, wire_end = at + int(sizes[i]), at + int(wire[i])
        link = int(np.int64(links[i]))
        layer = first_layer(link)
        if link == 204:
            at += 1  # PPP with a byte for the direction
        tag1 = tag2 = 0
        tunnel, number, outer_at, outer_version = NONE, 0, 0, 0
        has_ip = False
        for depth in range(MOST_LAYERS):
            if layer < 0:
                break
            if depth == MOST_LAYERS - 1:
                layer = TOO_MANY
            elif layer != IP:
                layer, at, tag = step(data, at, end, layer)
                if tag and not tag1:
                    tag1 = tag
                elif tag and not tag2:
                    tag2 = tag
            else:
                version, above, next_at, last, hops, part, identity = internet(data, at, end, wire_end)
                if version < 0:
                    layer = version
                    break
                kind, first, second, bits, sent, seen = NO_PORTS, 0, 0, 0, 0, 0
                size, where = last - next_at, next_at
                if part != LATER:
                    trouble, kind, first, second, bits, sent, seen, size, where = transport(
                        data, next_at, end, last, above
                    )
                    if trouble < 0:
                        layer = trouble
                        break
                source_at = at + 12 if version == 4 else at + 8
                row = endpoints[i]
                flipped[i] = _write(
                    row, data, version, source_at, above, kind, first, second, tag1, tag2,
                    tunnel, number, outer_at, outer_version,
                )  # fmt: skip
                has_ip = True
                protocol[i], flags[i], ttl[i] = above, bits, hops
                payload[i], payload_at[i] = max(size, 0), where if where < min(end, last) else -1
                sequence[i], acknowledged[i] = sent, seen
                is_later[i] = part == LATER
                if part != WHOLE:  # else what it lies in may be a fragment
                    fragment[i] = _datagram(data, source_at, version, above, identity, tag1, tag2, number)
                if not is_inner or part == LATER:
                    break
                layer, at, found, number_of = inside(data, where, min(end, last), above, first, second)
                if found != NONE:
                    tunnel, number, outer_at, outer_version = found, number_of, source_at, version
        if not has_ip:
            problem[i] = -layer


@compiled
def _write(
    row: Bytes, data: Bytes, version: int, source_at: int, protocol: int, kind: int, first: int, second: int,
    tag1: int, tag2: int, tunnel: int, number: int, outer_at: int, outer_version: int,
) -> bool:  # fmt: skip
    """Write the identity of a flow; True where the sender is its second endpoint."""
    size = 4 if version == 4 else 16
    order = _order(data, source_at, source_at + size, size)
    is_flipped = order > 0 or (order == 0 and first > second)
    if is_flipped:
        first, second = second, first
    row[:] = 0
    row[VERSION], row[PROTOCOL], row[KIND], row[TUNNEL] = version, protocol, kind, tunnel
    _copy_pair(row, ADDRESSES[0], ADDRESSES[1], data, source_at, size, is_flipped)
    _put(row, PORTS[0], first)
    _put(row, PORTS[1], second)
    _put(row, TAGS[0], tag1)
    _put(row, TAGS[1], tag2)
    _put(row, NUMBER, number >> 16)
    _put(row, NUMBER + 2, number & 0xFFFF)
    if tunnel != NONE:
        row[OUTER_VERSION] = outer_version
        size = 4 if outer_version == 4 else 16
        is_swapped = _order(data, outer_at, outer_at + size, size) > 0
        _copy_pair(row, OUTER[0], OUTER[1], data, outer_at, size, is_swapped)
    return is_flipped


@compiled
def _order(data: Bytes, left: int, right: int, size: int) -> int:
    """Whether the bytes at `left` come before those at `right` (below 0), after (above 0) or are equal (0)."""
    for i in range(size):
        difference = int(np.int64(data[left + i])) - int(np.int64(data[right + i]))
        if difference:
            return difference
    return 0


@compiled
def _copy_pair(row: Bytes, first: int, second: int, data: Bytes, at: int, size: int, is_swapped: bool) -> None:
    if is_swapped:
        first, second = second, first
    for i in range(size):
        row[first + i] = data[at + i]
        row[second + i] = data[at + size + i]


@compiled
def _put(row: Bytes, at: int, number: int) -> None:
    row[at], row[at + 1] = number >> 8, number & 0xFF


@compiled
def _datagram(
    data: Bytes, source_at: int, version: int, protocol: int, identity: int, tag1: int, tag2: int, number: int
) -> int:
    """One number for all fragments of a datagram, which agree in addresses, id and context."""
    mixed = identity ^ (protocol << 32 if version == 4 else 1 << 41) ^ (tag1 << 42) ^ (tag2 << 50)
    mixed = (mixed ^ number) * 0x9E3779B97F4A7C1 & LOW
    for i in range(8 if version == 4 else 32):
        mixed = (mixed ^ int(np.int64(data[source_at + i]))) * 0x100000001B3 & LOW
    return (mixed ^ mixed >> 29) | 1
