"""A live view of a stream in the terminal: what is watched, what was decided, how fast, how late, in what memory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvec.doors.running import Loop
from kvec.doors.screen import Screen
from kvec.report.text import bar, plain

EPOCH = 946_684_800.0  # times from the year 2000 on count as seconds since 1970
CLASSES = 12  # shown at the most


class Watch(Screen):
    """Draws a stream anew, a few times a second."""

    def update(self, loop: Loop, is_last: bool = False) -> None:
        """Draw, if it is time to."""
        if self.is_due(loop.stream.counters.items, is_last):
            self.show(picture(loop, self.rate))


def picture(loop: Loop, rate: float) -> Group:
    """The stream as it stands."""
    stream, tally = loop.stream, loop.tally
    facts = [
        ("items", f"{stream.counters.items:,}"),
        ("items/s", f"{rate:,.0f}"),
        ("watched", f"{stream.n_live:,} keys in {stream.n_tangles:,} tangles"),
        ("decided", f"{sum(stream.reasons.values()):,}"),
        ("lag", _lag(tally.lag, tally.newest)),
        (
            "memory",
            f"{_mega(resident())} in all, {_mega(stream.bytes)} of it for {stream.n_cached:,} items and the keys",
        ),
        ("unusable", f"{loop.letters.count:,} rows"),
    ]
    about = Table.grid(padding=(0, 2))
    for name, text in facts:
        about.add_row(Text(name, "dim"), text)
    reasons = [(name, n) for name, n in stream.reasons.items() if n]
    shares = Columns([_shares("class", tally.classes.most_common(CLASSES)), _shares("reason", reasons)], padding=(0, 4))
    return Group(Text(plain(loop.source.name), "bold"), about, Text(""), shares, Text(""), _last(loop))


def resident() -> int:
    """The memory of this process in bytes; where nobody tells, the most it ever had."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _shares(title: str, counted: Sequence[tuple[str, int]]) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(title, "dim"))
    total = sum(n for _, n in counted)
    for name, n in counted:
        grid.add_row(Text(plain(name, 24)), Text(bar(n / total, 12), "cyan"), f"{n:,}")
    return grid


def _last(loop: Loop) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(*(Text(name, "dim") for name in ("tangle", "key", "label", "", "items", "reason")))
    for one in reversed(loop.tally.last):
        grid.add_row(
            Text(plain(one.tangle, 16)), Text(plain(one.key, 32)),
            Text(plain(one.shown_label, 24), "green" if one.is_known else "yellow"),
            f"{100 * one.probability:.0f} %", f"{one.n_observed:,}", one.reason.value,
        )  # fmt: skip
    return grid


def _lag(seconds: float, newest: float | None) -> str:
    text = f"{1000 * seconds:,.1f} ms from arrival to decision"
    now = time.time()
    if newest is not None and EPOCH < newest < now + 86_400:
        text += f"; items are {max(now - newest, 0):,.1f} s old"
    return text


def _mega(n_bytes: int) -> str:
    return f"{n_bytes / 1_000_000:,.0f} MB"
