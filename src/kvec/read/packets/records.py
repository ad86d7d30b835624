"""Where the packets lie in the bytes of a pcap or pcapng file: the scan from record to record, in bounded steps."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from kvec.read.packets.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]

LARGEST_PACKET = 1 << 18  # captured bytes; more are no packet
LARGEST_BLOCK = 1 << 20  # of a pcapng block that matters; others are passed by at any length
LATEST = (1 << 63) - 1  # ns since the epoch
MOST_WIRE = (1 << 31) - 1
# why a scan stopped: bytes are missing, no room, nonsense, a header, a long block
MORE, FULL, BAD, HEAD, SKIP = range(5)
SECTION, DESCRIPTION, OLD, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6

LINK, SNAP, KIND, AMOUNT, OFFSET = range(5)  # columns of a table of interfaces
TIMES, PARTS, POWER, NEVER = range(4)  # clocks: ticks of several ns, of a part of one, of 2**-e s, beyond all times
UNKNOWN, LENGTH, INTERFACE, TIME = range(4)  # columns of what is counted
REASONS = ("unknown block", "bad length", "no such interface", "time out of range")


@compiled
def u16(data: Bytes, at: int, is_big: bool) -> int:
    """Two bytes as a number."""
    first, second = int(np.int64(data[at])), int(np.int64(data[at + 1]))
    return (first << 8) | second if is_big else (second << 8) | first


@compiled
def u32(data: Bytes, at: int, is_big: bool) -> int:
    """Four bytes as a number."""
    first, second = u16(data, at, is_big), u16(data, at + 2, is_big)
    return (first << 16) | second if is_big else (second << 16) | first


@compiled
def nanoseconds(ticks: int, kind: int, amount: int, offset: int) -> int:
    """The time of so many ticks of a clock; -1 where it lies outside what can be told."""
    if kind == NEVER:
        return -1
    if kind == TIMES:
        if ticks > LATEST // amount:
            return -1
        time = ticks * amount
    elif kind == PARTS:
        time = ticks // amount
    else:
        seconds = ticks >> amount if amount < 63 else 0
        if seconds > LATEST // 1_000_000_000 - 1:
            return -1
        rest = ticks - (seconds << min(amount, 62))
        if amount > 33:
            rest >>= min(amount - 33, 63)
        time = seconds * 1_000_000_000 + ((rest * 1_000_000_000) >> min(amount, 33))
    if offset > 0 and time > LATEST - offset:
        return -1
    return max(time + offset, -1)


@compiled
def find_in_pcap(
    data: Bytes, at: int, end: int, is_big: bool, header: int, tick: int,
    starts: Ints, sizes: Small, wire: Small, times: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Note the packets of `data[at:end]`; returns how many, where the scan stopped, and why."""
    n = 0
    while at + header <= end:
        if n == len(starts):
            return n, at, FULL
        size = u32(data, at + 8, is_big)
        if size > LARGEST_PACKET:
            return n, at, BAD
        if at + header + size > end:
            break
        starts[n] = at + header
        sizes[n] = size
        wire[n] = min(max(u32(data, at + 12, is_big), size), MOST_WIRE)
        times[n] = u32(data, at, is_big) * 1_000_000_000 + u32(data, at + 4, is_big) * tick
        n += 1
        at += header + size
    return n, at, MORE


@compiled
def find_in_pcapng(
    data: Bytes, at: int, end: int, is_big: bool, interfaces: Ints, n_interfaces: int, latest: int,
    starts: Ints, sizes: Small, wire: Small, times: Ints, links: npt.NDArray[np.uint16], counts: Ints,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Note the packets of `data[at:end]`; returns how many, where the scan stopped and why, and the latest time."""
    n = 0
    while at + 12 <= end:
        kind = u32(data, at, is_big)
        if kind == SECTION or kind == DESCRIPTION:
            return n, at, HEAD, latest
        length = u32(data, at + 4, is_big)
        if length < 12:
            return n, at, BAD, latest
        length = (length + 3) & ~3
        if kind != ENHANCED and kind != OLD and kind != SIMPLE:
            is_quiet = kind == 4 or kind == 5 or kind == 9 or kind == 10 or kind == 0xBAD or kind == 0x40000BAD
            counts[UNKNOWN] += not is_quiet
            if at + length > end:
                return n, at, SKIP, latest
            at += length
            continue
        if length > LARGEST_BLOCK:
            return n, at, BAD, latest
        if at + length > end:
            break
        if n == len(starts):
            return n, at, FULL, latest
        if u32(data, at + length - 4, is_big) != u32(data, at + 4, is_big):
            return n, at, BAD, latest
        here, room = at + 28, length - 32
        interface = 0
        if kind == SIMPLE:
            here, room = at + 12, length - 16
        at += length
        if room < 0:
            counts[LENGTH] += 1
            continue
        if kind == ENHANCED:
            interface = u32(data, here - 20, is_big)
        elif kind == OLD:
            interface = u16(data, here - 20, is_big)
        if interface >= n_interfaces:
            counts[INTERFACE] += 1
            continue
        if kind == SIMPLE:
            whole = u32(data, here - 4, is_big)
            size = min(whole, room)
            if interfaces[0, SNAP] > 0:
                size = min(size, int(interfaces[0, SNAP]))
            time = latest
        else:
            size, whole = u32(data, here - 8, is_big), u32(data, here - 4, is_big)
            high = u32(data, here - 16, is_big)
            time = -1
            if high < 1 << 31:
                ticks = (high << 32) | u32(data, here - 12, is_big)
                row = interfaces[interface]
                time = nanoseconds(ticks, int(row[KIND]), int(row[AMOUNT]), int(row[OFFSET]))
            if time < 0:
                counts[TIME] += 1
                time = latest
        if size > room or size > LARGEST_PACKET:
            counts[LENGTH] += 1
            continue
        latest = time
        starts[n] = here
        sizes[n] = size
        wire[n] = min(max(whole, size), MOST_WIRE)
        times[n] = time
        links[n] = interfaces[interface, LINK]
        n += 1
    return n, at, MORE, latest


class Interfaces:
    """The interfaces of a pcapng section, as a table that the scan reads."""

    most = 1 << 16

    def __init__(self) -> None:
        self.table = np.zeros((4, 5), np.int64)
        self.n = 0

    def add(self, block: bytes, is_big: bool) -> None:
        """Note what an interface description block says; one that cannot be read is an Ethernet of microseconds."""
        if self.n == self.most:
            return
        if self.n == len(self.table):
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        order: Literal["big", "little"] = "big" if is_big else "little"
        link, snap = int.from_bytes(block[8:10], order), int.from_bytes(block[12:16], order)
        resolution, offset = 6, 0
        for code, value in _options(block[16:-4], is_big):
            if code == 9 and value:
                resolution = value[0]
            elif code == 14 and len(value) == 8:
                offset = int.from_bytes(value, order, signed=True)
        kind, amount = _clock(resolution)
        offset *= 1_000_000_000
        self.table[self.n] = (link, snap, kind, amount, offset) if abs(offset) <= LATEST else (link, snap, NEVER, 0, 0)
        self.n += 1


def _clock(resolution: int) -> tuple[int, int]:
    """The kind of a clock and its amount, from the byte if_tsresol."""
    exponent = resolution & 0x7F
    if resolution & 0x80:
        return POWER, exponent
    if exponent <= 9:
        return TIMES, 10 ** (9 - exponent)
    return (PARTS, 10 ** (exponent - 9)) if exponent <= 27 else (POWER, 127)  # less than a ns, whatever the ticks


def _options(block: bytes, is_big: bool) -> list[tuple[int, bytes]]:
    found, at = [], 0
    order: Literal["big", "little"] = "big" if is_big else "little"
    while at + 4 <= len(block):
        code = int.from_bytes(block[at : at + 2], order)
        length = int.from_bytes(block[at + 2 : at + 4], order)
        if not code:
            break
        found.append((code, block[at + 4 : at + 4 + length]))
        at += 4 + (length + 3 & ~3)
    return found
