"""Which partition a tangle belongs to, and how workers share partitions: pure, so that laws can be tested."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kvec.words.items import TangleId

_OFFSET, _PRIME = 2166136261, 16777619  # of FNV-1a, 32 bits


def partition_of(tangle: TangleId, partitions: int) -> int:
    """The partition of a tangle: what `{{partition(n,1)}}` of a NATS server makes of its name.

    >>> [partition_of(tangle, 4) for tangle in ("a", "b", "link-7", "ä", 0, 12345)]
    [0, 1, 1, 2, 3, 0]
    """
    code = _OFFSET
    for byte in str(tangle).encode("utf-8", "backslashreplace"):
        code = (code ^ byte) * _PRIME & 0xFFFFFFFF
    return code % partitions


def share(worker: str, workers: Collection[str], partitions: int) -> int:
    """How many partitions a worker should have; over all workers they add up, and differ by one at the most.

    >>> [share(name, ("a", "b", "c"), 4) for name in ("a", "b", "c")]
    [2, 1, 1]
    """
    names = sorted({*workers, worker})
    return partitions // len(names) + (names.index(worker) < partitions % len(names))


class Plan(NamedTuple):
    """What a worker should do next about its partitions."""

    release: list[int]
    claim: list[int]


def plan(me: str, live: Collection[str], owners: Mapping[int, str], held: Sequence[int], partitions: int) -> Plan:
    """What to give and to take: too many are given up, the newest first; free ones and those of lost workers are taken.

    `owners` says who is noted for a partition; `held` are those at work here, in the order in which they came. One that
    is noted for this worker, but not at work here (its connection broke), is taken again or given up.
    """
    quota = share(me, live, partitions)
    mine = [number for number in range(partitions) if owners.get(number) == me and number not in held]
    others = [
        number for number in range(partitions)
        if number not in held and owners.get(number) != me and (not owners.get(number) or owners[number] not in live)
    ]  # fmt: skip
    first = int.from_bytes(me.encode()[-2:]) % len(others) if others else 0  # workers that start at once rarely meet
    claim = (mine + others[first:] + others[:first])[: max(quota - len(held), 0)]
    return Plan([*list(held)[quota:], *(number for number in mine if number not in claim)], claim)
