"""Watches decisions against a promise: do they look as they did in calibration, and what do labels that come later say?

Decisions are gathered into units, as the promise has them: tangles, or blocks of time. Of every unit that is over, a
few numbers are tested for drift (how sure, how late, the share of each class), and the losses among its labelled
decisions for a risk above α. While units come as in calibration and the risk is at most α, the chance of ever raising
an alarm is at most δ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kvec.decide.drift import CLASS, MOST, Exchange, from_text, lateness, numbers, sureness
from kvec.decide.promise import Promise
from kvec.words.errors import SettingError
from kvec.words.items import Decision, Reason

MOST_OPEN = 100_000  # units that are gathered, or wait for older ones; of more, the oldest is not compared
MOST_AWAITED = 100_000  # decisions whose labels are waited for; of more, the oldest are given up
PATIENCE = 256  # units that are over and wait for more labels than have come; of more, the oldest waits no longer
_STAKES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # λ of the bets that the risk is above α, as far as 1/α allows


@dataclass(frozen=True)
class Alarm:
    """A sign that the promise does not hold any more."""

    what: str
    n_units: int  # that had been watched by then


@dataclass(frozen=True)
class Watched:
    """How things stand."""

    holds: bool  # nothing speaks against the promise
    n_decisions: int
    n_units: int
    n_labelled_units: int
    drift: float  # evidence of the strongest sign of drift, of the evidence that is an alarm
    errors: float  # the same of errors
    alarms: tuple[Alarm, ...]

    def line(self) -> str:
        """On one line."""
        decisions, units = f"decision{'s' * (self.n_decisions != 1)}", f"unit{'s' * (self.n_units != 1)}"
        seen = f"{self.n_decisions:,} {decisions} in {self.n_units:,} whole {units}"
        if self.holds and not self.n_units + self.n_labelled_units:
            when = "one counts when no decision of it can come, if it began in this watch"
            return f"nothing can be said of the promise yet: {seen} ({when})"
        if self.holds:
            labels = f", labels of {self.n_labelled_units:,} too" if self.n_labelled_units else ""
            return f"nothing speaks against the promise so far: {seen}{labels}"
        signs = "; ".join(f"{alarm.what}, seen after {alarm.n_units:,} units" for alarm in self.alarms)
        return f"the promise does not hold any more: {signs} ({seen})"


@dataclass
class _Unit:
    sure: float = 0.0
    late: float = 0.0
    classes: dict[str, int] = field(default_factory=dict)
    n: int = 0
    is_over: bool = False  # no decision comes any more
    is_compared: bool = False
    awaited: dict[str, None] = field(default_factory=dict)  # decisions whose labels may come
    n_labelled: int = 0
    n_lost: int = 0


class Monitor:
    """Watches the decisions of a stream; plain data, so that it can be kept beside one.

    Where labels never come, it need not remember the decisions that would await them.
    """

    def __init__(self, promise: Promise | None, awaits_labels: bool = True) -> None:
        if promise is None:
            raise SettingError("nothing is promised at this operating point; kvec guarantee makes a promise")
        if promise.reference is None:
            raise SettingError("this promise keeps no calibration decisions to compare with; make it again")
        self.promise = promise
        self._tests = {name: Exchange(from_text(text)) for name, text in promise.reference.items()}
        self._first = int.from_bytes(hashlib.blake2b(promise.calibration.encode(), digest_size=8).digest())
        self._awaits_labels = awaits_labels
        self._units: dict[int, _Unit] = {}  # that are not compared yet, or wait for labels
        self._open: dict[str, int] = {}  # tangle or block: its unit; the oldest first
        self._awaited: dict[str, list[Any]] = {}  # id: unit, label, whether it was decided early; the oldest first
        self._partly: dict[int, None] = {}  # units that are over, and have some of their labels; the oldest first
        self._stakes = [stake for stake in _STAKES if stake * promise.alpha < 1]
        self._capital = [1.0 / len(self._stakes)] * len(self._stakes)
        self._largest = 1.0
        self._alarms: list[Alarm] = []
        self._n = dict.fromkeys(("decisions", "opened", "next", "units", "labelled", "drawn"), 0)

    def arrived(self, tangle: str | int, time: float | None = None) -> None:
        """An item of this tangle has come; `time`, its own, where units are blocks of time.

        Tangles are compared in the order of their first items where that is told, else of their first decisions; those
        that are decided soon would come first in it, and be unlike the others.
        """
        name = self._unit_name(tangle, time)
        if name not in self._open:
            self._begin(name)

    def observe(self, decision: Decision, time: float | None = None, tangle: str | int | None = None) -> None:
        """Take a decision; where units are blocks of time, it counts in that of `time`, or when it fell.

        `tangle` is the name that `arrived` was given, where that is another than the decision's.
        """
        name = self._unit_name(decision.tangle if tangle is None else tangle, decision.fell if time is None else time)
        if name not in self._open:
            self._begin(name)
        number = self._open[name]
        unit = self._units[number]
        unit.n += 1
        unit.sure += sureness(decision.probability)
        unit.late += lateness(decision.n_observed)
        unit.classes[decision.label] = unit.classes.get(decision.label, 0) + 1
        self._n["decisions"] += 1
        if self._awaits_labels:
            self._await(decision, number)

    def close(self, tangle: str | int | None = None, time: float | None = None) -> None:
        """A tangle is over, or its block of this time, and compared when those before it are. Without a name: all."""
        for name in list(self._open) if tangle is None else [self._unit_name(tangle, time)]:
            if name in self._open:
                self._units[self._open.pop(name)].is_over = True
        self._compare()

    def observe_label(self, decision_id: str, label: str, label_at_end: str | None = None) -> bool:
        """Take the true label of a decision; whether it counts, as none does that nobody waits for.

        A promise about early errors counts those labels alone that come with `label_at_end`, what the model would have
        said at the end. Of the others nobody knows whether they are losses; to count the harmless ones would flatter.
        """
        if decision_id not in self._awaited:
            return False
        _, said, is_early = self._awaited[decision_id]
        is_lost = said != label
        is_counted = not self.promise.classes or any(c.name == label and c.is_promised for c in self.promise.classes)
        if self.promise.kind == "early error":
            is_lost = is_lost and is_early and label_at_end == label
            is_counted = is_counted and label_at_end is not None
        self._settle(decision_id, int(is_counted), int(is_counted and is_lost))
        return is_counted

    def status(self) -> Watched:
        """How things stand."""
        drift = max(test.largest / self._enough(name) for name, test in self._tests.items())
        return Watched(
            not self._alarms, self._n["decisions"], self._n["units"], self._n["labelled"], min(drift, 1.0),
            min(self._largest * self.promise.delta / 2, 1.0), tuple(self._alarms),
        )  # fmt: skip

    def to_plain(self) -> dict[str, Any]:
        """Plain data, as `from_plain` reads it."""
        return {
            "tests": {name: test.to_plain() for name, test in self._tests.items()},
            "units": [[number, asdict(replace(unit, awaited={}))] for number, unit in self._units.items()],
            "open": dict(self._open), "awaited": {name: list(one) for name, one in self._awaited.items()},
            "partly": list(self._partly),
            "capital": list(self._capital), "largest": self._largest,
            "alarms": [asdict(alarm) for alarm in self._alarms], "n": dict(self._n),
            "awaits_labels": self._awaits_labels,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, promise: Promise, plain: Mapping[str, Any]) -> Monitor:
        """Go on where the monitor was that `to_plain` told of."""
        made = cls(promise, plain["awaits_labels"])
        made._tests = {name: Exchange.from_plain(test) for name, test in plain["tests"].items()}
        for number, unit in plain["units"]:
            told = {name: value for name, value in unit.items() if name != "n_awaited"}  # of an older kvec
            made._units[number] = _Unit(**told | {"classes": dict(unit["classes"]), "awaited": {}})
        made._open = dict(plain["open"])
        made._awaited = {name: list(one) for name, one in plain["awaited"].items() if one[0] in made._units}
        for name, (number, *_) in made._awaited.items():
            made._units[number].awaited[name] = None
        made._partly = dict.fromkeys(plain.get("partly", ()))
        made._capital, made._largest = list(plain["capital"]), plain["largest"]
        made._alarms = [Alarm(**alarm) for alarm in plain["alarms"]]
        made._n = dict(plain["n"])
        if plain.get("block") is not None:
            made.close()  # an older kvec had one block open, which nobody would close any more
        return made

    # -- parts --------------------------------------------------------------------------------------------------

    def _unit_name(self, tangle: str | int, time: float | None) -> str:
        """The name of a unit: a tangle, or its block of time."""
        if self.promise.block is None:
            return f"t{tangle}"
        if time is None:
            raise SettingError("units are blocks of time here, so the monitor needs the time of each item and decision")
        return f"b{int(time // self.promise.block)} t{tangle}"

    def _begin(self, name: str) -> None:
        """Open a unit; one too many, and the oldest, which those after it wait for, is given up."""
        self._open[name] = self._n["opened"]
        self._units[self._n["opened"]] = _Unit()
        self._n["opened"] += 1
        if self._n["opened"] - self._n["next"] > MOST_OPEN:
            oldest = self._open.pop(next(iter(self._open)))
            self._units[oldest].is_compared = True
            self._count(oldest)
            self._compare()

    def _compare(self) -> None:
        """Compare whole units with all before them, in the order in which they began; their labels may still come."""
        while self._n["next"] < self._n["opened"]:
            number = self._n["next"]
            unit = self._units.get(number)
            if unit is not None and not unit.is_compared:
                if not unit.is_over:
                    return
                unit.is_compared = True
                if unit.n:
                    self._test(unit)
                self._count(number)
            self._n["next"] += 1

    def _test(self, unit: _Unit) -> None:
        self._n["units"] += 1
        for test, value in numbers(unit.sure, unit.late, unit.classes, unit.n, self._tests).items():
            self._tests[test].observe(value, self._draw())
            if self._tests[test].largest >= self._enough(test):
                self._raise(f"{test} changed")

    def _await(self, decision: Decision, number: int) -> None:
        """Remember a decision whose label may come; one too many, and the oldest is given up."""
        if decision.id in self._awaited:
            self._settle(decision.id)
        self._awaited[decision.id] = [number, decision.label, decision.reason is Reason.HALTED]
        self._units[number].awaited[decision.id] = None
        if len(self._awaited) > MOST_AWAITED:
            self._settle(next(iter(self._awaited)))

    def _settle(self, decision_id: str, n_labelled: int = 0, n_lost: int = 0) -> None:
        """Nothing more is waited for from this decision."""
        number = self._awaited.pop(decision_id)[0]
        unit = self._units[number]
        del unit.awaited[decision_id]
        unit.n_labelled += n_labelled
        unit.n_lost += n_lost
        self._count(number)

    def _count(self, number: int) -> None:
        """Count a unit that is over, once no more labels can come, or too many others wait that have some of theirs.

        When that is does not depend on which decisions were wrong.
        """
        unit = self._units[number]
        if not unit.is_compared:
            return
        if not unit.awaited:
            self._bet(number)
        elif unit.n_labelled:
            self._partly[number] = None
            if len(self._partly) > PATIENCE:
                self._bet(next(iter(self._partly)))

    def _bet(self, number: int) -> None:
        """Bet on a risk above α with the labelled decisions of a unit, of which nothing more is waited for."""
        unit, promise = self._units.pop(number), self.promise
        self._partly.pop(number, None)
        for decision_id in unit.awaited:
            del self._awaited[decision_id]
        if not unit.n_labelled:
            return
        self._n["labelled"] += 1
        excess = (unit.n_lost - promise.alpha * unit.n_labelled) / max(promise.most_keys, unit.n_labelled)
        self._capital = [
            min(capital * (1 + stake * excess), MOST)
            for capital, stake in zip(self._capital, self._stakes, strict=True)
        ]
        self._largest = max(self._largest, sum(self._capital))
        if self._largest >= 2 / promise.delta:
            self._raise(f"more than {100 * promise.alpha:g}% are lost, by the labels that came")

    def _raise(self, what: str) -> None:
        if what not in {alarm.what for alarm in self._alarms}:
            self._alarms.append(Alarm(what, self._n["units"]))

    def _enough(self, test: str) -> float:
        """The capital that is an alarm: half of δ is for drift, a third of it for all classes together."""
        n_classes = sum(name.startswith(CLASS) for name in self._tests)
        return 6 * (n_classes if test.startswith(CLASS) else 1) / self.promise.delta

    def _draw(self) -> float:
        """The next of a series of numbers spread evenly over [0, 1) (splitmix64), another for each calibration."""
        self._n["drawn"] += 1
        z = (self._first + self._n["drawn"] * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return float((z ^ z >> 31) >> 11) / (1 << 53)
