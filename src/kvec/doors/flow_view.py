"""A live view of flows in the terminal: who speaks with whom, what each flow is, and after how many packets."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kvec.decide.stream import Stream
from kvec.doors.flow_book import Flow, FlowBook
from kvec.report.text import plain

FRAME = 0.25  # seconds between two looks
HEAD = 6  # lines around the flows
FEWEST = 5  # flows that are shown in the smallest terminal


class Named(Protocol):
    """A source of packets."""

    name: str


class FlowView:
    """Draws the newest flows, a few times a second."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False)
        self._drawn = self._rate = 0.0
        self._packets = 0

    def __enter__(self) -> FlowView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def update(self, book: FlowBook, stream: Stream, source: Named, is_last: bool = False) -> None:
        """Draw, if it is time to."""
        now = time.monotonic()
        passed = now - self._drawn
        if passed < FRAME and not is_last:
            return
        if self._drawn and not is_last:
            self._rate += (1 - 0.5**passed) * ((book.packets - self._packets) / passed - self._rate)
        self._drawn, self._packets = now, book.packets
        n_rows = max(self._console.height - HEAD, FEWEST)
        self._live.update(picture(book, stream, source, self._rate, n_rows), refresh=True)


def picture(book: FlowBook, stream: Stream, source: Named, rate: float, n_rows: int) -> Group:
    """The flows as they stand."""
    waiting = stream.n_live
    head = Text.assemble(
        (plain(source.name, 40), "bold"),
        f"  {book.packets:,} packets, {rate:,.0f}/s  {book.n_flows:,} flows, {book.n_decided:,} named, "
        f"{waiting:,} watched",
    )
    grid = Table(box=None, padding=(0, 1), header_style="dim", expand=False)
    for name, side in (
        ("client", "left"), ("server", "left"), ("", "left"), ("label", "left"), ("sure", "right"),
        ("packets", "right"), ("bytes", "right"), ("seen", "right"),
    ):  # fmt: skip
        grid.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for flow in book.newest(n_rows):
        grid.add_row(*_row(flow))
    labels = Text("  ".join(f"{plain(label, 24)} {n:,}" for label, n in book.labels.most_common(6)), "cyan")
    return Group(head, labels, Text(""), grid)


def _row(flow: Flow) -> tuple[str | Text, ...]:
    ends = (plain(flow.client, 28), plain(flow.server, 28), flow.protocol)
    if flow.decision is None:
        return (*ends, Text("…", "dim"), "", f"{flow.packets:,}", f"{flow.bytes:,}", "")
    one = flow.decision
    return (
        *ends, Text(plain(one.label, 24), "green"), f"{100 * one.probability:.0f} %",
        f"{one.n_observed:,} of {flow.packets:,}", f"{flow.bytes:,}", f"{100 * flow.earliness:.0f} %",
    )  # fmt: skip
