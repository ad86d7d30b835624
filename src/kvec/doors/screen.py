"""A picture in the terminal that is drawn anew a few times a second, and the rate at which something grows."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live

FRAME = 0.25  # seconds between two looks


class Screen:
    """Who draws asks `is_due` how things stand, and then shows."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.rate = 0.0  # a second, smoothed over a few
        self._live = Live(console=self.console, auto_refresh=False)
        self._drawn = 0.0
        self._count: int | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def is_due(self, count: int, is_last: bool) -> bool:
        """Whether it is time to draw; `count` is what the rate is of."""
        now = time.monotonic()
        passed = now - self._drawn
        if passed < FRAME and not is_last:
            return False
        if self._count is not None and not is_last:
            self.rate += (1 - 0.5**passed) * ((count - self._count) / passed - self.rate)
        self._drawn, self._count = now, count
        return True

    def show(self, picture: RenderableType) -> None:
        """Draw."""
        self._live.update(picture, refresh=True)
