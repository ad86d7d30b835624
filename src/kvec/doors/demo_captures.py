"""Made captures for those who have none at hand: what `kvec demo --captures FOLDER` writes, the same each time."""

from __future__ import annotations

import io
import shlex
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
import polars as pl

from kvec.doors.splitting import Raw, Splitter
from kvec.read.synthetic import APPLICATIONS, demo_traffic
from kvec.report.canvas import write_whole

TRAIN, UNSEEN = [f"link-{n:02}" for n in range(1, 41)], ["unseen"]  # captures
FLOWS = {"train": 15, "unseen": 100}  # in each of them
BEGIN = 1_767_225_600  # seconds since 1970: the first of January 2026, UTC
BETWEEN = 0.2  # seconds between the beginnings of flows
CLIENTS, SERVERS = IPv4Address("192.0.2.0"), IPv4Address("198.51.100.0")  # networks for documentation, RFC 5737
HTTPS, ETHERNET, TCP = 443, 1, 6
HEADERS = 40  # bytes of IPv4 and TCP, which the sizes of made traffic include
HELLO = 517  # bytes to which browsers fill up their hello: its size does not tell the name in it
SNAP = 160  # bytes that are kept of a packet, which is more than up to the name in a hello
FIN, SYN, PSH, ACK = 1, 2, 8, 16
EPOCHS = 12  # of training, which are enough

Sent = tuple[float, bool, int, bytes]  # seconds, whether by the client, flags, payload


@dataclass(frozen=True)
class Flow:
    """One connection, from its SYN to the acknowledgement of both FINs."""

    capture: str  # the name of its file
    application: str
    client: tuple[IPv4Address, int]
    server: tuple[IPv4Address, int]
    sent: list[Sent]

    def packets(self) -> Iterator[Raw]:
        """Its frames, as far as they are kept."""
        following = {True: self.client[1] * 65_537, False: self.client[1] * 257}  # sequence numbers, of both sides
        for when, by_client, flags, payload in self.sent:
            ends = (self.client, self.server) if by_client else (self.server, self.client)
            heard = following[not by_client] if flags & ACK else 0
            frame = _frame(*ends, flags, following[by_client], heard, payload)
            following[by_client] += len(payload) + bool(flags & (SYN | FIN))
            yield ETHERNET, round(when * 1e9), len(frame), frame[:SNAP]


def make_captures(folder: Path) -> str:
    """Write captures to learn from, another one, and the labels of all their flows; tell what to do with them."""
    unseen = made_flows(UNSEEN, FLOWS["unseen"], seed=2)
    n_unseen = _write(folder, unseen)
    train = made_flows(TRAIN, FLOWS["train"], seed=1)
    n_train = _write(folder / "train", train)
    content = io.BytesIO()
    _labels([*train, *unseen]).write_csv(content)
    write_whole(folder / "labels.csv", content.getvalue())
    where = shlex.quote(str(folder))
    return "\n".join([
        f"{where}/train: {len(TRAIN)} captures to learn from ({len(train):,} flows, {n_train:,} packets)",
        f"{where}/unseen.pcapng: another one ({len(unseen):,} flows, {n_unseen:,} packets)",
        f"{where}/labels.csv: which flow is of which application: {', '.join(APPLICATIONS)}",
        "next:",
        f"  kvec flows {where}/unseen.pcapng",
        f"  kvec train {where}/train --labels {where}/labels.csv --epochs {EPOCHS} -o {where}/model",
        f"  kvec evaluate {where}/model {where}/unseen.pcapng --labels {where}/labels.csv",
        f"  kvec watch {where}/model {where}/unseen.pcapng",
    ])  # fmt: skip


def made_flows(captures: Sequence[str], n_each: int, seed: int) -> list[Flow]:
    """Flows of made traffic as connections with hand-shake, hello and end; each shows by itself what it is."""
    rng = np.random.default_rng(seed)
    flows = []
    items = demo_traffic(len(captures) * n_each, seed, keys=1)
    for number, of in enumerate(items.partition_by("tangle", maintain_order=True)):
        capture, place = divmod(number, n_each)
        port = int(of["key"][0].rpartition(":")[2])
        application = str(of["label"][0])
        server = 10 * APPLICATIONS.index(application) + int(rng.integers(1, 5))
        hello, trip = _hello(f"s{server}.{application}.example"), float(rng.uniform(0.01, 0.04))
        times = (BEGIN + BETWEEN * place + of["time"]).to_list()
        first, last = times[0], times[-1] + trip
        sent: list[Sent] = [
            (first - 2 * trip, True, SYN, b""),
            (first - trip, False, SYN | ACK, b""),
            (first - 0.9 * trip, True, ACK, b""),
            (first - 0.8 * trip, True, PSH | ACK, hello),
        ]
        for when, direction, size in zip(times, of["direction"], of["size"], strict=True):
            sent.append((when, direction == 1, ACK if size == HEADERS else PSH | ACK, _record(size - HEADERS)))
        sent += [(last, True, FIN | ACK, b""), (last + trip, False, FIN | ACK, b""), (last + trip, True, ACK, b"")]
        ends = (CLIENTS + place + 1, port), (SERVERS + server, HTTPS)
        flows.append(Flow(captures[capture], application, *ends, sent))
    return flows


def _write(folder: Path, flows: Sequence[Flow]) -> int:
    """Write flows into their captures, in the order of time; how many packets there were."""
    splitter = Splitter(folder)
    for number, flow in enumerate(flows):
        splitter.decided(str(number), flow.capture)
    packets = [(packet, str(number)) for number, flow in enumerate(flows) for packet in flow.packets()]
    for packet, key in sorted(packets, key=lambda one: one[0][1]):
        splitter.take(key, packet)
    splitter.close()
    return len(packets)


def _labels(flows: Sequence[Flow]) -> pl.DataFrame:
    """What flows are, by five-tuple and time."""
    return pl.DataFrame([
        {
            "capture": f"{flow.capture}.pcapng", "client": str(flow.client[0]), "client_port": flow.client[1],
            "server": str(flow.server[0]), "server_port": flow.server[1], "protocol": "tcp", "start": flow.sent[0][0],
            "end": flow.sent[-1][0], "label": flow.application,
        }
        for flow in flows
    ])  # fmt: skip


# -- bytes --------------------------------------------------------------------------------------------------------


def _hello(name: str) -> bytes:
    """The first record of TLS: a ClientHello with a server's name, filled up with zeros."""
    host = name.encode()
    named = struct.pack(">HHHBH", 0, len(host) + 5, len(host) + 3, 0, len(host)) + host
    head = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0"  # version, random, session, cipher, method
    n_zeros = HELLO - 9 - len(head) - 2 - len(named) - 4
    extensions = named + struct.pack(">HH", 21, n_zeros) + bytes(n_zeros)
    body = head + struct.pack(">H", len(extensions)) + extensions
    return b"\x16\x03\x01" + struct.pack(">HBBH", len(body) + 4, 1, 0, len(body)) + body


def _record(size: int) -> bytes:
    """Application data of TLS in so many bytes; fewer than its head are zeros."""
    return b"\x17\x03\x03" + struct.pack(">H", size - 5) + bytes(size - 5) if size > 5 else bytes(size)


def _frame(
    source: tuple[IPv4Address, int], target: tuple[IPv4Address, int], flags: int, sequence: int, heard: int, data: bytes
) -> bytes:
    """A segment of TCP in IPv4 in Ethernet, with its checksums."""
    addresses = source[0].packed + target[0].packed
    numbers = (source[1], target[1], sequence & 0xFFFFFFFF, heard & 0xFFFFFFFF, 5 << 4, flags, 65_535)
    segment = struct.pack(">HHIIBBH", *numbers) + bytes(4) + data
    total = _checksum(addresses + struct.pack(">HH", TCP, len(segment)) + segment)
    segment = segment[:16] + struct.pack(">H", total) + segment[18:]
    head = struct.pack(">BBHHHBB", 0x45, 0, 20 + len(segment), 0, 0x4000, 64, TCP)
    head += struct.pack(">H", _checksum(head + addresses)) + addresses
    return b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0" + head + segment


def _checksum(data: bytes) -> int:
    """The checksum of the Internet (RFC 1071)."""
    total: int = sum(struct.unpack(f">{len(data) // 2 + len(data) % 2}H", data + bytes(len(data) % 2)))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    return ~total & 0xFFFF
