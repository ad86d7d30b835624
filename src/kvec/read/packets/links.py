"""What lies before the IP header: links, tags and labels, each taken off by one step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvec.read.packets.compiled import compiled
from kvec.read.packets.records import u16, u32

Bytes = npt.NDArray[np.uint8]

# what comes next: an IP header, or one of those that a step takes off
IP, ETHERNET, VLAN, LLC, MPLS, PPPOE, PPP, HDLC, COOKED, COOKED2, LOOPBACK, WIFI, RADIOTAP, BRIDGE, VN = range(15)
# or nothing that can be used
NOT_IP, CUT_OFF, MALFORMED, UNKNOWN_LINK, TOO_MANY = -1, -2, -3, -4, -5
PROBLEMS = ("", "not IP", "headers cut off", "malformed", "unknown link type", "too many layers")
NO_TAG = 0  # 802.1Q: a tag of 0 names no VLAN


@compiled
def first_layer(link: int) -> int:
    """What a packet of a link type begins with."""
    if link == 1:
        return ETHERNET
    if link == 101 or link == 12 or link == 14 or link == 228 or link == 229:
        return IP
    if link == 113:
        return COOKED
    if link == 276:
        return COOKED2
    if link == 0 or link == 108:
        return LOOPBACK
    if link == 9 or link == 50 or link == 204:
        return PPP
    if link == 51:
        return PPPOE
    if link == 104:
        return HDLC
    if link == 105:
        return WIFI
    if link == 127:
        return RADIOTAP
    if link == 219:
        return MPLS
    return UNKNOWN_LINK


@compiled
def after_type(kind: int) -> int:
    """What an EtherType announces."""
    if kind == 0x0800 or kind == 0x86DD:
        return IP
    if kind <= 1500:
        return LLC
    if kind == 0x8100 or kind == 0x88A8 or kind == 0x9100 or kind == 0x9200:
        return VLAN
    if kind == 0x8847 or kind == 0x8848:
        return MPLS
    if kind == 0x8864:
        return PPPOE
    if kind == 0x6558:
        return ETHERNET
    if kind == 0x880B:
        return PPP
    if kind == 0x893F:
        return BRIDGE
    if kind == 0x8926:
        return VN
    return NOT_IP


@compiled
def step(data: Bytes, at: int, end: int, layer: int) -> tuple[int, int, int]:
    """Take off one layer; returns what comes next, where, and the VLAN that the layer named."""
    if layer == ETHERNET:
        if at + 14 > end:
            return CUT_OFF, at, NO_TAG
        return after_type(u16(data, at + 12, True)), at + 14, NO_TAG
    if layer == VLAN:
        if at + 4 > end:
            return CUT_OFF, at, NO_TAG
        return after_type(u16(data, at + 2, True)), at + 4, u16(data, at, True) & 0xFFF
    if layer == BRIDGE or layer == VN:
        size = 6 if layer == BRIDGE else 4
        if at + size + 2 > end:
            return CUT_OFF, at, NO_TAG
        return after_type(u16(data, at + size, True)), at + size + 2, NO_TAG
    if layer == MPLS:
        return _mpls(data, at, end)
    if layer == LLC:
        return _llc(data, at, end)
    if layer == PPPOE:
        if at + 6 > end:
            return CUT_OFF, at, NO_TAG
        return (PPP if data[at] == 0x11 and data[at + 1] == 0 else NOT_IP), at + 6, NO_TAG
    if layer == PPP:
        return _ppp(data, at, end)
    if layer == HDLC:
        if at + 4 > end:
            return CUT_OFF, at, NO_TAG
        return after_type(max(u16(data, at + 2, True), 1501)), at + 4, NO_TAG
    if layer == COOKED:
        return _cooked(data, at, end)
    if layer == COOKED2:
        if at + 20 > end:
            return CUT_OFF, at, NO_TAG
        return _cooked_type(u16(data, at, True), u16(data, at + 8, True)), at + 20, NO_TAG
    if layer == LOOPBACK:
        return _loopback(data, at, end)
    if layer == RADIOTAP:
        return _radiotap(data, at, end)
    if layer == WIFI:
        return _wifi(data, at, end)
    return NOT_IP, at, NO_TAG


@compiled
def _mpls(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    if at + 4 > end:
        return CUT_OFF, at, NO_TAG
    is_last = data[at + 2] & 1
    at += 4
    if not is_last:
        return MPLS, at, NO_TAG
    if at >= end:
        return CUT_OFF, at, NO_TAG
    version = data[at] >> 4
    if version == 4 or version == 6:
        return IP, at, NO_TAG
    if version == 0:  # the control word of a pseudowire
        return ETHERNET, at + 4, NO_TAG
    return NOT_IP, at, NO_TAG


@compiled
def _llc(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    if at + 3 > end:
        return CUT_OFF, at, NO_TAG
    if data[at] == 0x06 and data[at + 1] == 0x06:
        return IP, at + 3, NO_TAG
    if data[at] != 0xAA or data[at + 1] != 0xAA:
        return NOT_IP, at, NO_TAG
    if at + 8 > end:
        return CUT_OFF, at, NO_TAG
    if data[at + 3] != 0 or data[at + 4] != 0 or (data[at + 5] != 0 and data[at + 5] != 0xF8):
        return NOT_IP, at, NO_TAG
    return after_type(max(u16(data, at + 6, True), 1501)), at + 8, NO_TAG


@compiled
def _ppp(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    if at + 2 > end:
        return CUT_OFF, at, NO_TAG
    if (data[at] == 0x0F or data[at] == 0x8F) and data[at + 1] == 0:
        return HDLC, at, NO_TAG
    if data[at] == 0xFF and data[at + 1] == 0x03:
        at += 2
    if at >= end:
        return CUT_OFF, at, NO_TAG
    protocol = int(np.int64(data[at]))
    at += 1
    if not protocol & 1:  # not compressed to one byte
        if at >= end:
            return CUT_OFF, at, NO_TAG
        protocol = (protocol << 8) | int(np.int64(data[at]))
        at += 1
    if protocol == 0x21 or protocol == 0x57:
        return IP, at, NO_TAG
    return (MPLS if protocol == 0x281 or protocol == 0x283 else NOT_IP), at, NO_TAG


@compiled
def _cooked(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    if at + 16 > end:
        return CUT_OFF, at, NO_TAG
    return _cooked_type(u16(data, at + 14, True), u16(data, at + 2, True)), at + 16, NO_TAG


@compiled
def _cooked_type(kind: int, hardware: int) -> int:
    if hardware == 803:  # ARPHRD_IEEE80211_RADIOTAP
        return RADIOTAP
    if hardware == 801:
        return WIFI
    if kind == 4:
        return LLC
    return after_type(kind) if kind > 1500 else NOT_IP


@compiled
def _loopback(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    if at + 4 > end:
        return CUT_OFF, at, NO_TAG
    family = min(u32(data, at, True), u32(data, at, False))  # in the byte order of whoever wrote it
    is_ip = family == 2 or family == 10 or family == 23 or family == 24 or family == 28 or family == 30
    return (IP if is_ip else NOT_IP), at + 4, NO_TAG


@compiled
def _radiotap(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    if at + 8 > end:
        return CUT_OFF, at, NO_TAG
    length = u16(data, at + 2, False)
    return (WIFI if length >= 8 else MALFORMED), at + length, NO_TAG


@compiled
def _wifi(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    if at + 24 > end:
        return CUT_OFF, at, NO_TAG
    kind, flags = data[at], data[at + 1]
    if kind & 0x0C != 0x08 or kind & 0x40 or flags & 0x40:  # no data, or encrypted
        return NOT_IP, at, NO_TAG
    size, is_many = 24, False
    if flags & 3 == 3:
        size += 6
    if kind & 0x80:  # quality of service
        if at + size + 2 > end:
            return CUT_OFF, at, NO_TAG
        is_many = data[at + size] & 0x80 != 0
        size += 2
        if flags & 0x80:
            size += 4
    if is_many:
        size += 14
    return LLC, at + size, NO_TAG
