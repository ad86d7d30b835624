"""Until when older models may wait for their open sequences: each has a deadline of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvec.decide.deployed import Deployed


class Deadlines:
    """The deadlines of models that newer ones have replaced, by the wall clock, the oldest first."""

    def __init__(self) -> None:
        self._until: list[tuple[Deployed, float]] = []

    def add(self, model: Deployed, until: float) -> None:
        """A model was replaced."""
        self._until.append((model, until))

    def is_due(self, wall: float) -> bool:
        """Whether one may have to be done."""
        return any(until <= wall for _, until in self._until)

    def n_left(self, older: Sequence[Deployed], wall: float) -> int:
        """How many of the older models, the newest ones, may go on; the others need no deadline any more."""
        self._forget_done(older)
        del self._until[: sum(until <= wall for _, until in self._until)]
        return len(self._until)

    def to_plain(self, older: Sequence[Deployed]) -> list[float]:
        """Plain data about the older models, as `restore` reads it."""
        self._forget_done(older)
        return [until for _, until in self._until]

    def restore(self, older: Sequence[Deployed], plain: Iterable[float]) -> None:
        """Know again what `to_plain` told of these models."""
        self._until = list(zip(older, plain, strict=True))

    def _forget_done(self, older: Sequence[Deployed]) -> None:
        """Of the models that had one, some may have decided all of their sequences."""
        self._until = [(model, until) for model, until in self._until if any(model is one for one in older)]
