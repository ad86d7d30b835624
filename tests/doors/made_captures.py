"""Captures of two kinds of flows, made byte by byte: short questions with long answers, and long uploads."""

from __future__ import annotations

import random
from pathlib import Path

from tests.read.packets.making_packets import ACK, FIN, SYN, Frame, ethernet, ipv4, pcap, tcp

SERVER = ("192.0.2.1", 443)


def flow(kind: str, client: str, port: int, start: float, rng: random.Random, n: int = 16) -> list[Frame]:
    """One flow with handshake and end: `ask` gets large answers, `send` sends large segments."""
    frames: list[Frame] = []
    now, sequence, answered = start, 1000, 5000

    def add(is_client: bool, flags: int, size: int) -> None:
        nonlocal now, sequence, answered
        ends = ((client, port), SERVER) if is_client else (SERVER, (client, port))
        numbers = (sequence, answered) if is_client else (answered, sequence)
        segment = tcp(ends[0][1], ends[1][1], flags, *numbers, data=bytes(size))
        packet = ethernet(0x0800, ipv4(ends[0][0], ends[1][0], 6, segment))
        frames.append(Frame(packet, round(now * 1e9)))
        used = size + bool(flags & (SYN | FIN))
        sequence, answered = (sequence + used, answered) if is_client else (sequence, answered + used)
        now += rng.uniform(0.001, 0.02)

    add(True, SYN, 0)
    add(False, SYN | ACK, 0)
    add(True, ACK, 0)
    for _ in range(n):
        large, small = rng.choice((1200, 1300, 1400) if kind == "ask" else (900, 1000)), rng.choice((40, 60, 80))
        add(True, ACK, small if kind == "ask" else large)
        add(False, ACK, large if kind == "ask" else small)
    add(True, FIN | ACK, 0)
    add(False, FIN | ACK, 0)
    add(True, ACK, 0)
    return frames


def capture(path: Path, kinds: str, seed: int, n_flows: int = 6) -> Path:
    """A capture of flows side by side, their kinds by turns."""
    rng = random.Random(seed)
    names = kinds.split()
    frames = [
        frame
        for i in range(n_flows)
        for frame in flow(names[i % len(names)], "10.0.0.7", 20_000 + i, 1_700_000_000 + rng.uniform(0, 0.2), rng)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pcap(sorted(frames, key=lambda f: f.time)))
    return path


def folder(path: Path, n_each: int = 10) -> Path:
    """Captures in folders that are named by what is in them."""
    for kind in ("ask", "send"):
        for i in range(n_each):
            capture(path / kind / f"run {i}.pcap", kind, seed=hash((kind == "ask", i)) & 0xFFFF)
    return path
