"""The loop of `kvec stream`: takes rows as they come, writes decisions as they fall, saves, and stops cleanly."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

from kvec.decide.stream import Stream
from kvec.doors.journal import Entry
from kvec.doors.keeping import Keeper
from kvec.doors.messages import say
from kvec.doors.outlets import DeadLetters, Sink
from kvec.doors.promises import Watcher
from kvec.read.arriving import RowReader
from kvec.read.arriving_sources import Arrived, Source
from kvec.words.errors import DataError
from kvec.words.items import Decision, Item

MOST_ROWS = 1024  # rows that are taken together at the most
WAIT = 0.2  # seconds without rows after which the loop looks around
TICK = 1.0  # seconds between ticks
COMMIT = 5.0  # seconds after which a source is told how far it was read, where no state is kept
LAST = 12  # decisions that are remembered to be shown


@dataclass(frozen=True)
class Manner:
    """How a stream is run."""

    every_items: int | None = None  # save after so many rows
    every_seconds: float | None = None  # save after so many seconds
    is_strict: bool = False  # stop at a line that cannot be used
    by_wall: bool = False  # ticks move the items' own clock too
    decide_on_stop: bool = True  # else: leave open sequences for later
    threshold: float | None = None  # what was said about it, for those who go on


@dataclass
class Tally:
    """What has happened, for those who watch."""

    started: float = field(default_factory=time.monotonic)
    items_before: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    last: deque[Decision] = field(default_factory=lambda: deque(maxlen=LAST))
    lag: float = 0.0  # seconds from a row's arrival until its decisions were out, the newest
    newest: float | None = None  # time of the newest item


class View(Protocol):
    """Someone who watches."""

    def update(self, loop: Loop, is_last: bool = False) -> None:
        """Look, if it is time to."""


class Stopping:
    """Notes the wish to stop: Ctrl-C or SIGTERM. The second one stops at once."""

    def __init__(self) -> None:
        self.is_asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True


class Loop:
    """Runs one stream from its source into its sink."""

    def __init__(
        self, stream: Stream, source: Source, reader: RowReader, sink: Sink, letters: DeadLetters,
        keeper: Keeper | None, manner: Manner,
    ) -> None:  # fmt: skip
        self.stream, self.source, self.reader = stream, source, reader
        self.sink, self.letters = sink, letters
        self.tally = Tally(items_before=stream.counters.items)
        self.watcher = Watcher.of(stream, stream.note.get("watched"))
        self._keeper, self._manner = keeper, manner
        self._journals = keeper is not None and not source.is_replayable
        self._ticked = self._saved = time.monotonic()
        self._n_unsaved = 0  # rows and ticks

    def recover(self) -> int:
        """Take again what the journal has behind the snapshot; how many rows that are."""
        n_rows = 0
        for entry in self._keeper.entries() if self._keeper is not None else ():
            n_rows += len(entry.arrived)
            if entry.arrived:
                self._take(entry.arrived, entry.wall, is_again=True)
            else:
                self.write(self.stream.tick(entry.now, entry.wall))
        return n_rows

    def run(self, stopping: Stopping, view: View | None = None) -> bool:
        """Run until the source ends or someone stops it; whether it ended."""
        is_over = False
        while not (is_over or stopping.is_asked):
            arrived = self.source.read(MOST_ROWS, WAIT)
            came = time.monotonic()
            if arrived:
                self._take(arrived, time.time() if self.source.is_live else 0.0)
                self.tally.lag = time.monotonic() - came
            is_over = arrived is None
            self._look_around()
            if view is not None:
                view.update(self)
        if is_over or self._manner.decide_on_stop:
            self.write(self.stream.close())
            if self.watcher is not None and (warning := self.watcher.close()):
                say(warning)
        if self._keeper is not None:
            self.save(is_finished=is_over)
        else:
            self.source.saved()
        if view is not None:
            view.update(self, is_last=True)
        return is_over

    def save(self, is_finished: bool = False) -> None:
        """Save the stream with the places where its source and its sink go on."""
        assert self._keeper is not None
        self.sink.outlet.sync()
        self.letters.outlet.sync()
        self._keeper.save(self.stream, {
            "kind": self.source.kind, "position": self.source.position(), "sink": self.sink.outlet.place(),
            "letters": self.letters.outlet.place(), "n_letters": self.letters.count, "is_finished": is_finished,
            "reader": self.reader.to_plain(), "classes": dict(self.tally.classes),
            "threshold": self._manner.threshold,
            **({} if self.watcher is None else {"watched": self.watcher.to_plain()}),
        })  # fmt: skip
        self.source.saved()
        self._saved, self._n_unsaved = time.monotonic(), 0

    # -- parts --------------------------------------------------------------------------------------------------

    def _save_first(self) -> None:
        """Before the first rows count, note where they come from and where decisions go: after a crash both matter."""
        if self._keeper is not None and not self._keeper.has_snapshot:
            self.save()

    def _take(self, arrived: Sequence[Arrived], wall: float, is_again: bool = False) -> None:
        """Take rows: on the disk first where they come only once, then decided."""
        items, bad = self._items(arrived, self._manner.is_strict and not is_again)
        is_refused = bool(bad) and self._manner.is_strict and not is_again
        if is_refused:
            arrived = arrived[: arrived.index(bad[-1][0])]
        if arrived and not is_again:
            self._save_first()
        if self._journals and self._keeper is not None and arrived and not is_again:
            self._keeper.journal.add(Entry(wall, list(arrived)))
        self.source.take(arrived)
        self._n_unsaved += len(arrived)
        if not is_refused:
            for one, problem in bad:
                self.letters.report(self.source.place(one), one, problem, is_again)
        decisions = self.stream.feed_many(items, wall)
        if items:
            self.tally.newest = items[-1].time
            if self.watcher is not None:
                self.watcher.arrived(items)
        self.write(decisions)
        if is_refused:
            self._refuse(*bad[-1])

    def _items(self, arrived: Sequence[Arrived], is_strict: bool) -> tuple[list[Item], list[tuple[Arrived, DataError]]]:
        """The items of rows, and the rows that cannot be used; strictly, only those before the first such row."""
        items: list[Item] = []
        bad: list[tuple[Arrived, DataError]] = []
        for one in arrived:
            try:
                cells = self.source.cells(one)
                item = None if cells is None else self.reader.item(cells)
            except DataError as problem:
                bad.append((one, problem))
                if is_strict:
                    break
                continue
            if item is not None:
                items.append(item)
        return items, bad

    def _refuse(self, one: Arrived, problem: DataError) -> None:
        way_out = "mend it, or leave out --strict"
        if self._keeper is not None and self._keeper.has_snapshot:
            self.save()
            way_out += "; the state is saved up to the row before"
        raise DataError(f"{self.source.place(one)}: {problem}; {way_out}")

    def write(self, decisions: Sequence[Decision]) -> None:
        """Write decisions, and count them."""
        if decisions:
            self.sink.write(decisions)
            self.tally.classes.update(one.shown_label for one in decisions)
            self.tally.last.extend(decisions)
            if self.watcher is not None and (warning := self.watcher.observe(decisions, self.stream)):
                say(warning)

    def _look_around(self) -> None:
        """Tick and save, each when it is time to."""
        now = time.monotonic()
        if now - self._ticked >= TICK:
            self._ticked = now
            self._tick()
            if self.watcher is not None and (warning := self.watcher.look(self.stream)):
                say(warning)
        if self._keeper is None:
            if now - self._saved >= COMMIT:
                self._saved = now
                self.source.saved()
        elif self._is_due(now):
            self.save()

    def _tick(self) -> None:
        """Let time pass; a plain file knows no time but that of its items."""
        if not self.source.is_live:
            self.write(self.stream.tick(None, 0.0))
            return
        wall = time.time()
        now = wall if self._manner.by_wall else None
        limits = self.stream.limits
        moves = limits.expiry is not None or limits.reorder > 0
        matters = limits.idle is not None or (now is not None and moves)
        if matters and self._journals and self._keeper is not None:
            self._save_first()
            self._keeper.journal.add(Entry(wall, [], now))
            self._n_unsaved += 1
        self.write(self.stream.tick(now, wall))

    def _is_due(self, now: float) -> bool:
        manner = self._manner
        if manner.every_items is not None:
            return self._n_unsaved >= manner.every_items
        return self._n_unsaved > 0 and manner.every_seconds is not None and now - self._saved >= manner.every_seconds
