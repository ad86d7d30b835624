"""What is asked of a served model, what it answers, and in what manner it is served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvec.doors.service.answered import Answer
from kvec.doors.service.bodies import Row
from kvec.doors.service.bounds import Bounds


@dataclass(frozen=True)
class Manner:
    """How a model is served."""

    bounds: Bounds
    limits: dict[str, Any]  # of its stream, those that were given
    by_wall: bool = False  # ticks move the items' own clock too
    every: float = 30.0  # seconds between snapshots
    deadline: float = 600.0  # seconds that an older model is given for its open sequences


class Settled(NamedTuple):
    """The answer to a request, and its decisions, a line each."""

    answer: Answer
    decisions: list[bytes]

    @property
    def body(self) -> bytes:
        """The answer as JSON."""
        return self.answer.body(self.decisions)


@dataclass
class Ask:
    """Rows that someone wants to be taken; `done` hears the answer, or why there is none."""

    body: bytes
    form: str
    key: str  # of idempotency; empty: none
    done: Callable[[Settled | Exception], None]
    came: float = 0.0  # by the monotonic clock
    rows: Sequence[Row] = ()
