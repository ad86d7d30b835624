"""Watches decisions against a promise: do they look as they did in calibration, and what do labels that come later say?

Decisions are gathered into units, as the promise has them: tangles, or blocks of time. Of every unit that is over, a
few numbers are tested for drift (how sure, how late, the share of each class), and the losses among its labelled
decisions for a risk above α. While units come as in calibration and the risk is at most α, the chance of ever raising
an alarm is at most δ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.drift import BINS, MOST, Exchange, as_text, bin_of, from_text
from kvec.decide.promise import Promise
from kvec.decide.risk import mapped
from kvec.words.errors import SettingError
from kvec.words.items import Decision, Reason

MOST_OPEN = 1024  # units that are gathered at once; of more, the one that was quiet for longest is taken to be over
MOST_AWAITED = 100_000  # decisions whose labels are waited for; of more, the oldest are given up
SURE, LATE, CLASS = "how sure decisions are", "how many items they take", "the share of class "
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
        seen = f"{self.n_decisions:,} decisions in {self.n_units:,} whole units"
        if self.holds:
            labels = f", labels of {self.n_labelled_units:,} too" if self.n_labelled_units else ""
            return f"nothing speaks against the promise so far: {seen}{labels}"
        first = self.alarms[0]
        return f"the promise does not hold any more: {first.what}, seen after {first.n_units:,} units ({seen})"


@dataclass
class _Unit:
    sure: float = 0.0
    late: float = 0.0
    classes: dict[str, int] = field(default_factory=dict)
    n: int = 0
    is_over: bool = False
    n_awaited: int = 0  # decisions whose labels may come
    n_labelled: int = 0
    n_lost: int = 0


class Monitor:
    """Watches the decisions of a stream; plain data, so that it can be kept beside one."""

    def __init__(self, promise: Promise) -> None:
        if promise.reference is None:
            raise SettingError("this promise keeps no calibration decisions to compare with; make it again")
        self.promise = promise
        self._tests = {name: Exchange(from_text(text)) for name, text in promise.reference.items()}
        self._units: dict[int, _Unit] = {}  # that are open, or wait for labels
        self._open: dict[str, int] = {}  # tangle or block: its unit; the longest quiet first
        self._awaited: dict[str, list[Any]] = {}  # id: unit, label, whether it was decided early; the oldest first
        self._stakes = [stake for stake in _STAKES if stake * promise.alpha < 1]
        self._capital = [1.0 / len(self._stakes)] * len(self._stakes)
        self._largest = 1.0
        self._alarms: list[Alarm] = []
        self._n = dict.fromkeys(("decisions", "opened", "units", "labelled", "drawn"), 0)
        self._block: int | None = None  # the newest

    @classmethod
    def of(cls, promise: Promise) -> Monitor:
        """One that has seen nothing yet."""
        return cls(promise)

    def observe(self, decision: Decision, time: float | None = None) -> None:
        """Take a decision; `time`, when it fell by the items' clock, where units are blocks of time."""
        name = f"t{decision.tangle}"
        if self.promise.block is not None:
            if time is None:
                raise SettingError("units are blocks of time here, so observe needs the time of each decision")
            name = self._to_block(int(time // self.promise.block))
        number = self._open.pop(name, None)
        if number is None:
            number = self._n["opened"]
            self._n["opened"] += 1
        self._open[name] = number
        unit = self._units.setdefault(number, _Unit())
        unit.n += 1
        unit.sure += sureness(decision.probability)
        unit.late += lateness(decision.n_observed)
        unit.classes[decision.label] = unit.classes.get(decision.label, 0) + 1
        unit.n_awaited += 1
        self._awaited[decision.id] = [number, decision.label, decision.reason is Reason.HALTED]
        self._n["decisions"] += 1
        if len(self._awaited) > MOST_AWAITED:
            self._settle(next(iter(self._awaited)))
        if self.promise.block is None and unit.n >= self.promise.most_keys:
            self.close(decision.tangle)
        elif len(self._open) > MOST_OPEN:
            self._end(next(iter(self._open)))

    def close(self, tangle: str | int | None = None) -> None:
        """A tangle is over: it is compared now. Without a name: all that is open."""
        for name in list(self._open) if tangle is None else [f"t{tangle}"]:
            if name in self._open:
                self._end(name)

    def observe_label(self, decision_id: str, label: str, label_at_end: str | None = None) -> bool:
        """Take the true label of a decision; whether it was waited for.

        A promise about early errors counts those alone of which `label_at_end`, what the model would have said at the
        end, is given; without it the errors are watched less sharply, never too sharply.
        """
        if decision_id not in self._awaited:
            return False
        _, said, is_early = self._awaited[decision_id]
        is_lost = said != label
        if self.promise.kind == "early error":
            is_lost = is_lost and is_early and label_at_end == label
        is_counted = not self.promise.classes or any(c.name == label and c.is_promised for c in self.promise.classes)
        self._settle(decision_id, int(is_counted), int(is_counted and is_lost))
        return True

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
            "units": [[number, asdict(unit)] for number, unit in self._units.items()],
            "open": self._open, "awaited": self._awaited, "capital": self._capital, "largest": self._largest,
            "alarms": [asdict(alarm) for alarm in self._alarms], "n": self._n, "block": self._block,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, promise: Promise, plain: Mapping[str, Any]) -> Monitor:
        """Go on where the monitor was that `to_plain` told of."""
        made = cls(promise)
        made._tests = {name: Exchange.from_plain(test) for name, test in plain["tests"].items()}
        made._units = {number: _Unit(**unit | {"classes": dict(unit["classes"])}) for number, unit in plain["units"]}
        made._open, made._awaited = dict(plain["open"]), {name: list(one) for name, one in plain["awaited"].items()}
        made._capital, made._largest, made._block = list(plain["capital"]), plain["largest"], plain["block"]
        made._alarms = [Alarm(**alarm) for alarm in plain["alarms"]]
        made._n = dict(plain["n"])
        return made

    # -- parts --------------------------------------------------------------------------------------------------

    def _to_block(self, block: int) -> str:
        """The name of a block of time; when a newer one begins, the one before is over."""
        if self._block is None or block > self._block:
            self.close()
            self._block = block
        return f"b{self._block}"  # what comes late counts where the clock is

    def _end(self, name: str) -> None:
        """Compare a whole unit with the others; its labels may still come."""
        number = self._open.pop(name)
        unit = self._units[number]
        unit.is_over = True
        self._n["units"] += 1
        for test, value in _numbers(unit.sure, unit.late, unit.classes, unit.n, self._tests).items():
            self._tests[test].observe(value, self._draw())
            if self._tests[test].largest >= self._enough(test):
                self._raise(f"{test} changed")
        self._count(number)

    def _settle(self, decision_id: str, n_labelled: int = 0, n_lost: int = 0) -> None:
        """Nothing more is waited for from this decision."""
        number = self._awaited.pop(decision_id)[0]
        unit = self._units[number]
        unit.n_awaited -= 1
        unit.n_labelled += n_labelled
        unit.n_lost += n_lost
        self._count(number)

    def _count(self, number: int) -> None:
        """Bet on a risk above α with the labelled decisions of a unit, once no more can come."""
        unit, promise = self._units[number], self.promise
        if not unit.is_over or unit.n_awaited:
            return
        del self._units[number]
        if not unit.n_labelled:
            return
        self._n["labelled"] += 1
        x = float(mapped(unit.n_lost, unit.n_labelled, promise.alpha, promise.most_keys))
        self._capital = [
            min(capital * (1 + stake * (x - promise.alpha)), MOST)
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
        """The next of a fixed series of numbers spread evenly over [0, 1) (splitmix64)."""
        self._n["drawn"] += 1
        z = self._n["drawn"] * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return float((z ^ z >> 31) >> 11) / (1 << 53)


def sureness(probability: float) -> float:
    """A probability in [0, 1] with room near 1: 0.5 is 1/16, 0.75 is 2/16, and so on."""
    return min(-math.log2(max(1 - probability, 2.0**-16)), 16.0) / 16


def lateness(n_observed: int) -> float:
    """A number of items in [0, 1], by its logarithm; 1 is 65,536 items."""
    return min(math.log2(n_observed), 16.0) / 16


def reference(
    unit: npt.NDArray[np.int64], probability: npt.NDArray[np.float64], n_observed: npt.NDArray[np.int64],
    predicted: npt.NDArray[np.int64], classes: tuple[str, ...],
) -> dict[str, str]:  # fmt: skip
    """What the units of a calibration look like, as `Promise.reference` keeps it; arrays have an entry per sequence."""
    names, where = np.unique(unit, return_inverse=True)
    sure = np.bincount(where, [sureness(p) for p in probability], len(names))
    late = np.bincount(where, [lateness(n) for n in n_observed], len(names))
    counts = np.bincount(where * len(classes) + predicted, minlength=len(names) * len(classes))
    by_class = counts.reshape(len(names), len(classes))
    tests = [SURE, LATE, *(CLASS + repr(name) for name in classes)]
    bins = {test: np.zeros(BINS, np.int64) for test in tests}
    for i in range(len(names)):
        shares = dict(zip(classes, by_class[i].tolist(), strict=True))
        for test, value in _numbers(sure[i], late[i], shares, int(by_class[i].sum()), bins).items():
            bins[test][bin_of(value)] += 1
    return {test: as_text(counts) for test, counts in bins.items()}


def _numbers(
    sure: float, late: float, classes: Mapping[str, int], n: int, tests: Mapping[str, Any]
) -> dict[str, float]:
    """The numbers of a unit, each in [0, 1], by the test that takes it."""
    shares = {CLASS + repr(name): count / n for name, count in classes.items()}
    return {name: shares.get(name, 0.0) for name in tests} | {SURE: sure / n, LATE: late / n}
