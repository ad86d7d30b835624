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
KEY, METER, LABEL = 15, 8, 33  # widths of the columns beside the items
_HEIGHTS = "▁▂▃▄▅▆▇█"


@dataclass
class Lane:
    """One sequence as it is shown."""

    decision: Decision
    glyphs: list[tuple[str, str]] = field(default_factory=list)  # of each item so far, and its style
    halt: float = 0.0  # halting score of the newest item
    guess: str = ""  # what the label would be now

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
    tangles: Tangles, scores: Scores, decisions: Sequence[Decision], classes: tuple[str, ...], threshold: float,
    which: Sequence[int], seconds: float, console: Console,
) -> None:  # fmt: skip
    """Show the chosen tangles one after the other, each in about `seconds`; at once, and as lines, without a terminal.

    The scores come from one causal pass, in which no item sees a later one: shown item by item, they are the stream's.
    """
    for number, tangle in enumerate(which, start=1):
        items = range(int(tangles.starts[tangle]), int(tangles.starts[tangle + 1]))
        title = f"tangle {number} of {len(which)}: {len(items)} items of {_n_sequences(tangles, tangle)} keys"
        if console.is_terminal:
            _live(tangles, scores, decisions, classes, threshold, items, title, seconds, console)
        else:
            _lines(tangles, decisions, items, title, console)


def _live(
    tangles: Tangles, scores: Scores, decisions: Sequence[Decision], classes: tuple[str, ...], threshold: float,
    items: range, title: str, seconds: float, console: Console,
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
            lane.glyphs.append((glyph, f"dim {style}" if lane.is_decided else style))
            lane.halt = float(scores.halt[place[item]])
            lane.guess = _guess(classes, scores.classes[0][place[item]])
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
    room = max(console.width - KEY - METER - LABEL - 6, 8)
    grid = Table.grid(padding=(0, 2))
    for width in (KEY, room, METER, LABEL):
        grid.add_column(no_wrap=True, min_width=width, max_width=width)
    for lane in lanes:
        flow = Text()
        for i, (glyph, style) in enumerate(lane.glyphs, start=1):
            flow.append(glyph, style)
            if i == lane.decision.n_observed:
                flow.append("┃", _VERDICT[lane.is_right])
        if lane.is_decided:
            meter, verdict = Text(bar(1.0, METER), "dim green"), Text(_verdict(lane), _VERDICT[lane.is_right])
        else:
            score = lane.halt / threshold if threshold else 1.0
            meter, verdict = Text(bar(score, METER), "yellow"), Text(lane.guess, "dim")
        grid.add_row(Text(plain(lane.decision.key, KEY)), flow[-room:], meter, verdict)
    names = Text("  ".join(["key".ljust(KEY), "items".ljust(room), "halting".ljust(METER), "label"]), "dim")
    return Group(Text(heading, "bold"), names, grid, Text(""))


_VERDICT = {True: "bold green", False: "bold red", None: "bold"}


def _verdict(lane: Lane) -> str:
    decision = lane.decision
    items = f"{decision.n_observed} item{'s' * (decision.n_observed > 1)}"
    mark = {True: " ✓", False: f" ✗ {decision.true_labels[0] if decision.true_labels else ''}", None: ""}[lane.is_right]
    return f"{plain(decision.label, 12)} {100 * decision.probability:.0f} % after {items}{mark}"


def _guess(classes: tuple[str, ...], probabilities: np.ndarray) -> str:
    best = int(probabilities.argmax())
    return f"{plain(classes[best], 12)}? {100 * probabilities[best]:.0f} %"


def _heading(tangles: Tangles, item: int, title: str) -> str:
    if tangles.time is None:
        return title
    begun = tangles.time[int(tangles.starts[np.searchsorted(tangles.starts, item, side="right") - 1])]
    return f"{title}   {tangles.time[item] - begun:7.3f} s"


def _glyphs(tangles: Tangles, items: range) -> list[tuple[str, str]]:
    """A column as high as the size of each item, in the colour of its direction."""
    rows = tangles.frame.select("value.size", "value.direction")[items.start : items.stop].rows()
    return [
        (_HEIGHTS[min(int(math.sqrt(size / 1500) * 8), 7)], ("magenta", "cyan")[direction]) for size, direction in rows
    ]


def _n_sequences(tangles: Tangles, tangle: int) -> int:
    return int(tangles.sequence_starts[tangle + 1] - tangles.sequence_starts[tangle])
