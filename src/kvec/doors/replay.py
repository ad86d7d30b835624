"""Tangles replayed in a terminal: items flow by in a lane per key, until the key's label stands beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kvec.decide.scoring import Scores
from kvec.report.text import bar, plain
from kvec.tangle.tangles import Tangles
from kvec.words.items import Decision

FRAMES = 20  # pictures per second at the most
_HEIGHTS = "▁▂▃▄▅▆▇█"


@dataclass
class Lane:
    """One sequence as it is shown."""

    decision: Decision
    glyphs: list[tuple[str, str]] = field(default_factory=list)  # of each item so far, and its style
    halt: float = 0.0  # halting score of the newest item

    @property
    def is_decided(self) -> bool:
        """Whether the item that settled it has arrived."""
        return len(self.glyphs) >= self.decision.n_observed

    @property
    def is_right(self) -> bool | None:
        """Whether the label is the true one, where that is known."""
        truth = self.decision.true_labels
        return None if truth is None or truth[0] is None else truth[0] == self.decision.label


def replay(
    tangles: Tangles, scores: Scores, decisions: Sequence[Decision], threshold: float, which: Sequence[int],
    seconds: float, console: Console,
) -> None:  # fmt: skip
    """Show the chosen tangles one after the other, each in about `seconds`; at once, and as lines, without a terminal.

    The scores come from one causal pass, in which no item sees a later one: shown item by item, they are the stream's.
    """
    for number, tangle in enumerate(which, start=1):
        items = range(int(tangles.starts[tangle]), int(tangles.starts[tangle + 1]))
        title = f"tangle {number} of {len(which)}: {len(items)} items of {_n_sequences(tangles, tangle)} keys"
        if console.is_terminal:
            _live(tangles, scores, decisions, threshold, items, title, seconds, console)
        else:
            _lines(tangles, decisions, items, title, console)


def _live(
    tangles: Tangles, scores: Scores, decisions: Sequence[Decision], threshold: float, items: range, title: str,
    seconds: float, console: Console,
) -> None:  # fmt: skip
    lanes: dict[int, Lane] = {}
    place = np.empty(tangles.n_items, np.int64)
    place[tangles.sequences.by_sequence] = np.arange(tangles.n_items)
    glyphs = _glyphs(tangles, items)
    started = drawn = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:
        for i, item in enumerate(items):
            sequence = int(tangles.sequences.sequence[item])
            lane = lanes.setdefault(sequence, Lane(decisions[sequence]))
            glyph, style = glyphs[i]
            lane.glyphs.append((glyph, f"{style} dim" if lane.is_decided else style))
            lane.halt = float(scores.halt[place[item]])
            due = started + seconds * (i + 1) / len(items)
            wait = due - time.monotonic()
            if wait > 0 or time.monotonic() - drawn > 1 / FRAMES or i + 1 == len(items):
                live.update(_picture(lanes.values(), threshold, _heading(tangles, item, title), console), refresh=True)
                drawn = time.monotonic()
                time.sleep(max(wait, 0))


def _lines(
    tangles: Tangles, decisions: Sequence[Decision], items: range, title: str, console: Console
) -> None:  # fmt: skip
    console.print(title, highlight=False)
    for item in items:
        sequence = int(tangles.sequences.sequence[item])
        lane = Lane(decisions[sequence])
        if int(tangles.sequences.position[item]) + 1 == lane.decision.n_observed:
            when = f"item {item - items.start + 1:4}"
            text = f"  {when}  {plain(lane.decision.key, 22):22}  {_verdict(lane)}, of {lane.decision.length} in all"
            console.print(text, highlight=False, markup=False, soft_wrap=True)


def _picture(lanes: Iterable[Lane], threshold: float, heading: str, console: Console) -> Group:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, min_width=16)
    room = max(console.width - 16 - 14 - 36 - 6, 10)
    grid.add_column(no_wrap=True, min_width=room, max_width=room)
    grid.add_column(no_wrap=True, min_width=12)
    grid.add_column(no_wrap=True, min_width=36)
    for lane in lanes:
        flow = Text()
        for glyph, style in lane.glyphs[-room:]:
            flow.append(glyph, style)
        score = lane.halt / threshold if threshold else 1.0
        meter = Text("decided", "dim") if lane.is_decided else Text(bar(score, 10), "yellow")
        verdict = Text(_verdict(lane), _VERDICT[lane.is_right]) if lane.is_decided else Text("waiting", "dim")
        grid.add_row(Text(plain(lane.decision.key, 16)), flow, meter, verdict)
    names = Text("key".ljust(18) + "items as they arrive".ljust(room + 2) + "halting".ljust(14) + "label", "dim")
    return Group(Text(heading, "bold"), names, grid, Text(""))


_VERDICT = {True: "bold green", False: "bold red", None: "bold"}


def _verdict(lane: Lane) -> str:
    decision = lane.decision
    items = f"{decision.n_observed} item{'s' * (decision.n_observed > 1)}"
    mark = {True: " ✓", False: f" ✗ {decision.true_labels[0] if decision.true_labels else ''}", None: ""}[lane.is_right]
    return f"{plain(decision.label, 12)} {100 * decision.probability:.0f} % after {items}{mark}"


def _heading(tangles: Tangles, item: int, title: str) -> str:
    if tangles.time is None:
        return title
    begun = tangles.time[int(tangles.starts[np.searchsorted(tangles.starts, item, side="right") - 1])]
    return f"{title}   {tangles.time[item] - begun:7.3f} s"


def _glyphs(tangles: Tangles, items: range) -> list[tuple[str, str]]:
    """A column as high as the size of each item, in the colour of its direction."""
    rows = tangles.frame.select("value.size", "value.direction")[items.start : items.stop].rows()
    return [
        (_HEIGHTS[min(int(math.log2(size + 1) / 1.4), 7)], ("magenta", "cyan")[direction]) for size, direction in rows
    ]


def _n_sequences(tangles: Tangles, tangle: int) -> int:
    return int(tangles.sequence_starts[tangle + 1] - tangles.sequence_starts[tangle])
