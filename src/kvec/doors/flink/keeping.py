"""One tangle in Flink's keyed state: a whole state now and then, and a log of what was done since.

A whole state costs as much as all that is remembered, a log entry as much as its rows. So rows are logged when they
come, and what was done with them when it is done; the whole is written again when the log has become longer than it.
To restore is to load the whole and to do the log again. The step is deterministic, but another processor may round
otherwise: so the log tells the decisions that fell, and these stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from kvec.decide.deployed import Deployed
from kvec.decide.folder import as_damage
from kvec.decide.models import Models, named
from kvec.decide.snapshot import pack, unpack
from kvec.decide.stream import Stream
from kvec.read.arriving import RowReader
from kvec.read.arriving_forms import JsonLines
from kvec.words.errors import DataError, ModelError
from kvec.words.items import Decision, Item
from kvec.words.limits import Limits

LEAST_LOG = 64  # items in a log before a whole state is written
BEGUN, ROWS, DONE = b"b", b"r", b"d"  # how entries of the log begin


class Kept(Protocol):
    """Flink's state of the tangle at hand."""

    def whole(self) -> bytes | None:
        """The whole state, if there is one."""

    def log(self) -> Iterable[bytes]:
        """What came after it, in order."""

    def add(self, entry: bytes) -> None:
        """Add to the log."""

    def replace(self, whole: bytes) -> None:
        """Write the whole state; the log begins anew."""


@dataclass
class Tangle:
    """What a worker has at hand of one tangle."""

    stream: Stream
    reader: RowReader
    waiting: list[bytes] = field(default_factory=list)  # rows in the log that are not fed yet
    n_waiting: int = 0
    n_logged: int = 0  # items fed since the whole state
    alarm: float | None = None  # when the next one rings
    bytes: int = 0  # when it was last looked at


@dataclass
class Told:
    """What fell: decisions, and rows that could not be used with what is wrong."""

    decisions: list[Decision] = field(default_factory=list)
    bad: list[tuple[bytes, str]] = field(default_factory=list)

    def __iadd__(self, other: Told) -> Told:
        """Both."""
        self.decisions += other.decisions
        self.bad += other.bad
        return self


class Keeper:
    """Begins, logs, saves and restores tangles."""

    def __init__(
        self, model: Deployed, older: Iterable[Deployed] = (), limits: Limits | None = None,
        threshold: float | None = None, dtype: str = "float32",
    ) -> None:  # fmt: skip
        self.models = Models(model, older)
        self._given, self._dtype = threshold, dtype
        stream = Stream(model, limits, threshold, dtype, self.models)
        self._limits, self._threshold = stream.limits, stream.threshold

    def begin(self, kept: Kept) -> Tangle:
        """A tangle of which nothing is known yet; the log tells with what it began."""
        tangle = self._fresh(self.models.newest, self._given)
        begun = {
            "model": named(self.models.newest), "threshold": self._threshold, "limits": asdict(tangle.stream.limits),
        }  # fmt: skip
        kept.add(BEGUN + json.dumps(begun).encode())
        return tangle

    def restore(self, name: str, kept: Kept) -> tuple[Tangle | None, list[Decision]]:
        """A tangle as it was, if there was one; and decisions that no one has been told, which is seldom.

        Where it was another model's, the newest takes over.
        """
        whole = kept.whole()
        tangle = None if whole is None else self._unpack(name, whole)
        untold: dict[str, Decision] = {}  # by id: what falls here now may have been told later
        is_else = False
        for entry in kept.log():
            if tangle is None:
                begun = json.loads(entry.removeprefix(BEGUN))
                self._require_limits(name, Limits(**begun["limits"]))
                tangle = self._fresh(self.models.find(begun["model"]), begun["threshold"])
            elif entry[:1] == ROWS:
                _wait(tangle, entry[1:])
            else:
                done = json.loads(entry[1:])
                fell, told = self._do(tangle, done).decisions, [Decision.from_plain(one) for one in done["told"]]
                untold |= {one.id: one for one in fell}
                is_else |= {one.id for one in fell} != {one.id for one in told}
                for one in told:
                    untold.pop(one.id, None)
                tangle.stream.settle(told)
        if tangle is None:
            return None, []
        stream = tangle.stream
        if not self.models.is_newest(stream.model) or stream.threshold != self._threshold:
            untold |= {one.id: one for one in stream.take_over(self.models.newest, self._given)}
            is_else = True
        if is_else:
            self._replace(name, tangle, kept)
        return tangle, list(untold.values())

    def wait(self, tangle: Tangle, rows: bytes, kept: Kept) -> None:
        """Log rows, lines of JSON, that are fed later."""
        kept.add(ROWS + rows)
        _wait(tangle, rows)

    def do(self, name: str, tangle: Tangle, kept: Kept, verb: str, wall: float, now: float | None = None) -> Told:
        """Feed what waits, and then tick or close, as the verb says; logged with what fell."""
        done: dict[str, Any] = {"do": verb, "wall": wall, "now": now}
        told = self._do(tangle, done)
        kept.add(DONE + json.dumps(done | {"told": [one.to_plain() for one in told.decisions]}).encode())
        stream = tangle.stream
        is_empty = not (stream.n_live or stream.n_cached or stream.n_held)
        if is_empty or tangle.n_logged >= max(LEAST_LOG, 2 * (stream.n_cached + stream.n_live)):
            self._replace(name, tangle, kept)
        return told

    def _do(self, tangle: Tangle, done: Mapping[str, Any]) -> Told:
        stream, told = tangle.stream, Told()
        rows = [row for some in tangle.waiting for row in some.split(b"\n")]
        items: list[Item] = []
        for row in rows:
            try:
                cells = _LINES.cells(row)
                item = None if cells is None else tangle.reader.item(cells)
            except DataError as problem:
                told.bad.append((row, str(problem)))
                continue
            if item is not None:
                items.append(item)
        tangle.waiting, tangle.n_waiting = [], 0
        tangle.n_logged += len(rows)
        told.decisions += stream.feed_many(items, done["wall"])
        if done["do"] == "tick":
            told.decisions += stream.tick(done["now"], done["wall"])
        elif done["do"] == "close":
            told.decisions += stream.close(done["wall"])
        return told

    def _replace(self, name: str, tangle: Tangle, kept: Kept) -> None:
        """Write a whole state; what waits is logged behind it."""
        facts, arrays = tangle.stream.to_plain(self.models)
        kept.replace(pack({**facts, "reader": tangle.reader.to_plain()}, arrays, _where(name)))
        for rows in tangle.waiting:
            kept.add(ROWS + rows)
        tangle.n_logged = 0

    def _unpack(self, name: str, whole: bytes) -> Tangle:
        facts, arrays = unpack(whole, _where(name))
        with as_damage(_where(name)):
            self._require_limits(name, Limits(**facts["limits"]))
            stream = Stream.from_plain(facts, arrays, self.models)
            reader = RowReader(self.models.newest.schema)
            reader.restore(facts["reader"])
        return Tangle(stream, reader)

    def _fresh(self, model: Deployed, threshold: float | None) -> Tangle:
        stream = Stream(model, self._limits, threshold, self._dtype, self.models)
        return Tangle(stream, RowReader(self.models.newest.schema))

    def _require_limits(self, name: str, before: Limits) -> None:
        """All that a tangle lives through must be by the same limits, or going on would be something else."""
        for limit, value in asdict(before).items():
            if value != (now := getattr(self._limits, limit)):
                flag = f"--{limit.replace('_', '-')}"
                raise ModelError(f"{_where(name)}: {flag} was {value} and is {now}; give the same, or start anew")


def _wait(tangle: Tangle, rows: bytes) -> None:
    tangle.waiting.append(rows)
    tangle.n_waiting += rows.count(b"\n") + 1


def _where(name: str) -> str:
    return f"Flink's state of tangle {name}"


_LINES = JsonLines()
