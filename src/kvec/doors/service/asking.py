"""What is asked of a served model, what it answers, and in what manner it is served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvec.doors.service.answered import Answer, Answered
from kvec.doors.service.bodies import Row, rows_of
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.problems import Refusal, busy


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
    done: Callable[[Settled | Refusal], None]
    came: float = 0.0  # by the monotonic clock
    rows: Sequence[Row] = ()


def parted(
    asks: Sequence[Ask], answered: Answered, bounds: Bounds
) -> tuple[dict[str, Ask], list[tuple[Ask, Answer | str]]]:
    """Requests that are new, by a name of each, and those that came before: with the answer, or the name of a new one.

    What cannot be read at all hears so at once, and so do new keys where too many are remembered.
    """
    is_full = answered.is_full()
    fresh: dict[str, Ask] = {}
    again: list[tuple[Ask, Answer | str]] = []
    for number, ask in enumerate(asks):
        if ask.key and ask.key in answered:
            again.append((ask, answered[ask.key]))
        elif ask.key and ask.key in fresh:
            again.append((ask, ask.key))
        elif ask.key and is_full:
            ask.done(busy("too many idempotency keys are young; try again soon"))
        else:
            try:
                ask.rows = rows_of(ask.body, ask.form, bounds)
            except Refusal as refusal:
                ask.done(refusal)
            else:
                fresh[ask.key or f"\n{number}"] = ask  # a key has no line break
    return fresh, again
