"""What is said of a model's promise and of when it says unknown, and the monitor that watches while a stream runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvec.decide.deployed import Deployed
from kvec.decide.monitor import Monitor, Watched
from kvec.decide.operating import OperatingPoint
from kvec.decide.promise import KINDS, Promise
from kvec.decide.stream import Stream
from kvec.decide.unknown import Unknown
from kvec.report.text import percent, table
from kvec.words.items import Decision, Item, TangleId


def promise_lines(model: Deployed, threshold: float | None = None) -> list[str]:
    """The promise of a model on one line, or that it is void at the operating point that is used."""
    if model.promise is None:
        return []
    is_moved = threshold is not None and threshold != model.threshold
    if model.promised is not None and not is_moved:
        return [model.promised.line()]
    point = OperatingPoint.from_dict(model.promise.operating_point)
    return [
        f"the promise of {model.promise.made} is void: it was made for {point} of the model as it was then; "
        "kvec guarantee makes a new one"
    ]


def promise_text(promise: Promise, before: OperatingPoint, folder: Path) -> str:
    """What is told of a new promise: what it rests on, where the model works now, and what is assumed."""
    point = OperatingPoint.from_dict(promise.operating_point)
    moved = f"stays at {point}" if point == before else f"moves from {before} to {point}"
    lines = [
        promise.line(),
        f"the model's operating point {moved}, number {promise.n_passed} of {promise.n_points} from the latest; "
        f"earliness {promise.earliness:.4f} on this data (lower is better)",
        f"observed there: {100 * promise.observed:.3g}% of {promise.n_observed:,} sequences; upper bound of this "
        f"point alone: {100 * promise.upper:.3g}%",
    ]
    if promise.classes:
        rows = [
            (
                c.name,
                f"{c.n_units:,}",
                f"{c.n_sequences:,}",
                f"{100 * c.observed:.3g}%",
                "none" if c.why_not else f"{100 * c.upper:.3g}%",
            )
            for c in promise.classes
        ]
        lines += ["", table(rows, ("class", "units", "sequences", "observed", "upper bound"), right=(1, 2, 3)), ""]
        lines += [f"nothing is promised of {c.name!r}: {c.why_not}" for c in promise.classes if c.why_not]
    if promise.n_passed == 1:
        lines.append("every sequence is read to its end: no earlier operating point can be promised this")
    lines += [
        f"assumed: {promise.assumption}",
        f"the promise is in {folder}; another operating point or another model makes it void",
    ]
    return "\n".join(lines)


def left_out(promise: Promise) -> str:
    """A warning of the classes of the calibration of which nothing is promised; empty where there are none."""
    some = [c for c in promise.classes if c.n_sequences and not c.is_promised]
    shares = ", ".join(f"of {c.name!r} {100 * c.observed:.3g}% of {c.n_sequences:,}" for c in some)
    if not some:
        return ""
    what = "a class" if len(some) == 1 else f"{len(some)} classes"
    return (
        f"warning: nothing is promised of {what} of this data; "
        f"at the operating point that is chosen for the others are {KINDS[promise.kind]}: {shares}"
    )


def held_by(folder: Path) -> str:
    """What a folder holds that is going to be replaced, in words; empty where there is no model in it."""
    try:
        card = json.loads((folder / "kvec.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return f"{folder} holds a model{' with a promise' if isinstance(card, dict) and 'promise' in card else ''}"


def unknown_lines(unknown: Unknown) -> list[str]:
    """When decisions say that they do not know, on one line."""
    said = []
    if unknown.abstain_below:
        where = "halts or ends" if unknown.abstain_at_halts else "ends without a halt"
        said.append(f"what {where} below a probability of {percent(unknown.abstain_below)}")
    if unknown.unknown_below:
        said.append(f"what is stranger than all but {percent(unknown.unknown_below)} of the known sequences")
    return [f"unknown is {', and '.join(said)}"] if said else []


Begun = tuple[TangleId, float | None]  # a tangle; when it began, where an idle one begins anew; or a block's middle


class Watcher:
    """Watches a stream's decisions against the promise of its model, where there is one.

    A tangle that was idle for longer than the stream's expiry begins anew, and is another unit then, as in calibration.
    Where units are blocks of time, a decision counts in the block of the item at which it fell, whenever it is told.
    What was under way when it began is left out: others have decided a part of it.
    """

    def __init__(
        self, promise: Promise, kept: Mapping[str, Any] | None = None, awaits_labels: bool = False,
        expiry: float | None = None, before: Mapping[TangleId, tuple[float, float]] | None = None,
        is_shared: bool = False,
    ) -> None:  # fmt: skip
        """`before` has the tangles under way, as `Stream.spans` does; with `is_shared` older models still decide."""
        self._expiry, self._block = expiry, promise.block
        self._newest: float | None = None  # time of the item that came last, where units are blocks
        self._open: dict[Begun, None] = {}  # tangles that are not over yet
        self._clocks: dict[TangleId, tuple[float, float]] = {}  # when each began, and the time of its newest item
        self._before: dict[TangleId, float | None] = {}  # tangles that are no units, and their newest times of then
        self._until: dict[TangleId, float] = {}  # of tangles in blocks, the middle of the newest block that is none
        self._is_shared = is_shared and self._block is not None
        self._monitor = Monitor(promise, awaits_labels)
        if before:
            self._before = {tangle: None if expiry is None else newest for tangle, (_, newest) in before.items()}
            self._clocks = {} if expiry is None else dict(before)
            if self._block is not None:
                self._until = {tangle: self._middle(newest) for tangle, (_, newest) in before.items()}
        if kept is not None:
            told = [each if isinstance(each, list) else (each, None) for each in kept["tangles"]]  # older: names alone
            self._open = {(tangle, began): None for tangle, began in told}
            self._clocks = {tangle: (began, newest) for tangle, began, newest in kept.get("clocks", ())}
            self._before = {tangle: newest for tangle, newest in kept.get("before", ())}
            self._until, self._is_shared = dict(kept.get("until", ())), kept.get("shared", False)
            self._monitor = Monitor.from_plain(promise, kept["monitor"])
        self._is_told = not self._monitor.status().holds

    @classmethod
    def of(
        cls, stream: Stream, kept: Mapping[str, Any] | None = None, awaits_labels: bool = False
    ) -> Watcher | None:  # fmt: skip
        """One for this stream; `kept` is what `to_plain` of an earlier one gave, without which it begins anew."""
        promise = stream.promised
        if promise is None or promise.reference is None or (promise.block and not stream.model.has_time):
            return None
        parts = stream.model.has_time and promise.block is None
        before, is_shared = (None, False) if kept is not None else (stream.spans(), bool(stream.older))
        return cls(promise, kept, awaits_labels, stream.limits.expiry if parts else None, before, is_shared)

    def arrived(self, items: Iterable[Item]) -> None:
        """Take note of the tangles whose items come."""
        for begun in dict.fromkeys(map(self._begun, items)):
            tangle, middle = begun
            if self._is_shared and tangle in self._until and middle is not None:
                self._until[tangle] = max(self._until[tangle], middle)
            if not self._is_before(begun):
                self._open[begun] = None
                self._monitor.arrived(*self._unit(begun))

    def look(self, stream: Stream) -> str:
        """What gets no more decisions is over; what must be said, if anything."""
        is_over = self._is_left if self._block is None else self._is_past
        for begun in is_over(stream):
            del self._open[begun]
            self._monitor.close(*self._unit(begun))
        for told in (self._clocks, self._before):
            for tangle in [tangle for tangle in told if not stream.watches(tangle)]:
                del told[tangle]
        return self._warning()

    def observe(self, decisions: Sequence[Decision], stream: Stream | None = None) -> str:
        """Take decisions; what must be said, if anything. `stream` tells whether older models still decide."""
        for decision in decisions:
            if self._block is None:
                begun = decision.tangle, None if self._expiry is None else decision.began
            else:
                begun = decision.tangle, None if decision.fell is None else self._middle(decision.fell)
            if not self._is_before(begun):
                self._open[begun] = None
                name, time = self._unit(begun)
                self._monitor.observe(decision, time, name)
        if stream is not None:
            self._is_shared = self._is_shared and bool(stream.older)
        return self._warning()

    def label(self, decision_id: str, label: str) -> bool:
        """Take the true label of a decision; whether it counts."""
        return self._monitor.observe_label(decision_id, label)

    def status(self) -> Watched:
        """How things stand."""
        return self._monitor.status()

    def close(self) -> str:
        """Nothing more comes of any tangle; what must be said, if anything."""
        self._open.clear()
        self._clocks.clear()
        self._monitor.close()
        return self._warning()

    def line(self) -> str:
        """How things stand."""
        return self._monitor.status().line()

    def to_plain(self) -> dict[str, Any]:
        """Plain data that can be kept with the stream."""
        clocks = [[tangle, *clock] for tangle, clock in self._clocks.items()]
        return {
            "tangles": [list(each) for each in self._open], "clocks": clocks, "monitor": self._monitor.to_plain(),
            "before": [list(each) for each in self._before.items()], "shared": self._is_shared,
            "until": [list(each) for each in self._until.items()],
        }  # fmt: skip

    def _begun(self, item: Item) -> Begun:
        """The tangle of an item, and when it began, as its decisions will say; or the middle of its block."""
        if self._block is not None and item.time is not None:
            self._newest = float(item.time)
            return item.tangle, self._middle(self._newest)
        if self._expiry is None or item.time is None:
            return item.tangle, None
        time = float(item.time)
        began, newest = self._clocks.get(item.tangle, (time, time))
        if time - newest > self._expiry:
            began = newest = time
        self._clocks[item.tangle] = began, max(newest, time)
        return item.tangle, began

    def _is_before(self, begun: Begun) -> bool:
        """Whether a tangle or block had begun when this watcher did, or is one in which older models decide too."""
        tangle, time = begun
        if self._block is not None:
            return tangle in self._until and (self._is_shared or time is None or time <= self._until[tangle])
        newest = self._before.get(tangle)
        return tangle in self._before and (time is None or newest is None or time <= newest)

    def _middle(self, time: float) -> float:
        """The middle of the block of a time: it names the block, and lies in it however numbers are rounded."""
        assert self._block is not None
        return (time // self._block + 0.5) * self._block

    def _unit(self, begun: Begun) -> tuple[str, float | None]:
        """A tangle's name for the monitor, and a time in the block."""
        return (_name(begun), None) if self._block is None else (str(begun[0]), begun[1])

    def _is_left(self, stream: Stream) -> list[Begun]:
        """The tangles that the stream has let go of."""
        return [begun for begun in self._open if not stream.watches(*begun)]

    def _is_past(self, stream: Stream) -> list[Begun]:
        """The blocks in which no decision falls any more; of a tangle that was let go, once an item lies in another."""
        since = {tangle: stream.open_since(tangle) for tangle in dict.fromkeys(tangle for tangle, _ in self._open)}
        past = []
        for tangle, middle in self._open:
            time = since[tangle]
            is_left = time is None
            if time is None:
                time = self._newest
            if middle is None or (time is not None and self._middle(time) != middle and (is_left or time > middle)):
                past.append((tangle, middle))
        return past

    def _warning(self) -> str:
        """That the promise does not hold any more, once."""
        if self._is_told or (now := self._monitor.status()).holds:
            return ""
        self._is_told = True
        return f"warning: {now.line()}"


def _name(begun: Begun) -> str:
    """A tangle's name for the monitor."""
    tangle, began = begun
    return str(tangle) if began is None else f"{tangle}@{began!r}"
