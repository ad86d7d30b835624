"""Makes captures byte by byte, as the standards write them: containers, links, tags, tunnels and transports."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kvec.read.captures import Packets

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
