"""What `kvec watch` knows of each flow: who speaks with whom, how much was sent, and what the flow was named."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvec.read.packets.flows import Arrived
from kvec.words.items import Decision, Reason

MOST_FLOWS = 200_000  # that are remembered


@dataclass(slots=True)
class Flow:
    """One flow so far."""

    client: str
    server: str
    protocol: str
    start: float
    packets: int = 0
    bytes: int = 0
    last: float = 0.0
    decision: Decision | None = None

    @property
    def earliness(self) -> float:
        """Share of its packets so far that its name needed."""
        return 1.0 if self.decision is None else self.decision.n_observed / max(self.packets, 1)


@dataclass(slots=True)
class _Trail:
    """The packets of a flow in one block, and what there was before it."""

    packets: int
    bytes: int
    times: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


class FlowBook:
    """The flows that were heard of most recently, and sums over all."""

    def __init__(self, most: int = MOST_FLOWS) -> None:
        self._most = most
        self._flows: OrderedDict[tuple[str, str], Flow] = OrderedDict()
        self.packets = self.bytes = self.n_flows = self.n_decided = 0
        self.labels: Counter[str] = Counter()
        self._observed: Counter[str] = Counter()  # packets that the names of each label needed
        self._trails: dict[tuple[str, str], _Trail] = {}  # of the flows in the newest block

    def take(self, capture: str, arrived: Arrived) -> None:
        """Count the packets of a block."""
        flows, self._trails = self._flows, {}
        keys, times, sizes = arrived.key.to_list(), arrived.time.tolist(), arrived.size.tolist()
        for i, (key, time, size) in enumerate(zip(keys, times, sizes, strict=True)):
            flow = flows.get((capture, key))
            if flow is None:
                flow = flows[capture, key] = Flow(
                    endpoint(arrived.client[i], int(arrived.client_port[i]), arrived.protocol[i]),
                    endpoint(arrived.server[i], int(arrived.server_port[i]), arrived.protocol[i]),
                    arrived.protocol[i],
                    time,
                )
                self.n_flows += 1
                if len(flows) > self._most:
                    flows.popitem(last=False)
            else:
                flows.move_to_end((capture, key))
            trail = self._trails.get((capture, key))
            if trail is None:
                trail = self._trails[capture, key] = _Trail(flow.packets, flow.bytes)
            trail.times.append(time)
            trail.sizes.append(size)
            flow.packets += 1
            flow.bytes += size
            flow.last = time
        self.packets += len(arrived)
        self.bytes += int(arrived.size.sum())

    def decided(self, decisions: Sequence[Decision]) -> list[dict[str, Any]]:
        """Note decisions, and give what is known of their flows, as columns beside those of a decision."""
        known: list[dict[str, Any]] = []
        for one in decisions:
            self.n_decided += 1
            self.labels[one.shown_label] += 1
            self._observed[one.shown_label] += one.n_observed
            flow = self._flows.get((str(one.tangle), str(one.key)))
            if flow is None:
                known.append({})
                continue
            flow.decision = one
            self._flows.move_to_end((str(one.tangle), str(one.key)))
            time, packets, n_bytes = self._then(flow, one)
            known.append({
                "client": flow.client, "server": flow.server, "protocol": flow.protocol, "start": flow.start,
                "time": time, "packets": packets, "bytes": n_bytes,
            })  # fmt: skip
        return known

    def _then(self, flow: Flow, one: Decision) -> tuple[float, int, int]:
        """Time, packets and bytes of a flow when it was decided, though its block may have brought more of it."""
        trail = self._trails.get((str(one.tangle), str(one.key)))
        n = 0 if trail is None else one.n_observed - trail.packets
        if trail is None or one.reason is not Reason.HALTED or not 0 < n <= len(trail.sizes):
            return flow.last, flow.packets, flow.bytes
        return trail.times[n - 1], one.n_observed, trail.bytes + sum(trail.sizes[:n])

    def mean_observed(self, label: str) -> float:
        """Packets that flows of a label needed, on average."""
        return self._observed[label] / max(self.labels[label], 1)

    def newest(self, n: int) -> Iterator[Flow]:
        """The flows that were heard of last, those with a name first."""
        named: list[Flow] = []
        others: list[Flow] = []
        for flow in reversed(self._flows.values()):
            (others if flow.decision is None else named).append(flow)
            if len(named) >= n or len(named) + len(others) >= 4 * n:
                break
        yield from (named + others)[:n]


def endpoint(address: str, port: int, protocol: str) -> str:
    """An end of a flow as people write it; what stands for the port in ICMP is an id.

    >>> endpoint("10.0.0.1", 443, "tcp"), endpoint("fe80::1", 53, "udp"), endpoint("10.0.0.1", 8, "icmp")
    ('10.0.0.1:443', '[fe80::1]:53', '10.0.0.1')
    """
    if not port or protocol.startswith("icmp"):
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
