"""IP headers with their extensions, and what TCP, UDP, SCTP and ICMP say first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvec.read.packets.compiled import compiled
from kvec.read.packets.links import CUT_OFF, MALFORMED, TOO_MANY
from kvec.read.packets.records import u16, u32

Bytes = npt.NDArray[np.uint8]

ICMP, TCP, UDP, DCCP, ICMP6, SCTP, LITE = 1, 6, 17, 33, 58, 132, 136
HOP, ROUTING, FRAGMENT, AUTHENTICATION, OPTIONS, IDENTITY, SHIM = 0, 43, 44, 51, 60, 139, 140
WHOLE, FIRST, LATER = range(3)  # what a packet is of a datagram
NO_PORTS, PORTS, TYPE = range(3)  # what the ports of an endpoint are: none, ports or an ICMP id, an ICMP type and code
MOST_EXTENSIONS = 32


@compiled
def internet(data: Bytes, at: int, end: int, wire_end: int) -> tuple[int, int, int, int, int, int, int]:
    """Read an IP header: problem or version, protocol, what follows it, its end by IP, TTL, part of a datagram, its id.

    `end` is where the captured bytes end, `wire_end` where the packet ended on the wire.
    """
    if at >= end:
        return CUT_OFF, 0, at, at, 0, WHOLE, 0
    version = int(np.int64(data[at])) >> 4
    if version == 4:
        if at + 20 > end:
            return CUT_OFF, 0, at, at, 0, WHOLE, 0
        size, total = (int(np.int64(data[at])) & 15) * 4, u16(data, at + 2, True)
        if size < 20 or (total < size and total != 0):
            return MALFORMED, 0, at, at, 0, WHOLE, 0
        if at + size > end:
            return CUT_OFF, 0, at, at, 0, WHOLE, 0
        last = at + total if total else max(wire_end, at + size)  # 0: cut by the network card later
        part = u16(data, at + 6, True)
        state = LATER if part & 0x1FFF else (FIRST if part & 0x2000 else WHOLE)
        return _extensions(
            data, at + size, end, last, 4, int(np.int64(data[at + 9])), int(np.int64(data[at + 8])), state,
            u16(data, at + 4, True),
        )  # fmt: skip
    if version == 6:
        if at + 40 > end:
            return CUT_OFF, 0, at, at, 0, WHOLE, 0
        total = u16(data, at + 4, True)
        last = at + 40 + total if total else max(wire_end, at + 40)  # 0: a jumbogram
        return _extensions(
            data, at + 40, end, last, 6, int(np.int64(data[at + 6])), int(np.int64(data[at + 7])), WHOLE, 0
        )
    return MALFORMED, 0, at, at, 0, WHOLE, 0


@compiled
def _extensions(
    data: Bytes, at: int, end: int, last: int, version: int, protocol: int, ttl: int, state: int, identity: int
) -> tuple[int, int, int, int, int, int, int]:
    for _ in range(MOST_EXTENSIONS):
        is_long = (
            protocol == HOP or protocol == ROUTING or protocol == OPTIONS or protocol == IDENTITY or protocol == SHIM
        )
        is_known = protocol == AUTHENTICATION or (version == 6 and (is_long or protocol == FRAGMENT))
        if state == LATER or not is_known:
            return version, protocol, at, last, ttl, state, identity
        if at + 8 > last:
            return MALFORMED, 0, at, last, 0, WHOLE, 0
        if at + 8 > end:
            return CUT_OFF, 0, at, last, 0, WHOLE, 0
        size = 8
        if protocol == AUTHENTICATION:
            size = (int(np.int64(data[at + 1])) + 2) * 4
        elif protocol != FRAGMENT:
            size = (int(np.int64(data[at + 1])) + 1) * 8
        else:
            part = u16(data, at + 2, True)
            if part & 0xFFF9:  # else an atomic fragment, which is whole
                state = LATER if part & 0xFFF8 else FIRST
                identity = u32(data, at + 4, True)
        protocol = int(np.int64(data[at]))
        at += size
    return TOO_MANY, 0, at, last, 0, WHOLE, 0


@compiled
def transport(
    data: Bytes, at: int, end: int, last: int, protocol: int
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Read what follows IP: problem, kind of ports, both, TCP flags, sequence, acknowledged, payload and where."""
    if at > last:
        return MALFORMED, NO_PORTS, 0, 0, 0, 0, 0, 0, 0
    size = 0
    if protocol == TCP:
        size = 20
    elif protocol == SCTP or protocol == DCCP:
        size = 12
    elif protocol == UDP or protocol == LITE:
        size = 8
    elif protocol == ICMP or protocol == ICMP6:
        size = 4
    if at + size > last:
        return MALFORMED, NO_PORTS, 0, 0, 0, 0, 0, 0, 0
    if at + size > end:
        return CUT_OFF, NO_PORTS, 0, 0, 0, 0, 0, 0, 0
    if size == 0:
        return 0, NO_PORTS, 0, 0, 0, 0, 0, last - at, at
    if size == 4:
        kind, code = int(np.int64(data[at])), int(np.int64(data[at + 1]))
        if protocol == ICMP:
            is_echo = kind == 0 or kind == 8 or (13 <= kind <= 18)
        else:
            is_echo = kind == 128 or kind == 129
        if is_echo and at + 8 <= min(end, last):
            port = u16(data, at + 4, True)
            return 0, PORTS, port, port, 0, 0, 0, last - at - 8, at + 8
        port = kind << 8 | code
        return 0, TYPE, port, port, 0, 0, 0, last - at - 4, at + 4
    first, second = u16(data, at, True), u16(data, at + 2, True)
    flags = sequence = acknowledged = 0
    payload = last - at - size
    if protocol == TCP:
        size = (int(np.int64(data[at + 12])) >> 4) * 4
        if size < 20 or at + size > last:
            return MALFORMED, NO_PORTS, 0, 0, 0, 0, 0, 0, 0
        flags, sequence, acknowledged = int(np.int64(data[at + 13])), u32(data, at + 4, True), u32(data, at + 8, True)
        payload = last - at - size
    elif protocol == UDP:
        length = u16(data, at + 4, True)
        if 0 < length < 8:
            return MALFORMED, NO_PORTS, 0, 0, 0, 0, 0, 0, 0
        if length:
            payload = min(payload, length - 8)
    return 0, PORTS, first, second, flags, sequence, acknowledged, payload, at + size
