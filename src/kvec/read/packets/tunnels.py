"""Packets inside packets: what an IP packet carries when it is a tunnel's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvec.read.packets.compiled import compiled
from kvec.read.packets.headers import UDP
from kvec.read.packets.links import ETHERNET, IP, MPLS, NOT_IP, after_type
from kvec.read.packets.records import u16, u32

Bytes = npt.NDArray[np.uint8]

KINDS = ("", "ipip", "gre", "vxlan", "gtp", "geneve", "etherip", "mpls")
NONE, IPIP, GRE, VXLAN, GTP, GENEVE, ETHERIP, LABELLED = range(8)
VXLAN_PORTS, GTP_PORT, GENEVE_PORT, MPLS_PORT = (4789, 8472), 2152, 6081, 6635
MOST_HEADERS = 16  # extension headers of GTP


@compiled
def inside(data: Bytes, at: int, end: int, protocol: int, first: int, second: int) -> tuple[int, int, int, int]:
    """What a payload holds, where, the kind of tunnel and its number, unless that differs by direction."""
    if protocol == 4 or protocol == 41:
        return IP, at, IPIP, 0
    if protocol == 47:
        return _gre(data, at, end)
    if protocol == 97:
        return ETHERNET, at + 2, ETHERIP, 0
    if protocol == 137:
        return MPLS, at, LABELLED, 0
    if protocol == UDP:
        if second == 4789 or second == 8472:
            return _vxlan(data, at, end)
        if first == GTP_PORT or second == GTP_PORT:
            return _gtp(data, at, end)
        if second == GENEVE_PORT:
            return _geneve(data, at, end)
        if second == MPLS_PORT:
            return MPLS, at, LABELLED, 0
    return NOT_IP, at, NONE, 0


@compiled
def _gre(data: Bytes, at: int, end: int) -> tuple[int, int, int, int]:
    if at + 4 > end:
        return NOT_IP, at, NONE, 0
    flags, kind, number = u16(data, at, True), u16(data, at + 2, True), 0
    version = flags & 7
    if version > 1 or flags & 0x4000:  # routes inside the header went out of use
        return NOT_IP, at, NONE, 0
    has_sequence = flags & 0x1000 != 0
    at += 4
    if flags & 0x8000:
        at += 4
    if flags & 0x2000:
        if at + 4 > end:
            return NOT_IP, at, NONE, 0
        number = u32(data, at, True) if version == 0 else 0  # PPTP: a length and the call of one direction
        at += 4
    if has_sequence:
        at += 4
    if version == 1 and flags & 0x80:
        at += 4
    if kind == 0x88BE:  # a mirrored frame
        return ETHERNET, at + (8 if has_sequence else 0), GRE, number
    if kind == 0x22EB:
        if at + 12 > end:
            return NOT_IP, at, NONE, 0
        return ETHERNET, at + (20 if data[at + 11] & 1 else 12), GRE, number
    if kind == 0x883E:  # of a web cache, perhaps with a header of its own
        if at < end and data[at] >> 4 != 4:
            at += 4
        return IP, at, GRE, number
    return after_type(max(kind, 1501)), at, GRE, number


@compiled
def _vxlan(data: Bytes, at: int, end: int) -> tuple[int, int, int, int]:
    if at + 8 > end or not data[at] & 0x08:
        return NOT_IP, at, NONE, 0
    return ETHERNET, at + 8, VXLAN, u32(data, at + 4, True) >> 8


@compiled
def _gtp(data: Bytes, at: int, end: int) -> tuple[int, int, int, int]:
    if at + 8 > end or data[at] >> 4 != 3 or data[at + 1] != 0xFF:  # version 1, user data
        return NOT_IP, at, NONE, 0
    has_more = data[at] & 7 != 0
    has_headers = data[at] & 4 != 0
    at += 8
    if has_more:
        if at + 4 > end:
            return NOT_IP, at, NONE, 0
        following = data[at + 3] if has_headers else np.uint8(0)
        at += 4
        for _ in range(MOST_HEADERS):
            if following == 0:
                break
            if at >= end or data[at] == 0 or at + 4 * int(np.int64(data[at])) > end:
                return NOT_IP, at, NONE, 0
            size = 4 * int(np.int64(data[at]))
            following = data[at + size - 1]
            at += size
        if following != 0:
            return NOT_IP, at, NONE, 0
    return IP, at, GTP, 0


@compiled
def _geneve(data: Bytes, at: int, end: int) -> tuple[int, int, int, int]:
    if at + 8 > end or data[at] >> 6 != 0:
        return NOT_IP, at, NONE, 0
    size = 8 + 4 * (int(np.int64(data[at])) & 0x3F)
    return after_type(max(u16(data, at + 2, True), 1501)), at + size, GENEVE, u32(data, at + 4, True) >> 8
