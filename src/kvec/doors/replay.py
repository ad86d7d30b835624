"""Tangles replayed in a terminal: items flow by in a lane per key, until the key's label stands beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kvec.decide.halting import decision_table, decisions
from kvec.decide.scores import Scores
from kvec.estimator import KVEC
from kvec.report.text import bar, plain
from kvec.tangle.tangles import Tangles
from kvec.words.items import Decision

FRAMES = 20  # pictures per second at the most
KEY, METER, LABEL = 15, 8, 33  # widths of the columns beside the items
_HEIGHTS = "▁▂▃▄▅▆▇█"
_VERDICT = {True: "bold green", False: "bold red", None: "bold"}


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

    @property
    def verdict(self) -> str:
        """Label, certainty, number of items, and whether it is right."""
        given = self.decision
        items = f"{given.n_observed} item{'s' * (given.n_observed > 1)}"
        truth = given.true_labels[0] if given.true_labels else ""
        mark = {True: " ✓", False: f" ✗ {truth}", None: ""}[self.is_right]
        return f"{plain(given.shown_label, 12)} {100 * given.probability:.0f} % after {items}{mark}"


class Stage:
    """One tangle while its items arrive.

    The scores come from one causal pass, in which no item sees a later one: shown item by item, they are the stream's.
    """

    def __init__(self, model: KVEC, tangles: Tangles, scores: Scores, tangle: int) -> None:
        vocabulary, self._threshold = model.model_.vocabulary, model.model_.threshold
        table = decision_table(tangles, vocabulary, scores, self._threshold, model.model_.unknown)
        self._first_sequence = int(tangles.sequence_starts[tangle])
        its_own = table[self._first_sequence : int(tangles.sequence_starts[tangle + 1])]
        self._decisions = decisions(its_own, vocabulary.label_names)
        self._classes, self._tangles, self._scores = vocabulary.labels[0], tangles, scores
        self._place = np.empty(tangles.n_items, np.int64)
        self._place[tangles.sequences.by_sequence] = np.arange(tangles.n_items)
        self.items = range(int(tangles.starts[tangle]), int(tangles.starts[tangle + 1]))
        self._lanes: dict[int, Lane] = {}
        self._heading = ""

    @property
    def title(self) -> str:
        """How much there is to come."""
        return f"{len(self.items)} items of {len(self._decisions)} keys"

    def play(self) -> Iterator[Lane]:
        """Let the items arrive one by one; yields the lane that each of them went to."""
        for item, (glyph, style) in zip(self.items, self._glyphs(), strict=True):
            sequence = int(self._tangles.sequences.sequence[item])
            lane = self._lanes.setdefault(sequence, Lane(self._decisions[sequence - self._first_sequence]))
            lane.glyphs.append((glyph, f"dim {style}" if lane.is_decided else style))
            lane.halt = float(self._scores.halt[self._place[item]])
            chances = self._scores.classes[0][self._place[item]]
            lane.guess = f"{plain(self._classes[int(chances.argmax())], 12)}? {100 * chances.max():.0f} %"
            self._heading = self._clock(item)
            yield lane

    def picture(self, heading: str, width: int) -> Group:
        """All lanes as they stand."""
        room = max(width - KEY - METER - LABEL - 6, 8)
        grid = Table.grid(padding=(0, 2))
        for column in (KEY, room, METER, LABEL):
            grid.add_column(no_wrap=True, min_width=column, max_width=column)
        for lane in self._lanes.values():
            flow = Text()
            for i, (glyph, style) in enumerate(lane.glyphs, start=1):
                flow.append(glyph, style)
                if i == lane.decision.n_observed:
                    flow.append("┃", _VERDICT[lane.is_right])
            if lane.is_decided:
                meter, verdict = Text(bar(1.0, METER), "dim green"), Text(lane.verdict, _VERDICT[lane.is_right])
            else:
                score = lane.halt / self._threshold if self._threshold else 1.0
                meter, verdict = Text(bar(score, METER), "yellow"), Text(lane.guess, "dim")
            grid.add_row(Text(plain(lane.decision.key, KEY)), flow[-room:], meter, verdict)
        names = Text("  ".join(["key".ljust(KEY), "items".ljust(room), "halting".ljust(METER), "label"]), "dim")
        return Group(Text(f"{heading}{self._heading}", "bold"), names, grid, Text(""))

    def _glyphs(self) -> list[tuple[str, str]]:
        """A column as high as the size of each item, in the colour of its direction."""
        rows = self._tangles.frame.select("value.size", "value.direction")[self.items.start : self.items.stop].rows()
        return [
            (_HEIGHTS[min(int(math.sqrt(size / 1500) * 8), 7)], ("magenta", "cyan")[direction])
            for size, direction in rows
        ]

    def _clock(self, item: int) -> str:
        time = self._tangles.time
        return "" if time is None else f"   {time[item] - time[self.items.start]:7.3f} s"


def replay(
    model: KVEC, tangles: Tangles, scores: Scores, which: Sequence[int], seconds: float, console: Console
) -> None:
    """Show tangles one after the other, each in about `seconds`; at once, and as lines, without a terminal."""
    for number, tangle in enumerate(which, start=1):
        stage = Stage(model, tangles, scores, tangle)
        heading = f"tangle {number} of {len(which)}: {stage.title}"
        if console.is_terminal:
            _live(stage, heading, seconds, console)
        else:
            _lines(stage, heading, console)


def _live(stage: Stage, heading: str, seconds: float, console: Console) -> None:
    started = drawn = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:
        for i, _ in enumerate(stage.play(), start=1):
            wait = started + seconds * i / len(stage.items) - time.monotonic()
            if wait > 0 or time.monotonic() - drawn > 1 / FRAMES or i == len(stage.items):
                live.update(stage.picture(heading, console.width), refresh=True)
                drawn = time.monotonic()
                time.sleep(max(wait, 0))


def _lines(stage: Stage, heading: str, console: Console) -> None:
    console.print(heading)
    for i, lane in enumerate(stage.play(), start=1):
        if len(lane.glyphs) == lane.decision.n_observed:
            key = f"{plain(lane.decision.key, 22):22}"
            text = f"  item {i:4}  {key}  {lane.verdict}, of {lane.decision.length} in all"
            console.print(text, markup=False, soft_wrap=True)
    console.print()
