"""Packets become items: each usable packet finds its flow, its direction, and whether it ends the flow."""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.read.packets.captures import Packets
from kvec.read.packets.flow_names import BY_NUMBER, names_of, spread
from kvec.read.packets.layers import PORTS, PROBLEMS, PROTOCOL, WIDTH, Layers
from kvec.read.packets.tracking import (
    AFTER_END,
    ANEW,
    COLUMNS,
    COUNTS,
    HELD,
    N_DATAGRAMS,
    N_ENDED,
    N_FLOWS,
    N_FORGOTTEN,
    N_SLOTS,
    NEWEST,
    NO_FIRST,
    OLDEST,
    in_order,
    rebuild,
    track,
)
from kvec.words.flows import FlowSettings

Ints = npt.NDArray[np.int64]
LONGEST = (1 << 62) - 1  # ns
REASONS = {
    NO_FIRST: "fragments without a first",
    AFTER_END: "after the end",
    HELD: "times set forward to the packet before",
    ANEW: "clock set anew",
}


@dataclass(frozen=True, slots=True)
class Arrived:
    """The items of a block of packets: columns of equal length, in the order of the capture."""

    row: Ints  # of the packet in its block
    key: pl.Series  # text, a key of its own for every flow
    time: npt.NDArray[np.float64]  # seconds since the epoch
    size: npt.NDArray[np.int32]  # bytes of the frame on the wire
    direction: npt.NDArray[np.uint8]  # 0 from the client to the server, 1 back
    gap: npt.NDArray[np.float64]  # seconds since the flow's previous packet; 0 for the first
    flags: npt.NDArray[np.uint8]  # of TCP
    payload: npt.NDArray[np.int32]  # bytes above the transport header
    ttl: npt.NDArray[np.uint8]
    client_port: Ints
    server_port: Ints
    client: pl.Series  # address
    server: pl.Series
    protocol: pl.Series  # by name
    is_end: npt.NDArray[np.bool_]  # the packet ends its flow
    flow: Ints  # 0 for the first flow, and so on

    def __len__(self) -> int:
        return len(self.row)

    def frame(self) -> pl.DataFrame:
        """The columns as a frame."""
        return pl.DataFrame({field.name: getattr(self, field.name) for field in fields(self)})


class Flows:
    """A bounded memory of flows. Packets that become no item are counted by reason in `counters`."""

    def __init__(self, settings: FlowSettings | None = None) -> None:
        self.settings = settings or FlowSettings()
        self.counters: Counter[str] = Counter()
        self._factors = np.frombuffer(os.urandom(2 * WIDTH), np.int64)  # of the hash, so that nobody can foresee it
        self._kept = np.zeros(COUNTS, np.int64)
        self._kept[[NEWEST, OLDEST]] = -1
        self._state = np.zeros((0, COLUMNS), np.int64)
        self._known = np.zeros((0, WIDTH // 8), np.int64)
        self._table = np.zeros(0, np.int32)
        self._datagrams = np.zeros((N_DATAGRAMS, 3), np.int64)
        self._firsts = np.zeros((N_DATAGRAMS, WIDTH // 8), np.int64)
        self._idle = _ns(self.settings.idle)
        self._active = -1 if self.settings.active is None else _ns(self.settings.active)

    @property
    def opened(self) -> int:
        """How many flows there were."""
        return int(self._kept[N_FLOWS])

    @property
    def ended(self) -> int:
        """How many of them had their end marked."""
        return int(self._kept[N_ENDED])

    def take(self, packets: Packets, layers: Layers) -> Arrived:
        """The items of the next block of packets."""
        n = len(packets)
        self._grow(n)
        times, rows, gaps = np.zeros((3, n), np.int64)
        local, direction, is_end = np.zeros(n, np.int32), np.zeros(n, np.uint8), np.zeros(n, np.bool_)
        words, named = np.zeros((n, WIDTH // 8), np.int64), np.zeros((n, 3), np.int64)
        counts = np.zeros(len(REASONS), np.int64)
        forgotten = int(self._kept[N_FORGOTTEN])
        in_order(packets.times, self._idle, self._kept, times, counts)
        n_items, n_flows = track(
            times, layers.problem, layers.endpoints.view(np.int64), layers.flipped, layers.protocol,
            layers.flags, layers.payload, layers.sequence, layers.acknowledged, layers.fragment, layers.is_later,
            self._idle, self._active, self.settings.max_flows, self._factors,
            self._table, self._state, self._known, self._kept, self._datagrams, self._firsts,
            rows, local, direction, gaps, is_end, counts, words, named,
        )  # fmt: skip
        self._count(layers, counts, int(self._kept[N_FORGOTTEN]) - forgotten)
        row, of = rows[:n_items], local[:n_items]
        ends = words[:n_flows].view(np.uint8)  # (flows, WIDTH)
        generation, client_is, flow = named[:n_flows].T
        key, client, server = names_of(ends, generation, client_is)
        ports = ends[:, PORTS[0] : PORTS[1] + 2].copy().view(">u2").astype(np.int64)  # (flows, 2)
        each = np.arange(n_flows)
        return Arrived(
            row=row,
            key=spread(key, of),
            time=times[row] / 1e9,
            size=packets.wire[row],
            direction=direction[:n_items],
            gap=gaps[:n_items] / 1e9,
            flags=layers.flags[row],
            payload=layers.payload[row],
            ttl=layers.ttl[row],
            client_port=ports[each, client_is][of],
            server_port=ports[each, 1 - client_is][of],
            client=spread(client, of),
            server=spread(server, of),
            protocol=spread(BY_NUMBER, ends[of, PROTOCOL]),
            is_end=is_end[:n_items],
            flow=flow[of],
        )

    def _grow(self, n: int) -> None:
        """Make room for as many flows as there are packets, within the limit."""
        needed = min(self.settings.max_flows, int(self._kept[N_SLOTS]) + n)
        if needed <= len(self._state):
            return
        size = min(self.settings.max_flows, max(needed, 2 * len(self._state), 1024))
        more = size - len(self._state)
        self._state = np.concatenate([self._state, np.zeros((more, COLUMNS), np.int64)])
        self._known = np.concatenate([self._known, np.zeros((more, WIDTH // 8), np.int64)])
        self._table = np.full(1 << (2 * size - 1).bit_length(), -1, np.int32)
        rebuild(self._table, self._state, int(self._kept[N_SLOTS]))

    def _count(self, layers: Layers, counts: Ints, forgotten: int) -> None:
        problems = np.bincount(layers.problem, minlength=len(PROBLEMS))
        found = {PROBLEMS[i]: int(problems[i]) for i in range(1, len(PROBLEMS))}
        found |= {reason: int(counts[i]) for i, reason in REASONS.items()} | {"open flows forgotten": forgotten}
        self.counters.update({reason: number for reason, number in found.items() if number})


def _ns(seconds: float) -> int:
    return LONGEST if math.isinf(seconds) else min(round(seconds * 1e9), LONGEST)
