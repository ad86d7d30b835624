"""The rules of flows as a plain loop over plain packets: what the compiled loop must give."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

FIN, SYN, RST, ACK = 1, 2, 4, 16
SECOND = 10**9


@dataclass(frozen=True)
class Packet:
    """A packet between two ends, of which each is an address and a port."""

    time: int  # ns
    source: tuple[str, int]
    target: tuple[str, int]
    protocol: str = "tcp"
    flags: int = ACK
    sequence: int = 0
    acknowledged: int = 0
    payload: int = 0


@dataclass
class Flow:
    """What is known of the newest flow between two ends."""

    number: int
    generation: int
    client: tuple[str, int]
    started: int
    last: int
    phase: str = "open"
    opened_by: int | None = None
    answered_by: int | None = None
    fins: dict[tuple[str, int], int] = field(default_factory=dict)
    acked: set[tuple[str, int]] = field(default_factory=set)
    replied: dict[tuple[str, int], int] = field(default_factory=dict)  # what each end acknowledged last
    following: dict[tuple[str, int], int] = field(default_factory=dict)  # what each end sends next


@dataclass(frozen=True)
class Given:
    """What becomes of a packet."""

    packet: int
    time: int
    flow: int
    generation: int
    direction: int
    gap: int
    is_end: bool


class SlowFlows:
    """Flows in an ordered dictionary, the one that was silent for longest first."""

    def __init__(self, idle: float, active: float | None, most: int) -> None:
        self.idle, self.active, self.most = idle * SECOND, active and active * SECOND, most
        self.flows: OrderedDict[tuple[str, frozenset[tuple[str, int]]], Flow] = OrderedDict()
        self.n_flows = self.n_replaced = self.n_after = self.n_forgotten = self.n_late = self.n_anew = 0
        self.now = self.shift = 0

    def take(self, number: int, p: Packet) -> Given | None:
        p = replace(p, time=self.clock(p.time))
        key = (p.protocol, frozenset((p.source, p.target)))
        flow = self.flows.pop(key, None)
        is_syn = p.protocol == "tcp" and p.flags & SYN > 0
        gap = 0
        if flow is None or self.begins(flow, p):
            client = p.target if is_syn and p.flags & ACK else p.source
            if flow and flow.phase == "cut" and p.time - flow.last <= self.idle and not is_syn:
                client = flow.client
            before = flow.generation if flow else self.n_flows if self.n_replaced else 0
            flow = Flow(self.n_flows, before + 1, client, p.time, p.time)
            self.n_flows += 1
            if len(self.flows) == self.most:
                _, old = self.flows.popitem(last=False)
                self.n_replaced += 1
                self.n_forgotten += old.phase == "open" and p.time - old.last <= self.idle
        elif flow.phase == "over":
            self.n_after += 1
            flow.last = p.time
            self.flows[key] = flow
            return None
        else:
            gap = p.time - flow.last
        self.flows[key] = flow
        flow.last = p.time
        is_end = p.protocol == "tcp" and self.ends(flow, p)
        if is_end:
            flow.phase = "over"
        elif self.active is not None and p.time - flow.started >= self.active:
            is_end, flow.phase = True, "cut"
        return Given(number, p.time, flow.number, flow.generation, int(p.source != flow.client), gap, is_end)

    def clock(self, time: int) -> int:
        """Time does not run backwards: small steps back are held, after large ones all is shifted."""
        earliest = self.now - self.idle
        if time >= earliest:
            self.shift = 0
        elif time + self.shift < earliest:
            self.shift = self.now - time
            self.n_anew += 1
        self.n_late += time + self.shift < self.now
        self.now = max(time + self.shift, self.now)
        return self.now

    def begins(self, flow: Flow, p: Packet) -> bool:
        if p.time - flow.last > self.idle or flow.phase == "cut":
            return True
        if p.protocol != "tcp" or not p.flags & SYN or p.flags & RST:
            return False
        if p.flags & ACK:
            return flow.phase == "over" and flow.answered_by != p.sequence
        return flow.opened_by != p.sequence

    def ends(self, flow: Flow, p: Packet) -> bool:
        if p.flags & RST:
            expected = flow.replied.get(p.target), flow.following.get(p.source)
            return p.sequence in expected or expected == (None, None)
        after = (p.sequence + p.payload + (p.flags & SYN > 0) + (p.flags & FIN > 0)) % 2**32
        flow.following[p.source] = after
        if p.flags & ACK:
            flow.replied[p.source] = p.acknowledged
        if p.flags & SYN and p.flags & ACK:
            flow.answered_by = p.sequence
            if flow.opened_by is None:
                flow.opened_by = (p.acknowledged - 1) % 2**32
        elif p.flags & SYN:
            flow.opened_by = p.sequence
        if p.flags & FIN:
            flow.fins[p.source] = after
        if p.flags & ACK and flow.fins.get(p.target) == p.acknowledged:
            flow.acked.add(p.source)
        return len(flow.acked) == 2
