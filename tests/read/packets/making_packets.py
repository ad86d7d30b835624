"""Makes captures byte by byte, as the standards write them: containers, links, tags, tunnels and transports."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import numpy as np

from kvec.read.packets.captures import Packets

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Frame:
    """A packet as a capture holds it."""

    data: bytes
    time: int = 0  # ns
    wire: int = 0  # 0: as captured
    link: int = 1

    @property
    def on_wire(self) -> int:
        return self.wire or len(self.data)


def pcap(frames: Iterable[Frame], order: str = "<", nano: bool = False, link: int = 1, magic: int = 0) -> bytes:
    magic = magic or (0xA1B23C4D if nano else 0xA1B2C3D4)
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)]
    for f in frames:
        seconds, rest = divmod(f.time, 10**9)
        out.append(struct.pack(order + "IIII", seconds, rest if nano else rest // 1000, len(f.data), f.on_wire))
        out.append(bytes(8) if magic == 0xA1B2CD34 else b"")
        out.append(f.data)
    return b"".join(out)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(link: int = 1, snap: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(order + "HHI", link, 0, snap) + options, order)


def enhanced(frame: Frame, ticks: int, number: int = 0, order: str = "<", options: bytes = b"") -> bytes:
    head = struct.pack(order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame.data), frame.on_wire)
    return block(6, head + frame.data + bytes(-len(frame.data) % 4) + options, order)


def old(frame: Frame, ticks: int, number: int = 0, order: str = "<") -> bytes:
    head = struct.pack(order + "HHIIII", number, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(frame.data), frame.on_wire)
    return block(2, head + frame.data, order)


def simple(frame: Frame, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", frame.on_wire) + frame.data, order)


def pcapng(frames: Sequence[Frame], order: str = "<") -> bytes:
    """One section; each link type is an interface of its own, with ticks of nanoseconds."""
    links = list(dict.fromkeys(f.link for f in frames))
    head = section(order) + b"".join(interface(n, options=option(9, b"\x09", order), order=order) for n in links)
    return head + b"".join(enhanced(f, f.time, links.index(f.link), order) for f in frames)


def packets_of(frames: Sequence[Frame]) -> Packets:
    """A block of packets, without a container."""
    sizes = [len(f.data) for f in frames]
    return Packets(
        np.frombuffer(b"".join(f.data for f in frames), np.uint8),
        np.cumsum([0, *sizes[:-1]], dtype=np.int64)[: len(frames)],
        np.array(sizes, np.int32),
        np.array([f.on_wire for f in frames], np.int32),
        np.array([f.time for f in frames], np.int64),
        np.array([f.link for f in frames], np.uint16),
    )


# Layers, from the inside out: each function puts its header before what it is given.


def address(text: str) -> bytes:
    return ip_address(text).packed


def tcp(
    source: int,
    target: int,
    flags: int = ACK,
    sequence: int = 0,
    acknowledged: int = 0,
    data: bytes = b"",
    options: bytes = b"",
) -> bytes:
    offset = (20 + len(options)) // 4 << 4
    return struct.pack(">HHIIBBHHH", source, target, sequence, acknowledged, offset, flags, 1024, 0, 0) + options + data


def udp(source: int, target: int, data: bytes = b"", length: int = -1) -> bytes:
    return struct.pack(">HHHH", source, target, len(data) + 8 if length < 0 else length, 0) + data


def sctp(source: int, target: int, data: bytes = b"") -> bytes:
    return struct.pack(">HHII", source, target, 1, 0) + data


def icmp(kind: int, code: int = 0, rest: int = 0, data: bytes = b"") -> bytes:
    """`rest` is the id where there is one."""
    return struct.pack(">BBHHH", kind, code, 0, rest, 0) + data


def ipv4(
    source: str, target: str, protocol: int, data: bytes, ttl: int = 64, options: bytes = b"", identity: int = 0,
    offset: int = 0, more: bool = False, total: int = -1,
) -> bytes:  # fmt: skip
    size = 20 + len(options)
    total = size + len(data) if total < 0 else total
    part = (offset // 8) | (0x2000 if more else 0)
    head = struct.pack(">BBHHHBBH", 0x40 | size // 4, 0, total, identity, part, ttl, protocol, 0)
    return head + address(source) + address(target) + options + data


def ipv6(source: str, target: str, protocol: int, data: bytes, ttl: int = 64, length: int = -1) -> bytes:
    length = len(data) if length < 0 else length
    return struct.pack(">IHBB", 6 << 28, length, protocol, ttl) + address(source) + address(target) + data


def extension(following: int, data: bytes, size: int = 8) -> bytes:
    """Hop-by-hop, routing or destination options of so many bytes."""
    return bytes([following, size // 8 - 1]) + bytes(size - 2) + data


def fragment6(following: int, data: bytes, identity: int, offset: int = 0, more: bool = False) -> bytes:
    return struct.pack(">BBHI", following, 0, offset | more, identity) + data


def authenticated(following: int, data: bytes, size: int = 24) -> bytes:
    return bytes([following, size // 4 - 2]) + bytes(size - 2) + data


def ethernet(kind: int, data: bytes) -> bytes:
    return b"\x02\0\0\0\0\1\x02\0\0\0\0\2" + struct.pack(">H", kind) + data


def vlan(tag: int, kind: int, data: bytes, priority: int = 0) -> bytes:
    return struct.pack(">HH", priority << 13 | tag, kind) + data


def llc(kind: int, data: bytes) -> bytes:
    return b"\xaa\xaa\x03\0\0\0" + struct.pack(">H", kind) + data


def mpls(labels: Sequence[int], data: bytes) -> bytes:
    return b"".join(struct.pack(">I", n << 12 | (i == len(labels) - 1) << 8 | 64) for i, n in enumerate(labels)) + data


def ppp(protocol: int, data: bytes, is_framed: bool = True, is_short: bool = False) -> bytes:
    return (b"\xff\x03" if is_framed else b"") + (bytes([protocol]) if is_short else struct.pack(">H", protocol)) + data


def pppoe(data: bytes) -> bytes:
    return struct.pack(">BBHH", 0x11, 0, 7, len(data)) + data


def hdlc(kind: int, data: bytes) -> bytes:
    return b"\x0f\0" + struct.pack(">H", kind) + data


def cooked(kind: int, data: bytes) -> bytes:
    return struct.pack(">HHH8sH", 0, 1, 6, bytes(8), kind) + data


def cooked2(kind: int, data: bytes) -> bytes:
    return struct.pack(">HHIHBB8s", kind, 0, 3, 1, 0, 6, bytes(8)) + data


def loopback(family: int, data: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "I", family) + data


def wifi(kind: int, data: bytes, has_quality: bool = True, flags: int = 1) -> bytes:
    head = bytes([0x88 if has_quality else 0x08, flags]) + bytes(22 + (6 if flags & 3 == 3 else 0))
    return head + (bytes(2) if has_quality else b"") + llc(kind, data)


def radiotap(data: bytes, size: int = 12) -> bytes:
    return struct.pack("<BBHI", 0, 0, size, 0) + bytes(size - 8) + data


def gre(
    kind: int, data: bytes, key: int | None = None, has_checksum: bool = False, has_sequence: bool = False
) -> bytes:
    flags = 0x8000 * has_checksum | 0x2000 * (key is not None) | 0x1000 * has_sequence
    parts = [struct.pack(">HH", flags, kind), bytes(4) if has_checksum else b""]
    parts += [b"" if key is None else struct.pack(">I", key), bytes(4) if has_sequence else b""]
    return b"".join(parts) + data


def vxlan(number: int, data: bytes) -> bytes:
    return struct.pack(">II", 0x08 << 24, number << 8) + data


def geneve(number: int, kind: int, data: bytes, options: bytes = b"") -> bytes:
    return struct.pack(">BBHI", len(options) // 4, 0, kind, number << 8) + options + data


def gtp(tunnel: int, data: bytes, headers: Sequence[bytes] = (), has_sequence: bool = False) -> bytes:
    """Each header is 4n - 2 bytes of content; its length and the type of the next are added."""
    flags, body = 0x30, data
    if headers or has_sequence:
        flags |= (4 if headers else 0) | (2 if has_sequence else 0)
        body = (
            b"".join(
                bytes([(len(h) + 2) // 4]) + h + bytes([0x85 if i + 1 < len(headers) else 0])
                for i, h in enumerate(headers)
            )
            + data
        )
        body = bytes(3) + bytes([0x85 if headers else 0]) + body
    return struct.pack(">BBHI", flags, 0xFF, len(body), tunnel) + body
