"""What the terminal shows while items are scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def scoring() -> Iterator[Callable[[int, int], None]]:
    """A bar for work that counts items, in a terminal; elsewhere nothing is shown."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    with Progress(
        TextColumn("scoring items"), BarColumn(32), TextColumn("{task.completed:,}"), TimeRemainingColumn(),
        console=console, transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
