"""A live view of flows in the terminal: who speaks with whom, what each flow is, and after how many packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kvec.decide.stream import Stream
from kvec.doors.flow_book import Flow, FlowBook
from kvec.doors.screen import Screen
from kvec.report.text import amount, columns, plain

HEAD = 5  # lines around the flows
FEWEST = 5  # flows that are shown in the smallest terminal
WIDE = 100  # columns of a terminal from which on there is room for everything
TITLES = ("client", "server", "", "label", "sure", "packets", "bytes", "seen")
CLIENT, SERVER, LABEL = 0, 1, 3
ALWAYS = 6  # columns that are there in narrow terminals, too
LABELS = 16  # columns that a label keeps when addresses need room


class Named(Protocol):
    """A source of packets."""

    name: str


class FlowView(Screen):
    """Draws the newest flows, a few times a second."""

    def update(self, book: FlowBook, stream: Stream, source: Named, is_last: bool = False) -> None:
        """Draw, if it is time to."""
        if self.is_due(book.packets, is_last):
            width, height = self.console.size
            n_rows = max(height - HEAD, FEWEST)
            self.show(picture(book, stream.n_live, source, self.rate, n_rows, width))


def picture(book: FlowBook, n_open: int, source: Named, rate: float, n_rows: int, width: int) -> Group:
    """The flows as they stand, in so many rows and columns."""
    counts = (
        f"  {book.packets:,} packets, {rate:,.0f}/s  {book.n_flows:,} flows, {book.n_decided:,} named, {n_open:,} open"
    )
    head = Text.assemble((plain(source.name, max(width - len(counts), 12)), "bold"), counts)
    labels = Text("  ".join(f"{plain(label, 24)} {n:,}" for label, n in book.labels.most_common(12)), "cyan")
    for line in (head, labels):
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(head, labels, Text(""), _grid(list(book.newest(n_rows)), width))


def fitting(wanted: Sequence[int], space: int) -> list[int]:
    """The widths of client, server and label in so much space: a long label gives way first, then what is widest.

    >>> fitting([21, 17, 30], 70), fitting([21, 17, 30], 60), fitting([46, 17, 30], 60)
    ([21, 17, 30], [21, 17, 22], [27, 17, 16])
    """
    client, server, label = wanted
    widths = [client, server, max(min(label, space - client - server), min(label, LABELS))]
    while sum(widths) > max(space, len(widths)):
        widths[widths.index(max(widths))] -= 1
    return widths


def _grid(flows: Sequence[Flow], width: int) -> Table:
    shown, gap = range(len(TITLES) if width >= WIDE else ALWAYS), 1 + (width >= WIDE)
    rows = [_row(flow) for flow in flows]
    widths = [max(columns(row[i]) for row in (TITLES, *rows)) for i in shown]
    flexible = (CLIENT, SERVER, LABEL)
    taken = sum(widths[i] for i in shown if i not in flexible) + gap * (len(shown) - 1)
    for i, room in zip(flexible, fitting([widths[i] for i in flexible], width - taken), strict=True):
        widths[i] = room
    grid = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    for i in shown:
        side: Literal["left", "right"] = "left" if i <= LABEL else "right"
        grid.add_column(Text(TITLES[i]), justify=side, no_wrap=True, width=widths[i])
    for flow, row in zip(flows, rows, strict=True):
        style = "dim" if flow.decision is None else "green"
        grid.add_row(*(Text(plain(row[i], widths[i]), style if i == LABEL else "") for i in shown))
    return grid


def _row(flow: Flow) -> tuple[str, ...]:
    ends = (plain(flow.client), plain(flow.server), flow.protocol)
    if flow.decision is None:
        return (*ends, "…", "", f"{flow.packets:,}", amount(flow.bytes), "")
    one = flow.decision
    return (
        *ends, plain(one.shown_label), f"{100 * one.probability:.0f} %", f"{one.n_observed:,} of {flow.packets:,}",
        amount(flow.bytes), f"{100 * flow.earliness:.0f} %",
    )  # fmt: skip
