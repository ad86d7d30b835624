"""Items and decisions: the values that enter and leave kvec (§III of the paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

TangleId = str | int
Key = str | int


class Reason(StrEnum):
    """Why a sequence was decided when it was."""

    HALTED = "halted"  # the policy had seen enough
    ENDED = "ended"  # the source marked the end
    EXPIRED = "expired"  # no item for longer than the expiry
    EVICTED = "evicted"  # a limit made room
    CLOSED = "closed"  # end of file or stream


@dataclass(frozen=True, slots=True)
class Item:
    """One arrival: a value of several named fields under a key, in one tangle."""

    tangle: TangleId
    key: Key
    value: Mapping[str, Any]
    time: float | None = None
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The one label a sequence receives, and how many of its items were seen first.

    `labels` and `probabilities` hold one entry per label column; `label` and `probability` are the first.

    >>> d = Decision("link-7", "10.0.0.1:443", 0, ("video",), (0.93,), 4, 51, Reason.HALTED)
    >>> d.id, d.label, d.earliness < 0.1
    ('link-7/10.0.0.1:443/0', 'video', True)
    """

    tangle: TangleId
    key: Key
    sequence: int  # 0 for the key's first sequence in the tangle
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    n_observed: int
    length: int | None  # items of the sequence so far as known; None while it may still grow
    reason: Reason
    true_labels: tuple[str | None, ...] | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """A name that is the same whenever the same sequence is decided."""
        return f"{self.tangle}/{self.key}/{self.sequence}"

    @property
    def label(self) -> str:
        """The label of the first label column."""
        return self.labels[0]

    @property
    def probability(self) -> float:
        """The probability of `label`."""
        return self.probabilities[0]

    @property
    def earliness(self) -> float:
        """Share of the sequence that was seen; lower is better."""
        if not self.length:
            raise ValueError(f"the length of sequence {self.id} is not known yet")
        return self.n_observed / self.length

    def to_plain(self) -> list[Any]:
        """Plain data, as `from_plain` reads it."""
        return [
            self.tangle, self.key, self.sequence, list(self.labels), list(self.probabilities), self.n_observed,
            self.length, self.reason.value,
        ]  # fmt: skip

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Decision:
        """Read what `to_plain` wrote."""
        tangle, key, sequence, labels, probabilities, n_observed, length, reason = plain
        return cls(tangle, key, sequence, tuple(labels), tuple(probabilities), n_observed, length, Reason(reason))
