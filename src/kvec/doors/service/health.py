"""Whether a served model may go on: where something fails in the middle, it stands still until it is started again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kvec.doors.messages import say
from kvec.doors.service.problems import Refusal, place_of
from kvec.words.errors import KvecError


class Health:
    """Of one model; its stream may be ahead of the disk after a failure, so nothing is taken or saved from then on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.failure = ""  # why nothing more is taken

    @contextmanager
    def at_stake(self) -> Iterator[None]:
        """Do something that may not be done by halves; a failure is told once, and goes on to whoever asked."""
        self.require()
        try:
            yield
        except Exception as error:
            text = str(error) if isinstance(error, KvecError) else place_of(error)
            self.failure = f"{text}; start the service again"
            say(f"{self._name}: {self.failure}")
            raise self.refusal() from error

    def require(self) -> None:
        """Refuse to take anything more after a failure."""
        if self.failure:
            raise self.refusal()

    def refusal(self) -> Refusal:
        """What is told to whoever asks."""
        return Refusal(503, f"nothing is taken any more: {self.failure}")
