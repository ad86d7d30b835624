"""What is shown while cells run: a line for each that is over; in a terminal a bar, those that run, the time left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kvec.report.text import clock
from kvec.reproduce.plan import Cell, Profile
from kvec.reproduce.pool import Finished
from kvec.reproduce.timing import Timing, time_left


class CellsView:
    """Hears of cells that start and finish, and shows how far it is."""

    def __init__(
        self, cells: Sequence[Cell], profile: Profile, timing: Timing, jobs: int, console: Console | None = None
    ) -> None:
        self._waiting = {cell.id: cell for cell in cells}
        self._total, self._n_over = len(cells), 0
        self._profile, self._timing, self._jobs = profile, timing, jobs
        self._running: dict[str, tuple[Cell, float]] = {}  # and since when
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._live = Live(
            console=self._console, get_renderable=self.picture, refresh_per_second=2, transient=True,
            redirect_stdout=False,
        )  # fmt: skip

    def __enter__(self) -> CellsView:
        """Start to draw, if there is a terminal to draw in."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the picture away; the lines stay."""
        self._live.stop()

    def started(self, cell: Cell) -> None:
        """Hear of a cell that began."""
        self._waiting.pop(cell.id)
        self._running[cell.id] = (cell, time.monotonic())

    def finished(self, finished: Finished) -> None:
        """Hear of a cell that is over."""
        del self._running[finished.cell.id]
        self._n_over += 1
        took, far = clock(finished.seconds), f"({self._n_over} of {self._total}{self._left()})"
        if finished.outcome is None:
            self._console.print(Text(f"{finished.cell.id} failed after {took}: {finished.error} {far}", style="red"))
        else:
            self._console.print(Text(f"{finished.cell.id} done in {took} {far}"))

    def picture(self) -> RenderableType:
        """How far it is now."""
        rows = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=max(self._total, 1), completed=self._n_over, width=32)
        rows.add_row(bar, f"{self._n_over} of {self._total} cells{self._left()}")
        for cell, since in list(self._running.values()):
            rows.add_row(Text(cell.id), Text(clock(time.monotonic() - since), style="dim"))
        return rows

    def _left(self) -> str:
        """The time left in words, where anything is known of it."""
        now = time.monotonic()
        running = [(self._expected(cell), now - since) for cell, since in list(self._running.values())]
        waiting = [self._expected(cell) for cell in list(self._waiting.values())]
        if not running and not waiting:
            return ""
        left = [seconds - elapsed for seconds, elapsed in running if seconds is not None]
        known = [seconds for seconds in waiting if seconds is not None]
        if (len(left), len(known)) != (len(running), len(waiting)):
            return ""
        return f", about {clock(time_left(left, known, self._jobs))} left"

    def _expected(self, cell: Cell) -> float | None:
        return self._timing.expected(cell, self._profile.sizes_for(cell))
