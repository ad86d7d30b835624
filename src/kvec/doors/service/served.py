"""One served model: its stream, and all that is kept beside it. One thread owns it; a crash loses nothing that it told.

Requests that wait are taken together: on the disk first, as one entry of the journal, then fed one by one, so that each
is answered with the decisions that its own items settled. After a crash the journal is fed again from the snapshot on,
with the same clock: the same decisions fall under the same numbers. Where something fails in the middle, the stream may
be ahead of the disk; nothing more is taken or saved then, and a new start goes on from the disk, which is right.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvec.decide.operating import OperatingPoint
from kvec.decide.stream import MOST_ENGINES, Status, Stream
from kvec.doors.journal import Entry
from kvec.doors.keeping import SNAPSHOT, Keeper
from kvec.doors.messages import say
from kvec.doors.promises import Watcher
from kvec.doors.service.answered import Answer, Answered
from kvec.doors.service.asking import Ask, Manner, Settled, parted
from kvec.doors.service.bodies import Row, rows_of
from kvec.doors.service.deadlines import Deadlines
from kvec.doors.service.decision_log import DecisionLog
from kvec.doors.service.health import Health
from kvec.doors.service.intake import feed_all, items_of, warm
from kvec.doors.service.label_store import FILE
from kvec.doors.service.meters import Meters
from kvec.doors.service.names import names_meant
from kvec.doors.service.problems import Refusal
from kvec.doors.service.telling import decision_line, kept_json
from kvec.doors.service.traces import Trace, Traces
from kvec.doors.service.truths import Truths
from kvec.doors.service.versions import Version
from kvec.doors.succeeding import require_same_items, require_same_limits
from kvec.doors.summary import counted
from kvec.read.arriving import RowReader
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import ModelError, SettingError
from kvec.words.items import Decision, Item
from kvec.words.limits import Limits

SELDOM = 300  # saving halts the stream in no more than one of so many seconds
OF_ROWS = ("max_line", "max_items", "max_text")  # bounds by which the rows of a request are read
ENOUGH = 100  # items after which a column that none had is told
GIVE_UP = "give up"  # in the place of a body's form: the oldest of many models decides its rest


class Served:
    """A model that is served."""

    def __init__(self, name: str, version: Version, manner: Manner, folder: Path | None, meters: Meters) -> None:
        self.name, self.version, self.meters = name, version, meters
        self._manner, self._keeper = manner, None if folder is None else _keeper(folder)
        self.health = Health(name)
        self._bounds = bounds = manner.bounds
        self.log = DecisionLog(bounds.keep_decisions, folder)
        self.answered = Answered(bounds.keep_ids)
        self.traces = Traces(bounds.keep_traces)
        labels = None if folder is None else folder / FILE
        self.truths = Truths(bounds.keep_decisions, labels, version.base.schema)
        self._deadlines = Deadlines()
        self._n_waiting = self._n_unsaved = self._n_requests = 0
        self._n_read = 0  # items that came as rows
        self._saved = time.monotonic()
        self._has_told = False  # of columns that no row has
        self._pause = 0.0  # seconds that the last snapshot halted the stream
        self.newest: float | None = None  # time of the newest item
        try:
            self._open()
        except Refusal as refusal:  # a take-over that failed
            self._release()
            raise ModelError(str(refusal)) from None
        except BaseException:
            self._release()
            raise

    # -- opening ------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Begin, or go on where the state is; a model that is not the state's takes over."""
        given, wanted = self._manner.limits, self.version
        kept = None if self._keeper is None else self._keeper.resume()
        self.stream = stream = Stream(wanted.model, Limits.of(given)) if kept is None else kept
        note = stream.note
        warm(wanted.model)
        if kept is not None and note.get("kind") != "service":
            raise SettingError("this state was not written by kvec serve; name another folder with --state")
        self.reader = RowReader(stream.model.schema)
        is_newer = is_other = False
        if kept is not None:
            assert self._keeper is not None
            require_same_limits(stream.limits, given, str(self._keeper.folder))
            self.reader.restore(note["reader"])
            self.answered.restore(note["answered"])
            self._n_requests = note["n_requests"]
            self._deadlines.restore(stream.older, note["until"])
            self.version = wanted.at(OperatingPoint(*note["point"]))
            is_newer = note["started"] != wanted.mark or self.version.model.hash != stream.model.hash
            is_other = note.get("bounds") != self._of_rows()
            self._bounds = replace(self._bounds, **note.get("bounds", {}))
        self.log.go_on(note.get("log"))
        self.truths.restore(self.log.since(0, self._manner.bounds.keep_decisions)[1], note.get("truths"))
        stream.listen(self.traces)
        self.watcher = Watcher.of(stream, note.get("watched"), awaits_labels=True)
        self._n_waiting = stream.n_waiting
        self._started = wanted.mark
        n_requests = self._recover()
        self._bounds = self._manner.bounds
        self.truths.catch_up(self._judge)
        if kept is not None:
            n_decisions, n_live = counted(self.log.newest, "decision"), counted(stream.n_live, "sequence")
            say(f"{self.name}: goes on with its state: {n_decisions} so far, {n_live} open")
        if n_requests:
            say(f"{self.name}: taken again from the journal, behind the snapshot: {counted(n_requests, 'request')}")
        if is_newer:
            self.take_over(wanted)
            what = "the model" if note["started"][0] != wanted.base.hash else "where the model works"
            say(f"{self.name}: {what} has changed; the new one takes over")
        elif n_requests or is_other:
            self.save()
        self._count()

    def _recover(self) -> int:
        """Take again what the journal has behind the snapshot, by the bounds of then; how many requests that are."""
        before = self._n_requests
        for entry in self._keeper.entries() if self._keeper is not None else ():
            self._n_unsaved += 1
            if not entry.arrived:
                self._pass(entry.now, entry.wall)
            elif entry.arrived[0].peer == GIVE_UP:
                self._give_up(entry.wall)
            else:
                for one in entry.arrived:
                    assert isinstance(one.content, bytes)
                    self._n_requests += 1
                    self._feed(rows_of(one.content, one.peer, self._bounds), one.origin, entry.wall)
        return self._n_requests - before

    def _of_rows(self) -> dict[str, Any]:
        return {name: getattr(self._manner.bounds, name) for name in OF_ROWS}

    # -- items --------------------------------------------------------------------------------------------------

    def take(self, asks: Sequence[Ask]) -> None:
        """Take requests together; each is answered as soon as its own items are decided."""
        with self.health.at_stake():
            wall = time.time()
            fresh, again = parted(asks, self.answered, self._bounds)
            settled = self._take_fresh(fresh, wall)
            for ask, found in again:
                if isinstance(found, Answer):
                    ask.done(Settled(found, self.log.between(found.first, found.n)))
                else:
                    ask.done(settled[found])
            self._count()

    def _take_fresh(self, asks: Mapping[str, Ask], wall: float) -> dict[str, Settled]:
        """Take requests that were not here before: on the disk first, then one by one."""
        if asks:
            numbered = enumerate(asks.values(), self._n_requests)
            self._journal(Entry(wall, [Arrived(n, a.body, 0, a.key, "", a.form) for n, a in numbered]))
        self._n_requests += len(asks)
        settled = {}
        for name, ask in asks.items():
            began = time.monotonic()
            settled[name] = self._feed(ask.rows, ask.key, wall)
            self.meters.waited(began - ask.came, time.monotonic() - ask.came)
            ask.rows = ()
            ask.done(settled[name])
        return settled

    def _journal(self, entry: Entry) -> None:
        """Have on the disk what is about to happen; before the first of it, a snapshot knows the model it comes to."""
        if self._keeper is not None:
            if not self._keeper.has_snapshot:
                self.save()
            self._keeper.journal.add(entry)
        self._n_unsaved += 1

    def feed(self, items: Sequence[Item]) -> None:
        """Take items that come from this process itself, as a replay's do; they are not journalled."""
        with self.health.at_stake():
            self._tell(self.stream.feed_many(items, time.time()), time.time(), items)
            self.meters.taken(self.name, len(items), 0)
            self._count()

    def _feed(self, rows: Sequence[Row], key: str, wall: float) -> Settled:
        """Feed the rows of a request."""
        items, refused = items_of(rows, self.reader, self._bounds.max_text)
        decisions, unfit = feed_all(self.stream, items, wall)
        if unfit:
            items = [one for one in items if one[0] not in unfit]
            refused += [{"row": number, "detail": why} for number, why in unfit.items()]
        lines = self._tell(decisions, wall, [item for _, item in items])
        told = kept_json(refused) if refused else b"[]"
        self._n_read += len(items)
        answer = Answer(len(rows) - len(refused), self.log.newest - len(lines) + 1, len(lines), told)
        if key:
            self.answered.add(key, answer)
        self.meters.taken(self.name, len(items), len(refused))
        return Settled(answer, lines)

    def _tell(self, decisions: Sequence[Decision], wall: float, items: Sequence[Item] = ()) -> list[bytes]:
        """Note decisions that fell, everywhere; their lines."""
        if items:
            self.newest = items[-1].time
            if self.watcher is not None:
                self.watcher.arrived(items)
        if not decisions:
            return []
        first = self.log.newest + 1
        names = self.stream.model.vocabulary.label_names
        lines = [decision_line(one, n, self.name, names, wall) for n, one in enumerate(decisions, first)]
        self.log.add(lines)
        self.traces.decided(decisions, first)
        self.meters.decided(self.name, decisions)
        if self.watcher is not None and (warning := self.watcher.observe(decisions, self.stream)):
            say(f"{self.name}: {warning}")
        self.truths.decided(decisions, first, wall, self._judge)  # the watcher knows them by now
        self._n_waiting -= len(decisions)
        return lines

    # -- time ---------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let time pass: once a second."""
        with self.health.at_stake():
            wall = time.time()
            limits = self.stream.limits
            now = wall if self._manner.by_wall else None
            moves = limits.idle is not None or (now is not None and (limits.expiry is not None or limits.reorder > 0))
            if moves or self._deadlines.is_due(wall):
                self._journal(Entry(wall, [], now))
            self._pass(now, wall)
            self._save_in_time()
            self._count()

    def _pass(self, now: float | None, wall: float) -> None:
        """What time brings, live and when it is taken again."""
        self._tell(self.stream.tick(now, wall), wall)
        if self.watcher is not None and (warning := self.watcher.look(self.stream)):
            say(f"{self.name}: {warning}")
        older = self.stream.older
        if (n_left := self._deadlines.n_left(older, wall)) < len(older):
            self._tell(self.stream.finish_old(1 + n_left), wall)

    def _give_up(self, wall: float) -> None:
        """Make room for one more model."""
        self._tell(self.stream.finish_old(MOST_ENGINES - 1), wall)

    # -- models -------------------------------------------------------------------------------------------------

    def is_started_with(self, version: Version) -> bool:
        """Whether this version is the one that a folder gave at last, wherever the dial was turned to since."""
        return self._started == version.mark

    def take_over(self, version: Version, is_turned: bool = False) -> None:
        """Let a version decide the sequences that open from now on: a folder's, or the present one, turned."""
        self.health.require()
        where = "this service" if self._keeper is None else str(self._keeper.folder)
        require_same_items(self.stream.model.schema, version.base.schema, f"the new model of {self.name}", where)
        wall = time.time()
        if self.stream.n_models == MOST_ENGINES:
            with self.health.at_stake():
                self._journal(Entry(wall, [Arrived(0, b"", 0, "", "", GIVE_UP)]))
                self._give_up(wall)
        old = self.stream.model
        left = self.stream.take_over(version.model)  # where it is refused, nothing has changed
        with self.health.at_stake():
            assert not left
            if not is_turned:
                self._started = version.mark
                self.truths.begin_anew(self.log.newest)
            self.version = version
            self.watcher = Watcher.of(self.stream, awaits_labels=True)
            self._deadlines.add(old, wall + self._manner.deadline)
            self.save()
            self._count()

    # -- questions ----------------------------------------------------------------------------------------------

    def about(self, tangle: str, key: str) -> tuple[Status | None, Trace | None]:
        """What is known of a key, by names as text."""
        for names in names_meant(tangle, key):
            status, trace = self.stream.status(*names), self.traces.find(*names)
            if status is not None or trace is not None:
                return status, trace
        return None, None

    def label(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Take true labels that have come later."""
        self.health.require()
        classes = set(self.stream.model.vocabulary.labels[0])
        return self.truths.take(rows, classes, self.traces.find, self._judge, self._bounds.max_text)

    def _judge(self, decision_id: str, said: str, label: str) -> None:
        """A decision's true label is known."""
        self.meters.judged(self.name, said == label)
        if self.watcher is not None:
            self.watcher.label(decision_id, label)

    def counts(self) -> dict[str, Any]:
        """How things stand, in numbers."""
        return self._counts

    def facts(self) -> dict[str, Any]:
        """What gauges tell."""
        counters = self.stream.counters
        watched = None if self.watcher is None else self.watcher.status()
        return {
            **self.counts(), "accuracy": self.truths.accuracy, "labelled": self.truths.n_labelled,
            "drift": None if watched is None else watched.drift, "errors": None if watched is None else watched.errors,
            "evicted": counters.evicted_items, "late": counters.late, "unknown": counters.unknown_values,
            "missing": counters.missing_values,
        }  # fmt: skip

    def _count(self) -> None:
        stream = self.stream
        self._n_waiting += self.traces.n_opened
        self.traces.n_opened = 0
        self._counts = {
            "items": stream.counters.items, "decisions": self.log.newest, "live": stream.n_live,
            "waiting": max(self._n_waiting, 0), "tangles": stream.n_tangles, "cached": stream.n_cached,
            "bytes": stream.bytes, "models": stream.n_models, "newest": self.newest,
        }  # fmt: skip
        self._tell_unseen()
        self.meters.early(self.name, self.traces.earliness)
        if self.traces.ended:
            self.truths.ended(self.traces.ended)
            self.traces.ended.clear()

    def _tell_unseen(self) -> None:
        """Say once which value columns no row has had, when there were enough of them to be sure."""
        if not self._has_told and self._n_read >= ENOUGH:
            self._has_told = True
            if self.reader.unseen:
                names = ", ".join(map(repr, sorted(self.reader.unseen)))
                say(f"{self.name}: no row so far has had the model's columns {names}; are they named otherwise?")

    # -- saving -------------------------------------------------------------------------------------------------

    def _save_in_time(self) -> None:
        """Begin a snapshot where it is time for one; it is written while the stream goes on."""
        if self._keeper is not None:
            self._keeper.settle()
            is_due = time.monotonic() - self._saved >= max(self._manner.every, SELDOM * self._pause)
            if self._n_unsaved and is_due and not self._keeper.is_saving:
                self.save(waits=False)

    def save(self, waits: bool = True) -> None:
        """Save the stream with all that is kept beside it, where a state is kept; after a failure nothing is."""
        if self._keeper is None or self.health.failure:
            return
        began = time.monotonic()
        note = {
            "kind": "service", "reader": self.reader.to_plain(), "log": self.log.place(),
            "answered": self.answered.to_plain(), "n_requests": self._n_requests,
            "until": self._deadlines.to_plain(self.stream.older),
            "point": [self.version.point.threshold, self.version.point.delay_cost], "started": self._started,
            "truths": self.truths.to_plain(), "bounds": self._of_rows(),
        }  # fmt: skip
        if self.watcher is not None:
            note["watched"] = self.watcher.to_plain()
        save = self._keeper.save if waits else self._keeper.save_apart
        save(self.stream, note, self.log.spare())
        self._saved, self._n_unsaved = time.monotonic(), 0
        self._pause = self._saved - began
        self.meters.saved(self.name, self._pause)

    def close(self) -> None:
        """Save, and let go of the folder; after a failure only this."""
        try:
            if self._keeper is not None and not self.health.failure:
                with self.health.at_stake():
                    self._keeper.settle(waits=True)
                    if self._n_unsaved:
                        self.save()
        finally:
            self._release()

    def _release(self) -> None:
        with ExitStack() as stack:  # each is closed, whatever the others say
            if self._keeper is not None:
                stack.callback(self._keeper.close)
            stack.callback(self.truths.close)
            stack.callback(self.log.close)


def _keeper(folder: Path) -> Keeper:
    if (folder.parent / SNAPSHOT).exists():
        raise SettingError(f"{folder.parent}: holds the state of kvec stream; name another folder with --state")
    return Keeper(folder)
