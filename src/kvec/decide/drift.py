"""Whether new units look like the calibration's: bets against exchangeability, with a bound on false alarms for ever.

Each unit is told as a number in [0, 1], put into one of BINS. Its rank among all units so far, ties broken at random,
is a uniform p-value as long as old and new units are exchangeable (Vovk), independent of those before it. Capital that
bets on large or on small p-values is a martingale then: the chance to ever hold 1/δ is at most δ (Ville). The capital
is spread over the moment at which a change may begin: the share 1 / (n(n + 1)) waits for the n-th unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

SURE, LATE, CLASS = "how sure decisions are", "how many items they take", "the share of class "
BINS = 64
SLOPES = (-2.0, -1.0, 1.0, 2.0)  # of the bets 1 + ε(p − ½)
MOST = 1e200  # capital that is as good as any larger one


class Exchange:
    """A test of exchangeability of numbers in [0, 1] that come one by one."""

    def __init__(self, counts: npt.NDArray[np.int64]) -> None:
        self._counts = counts.astype(np.int64)  # (BINS,) of the calibration, then of all
        self._capital = np.zeros(len(SLOPES))
        self.n = 0
        self.largest = 1.0  # capital ever held

    def observe(self, value: float, chance: float) -> float:
        """Take the number of the next unit, and one drawn evenly from [0, 1) to break ties; its p-value."""
        b = bin_of(value)
        below, equal = int(self._counts[:b].sum()), int(self._counts[b])
        p = (below + chance * (equal + 1)) / (int(self._counts.sum()) + 1)
        self._counts[b] += 1
        self.n += 1
        begins = 1 / (self.n * (self.n + 1))
        bets = 1 + np.array(SLOPES) * (p - 0.5)
        self._capital = np.minimum((self._capital + begins / len(SLOPES)) * bets, MOST)
        waiting = 1 / (self.n + 1)
        self.largest = max(self.largest, waiting + float(self._capital.sum()))
        return p

    def to_plain(self) -> dict[str, Any]:
        """Plain data, as `from_plain` reads it."""
        return {
            "counts": as_text(self._counts), "capital": self._capital.tolist(), "n": self.n, "largest": self.largest,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Exchange:
        """Read what `to_plain` wrote."""
        made = cls(from_text(plain["counts"]))
        made._capital = np.array(plain["capital"], np.float64)
        made.n, made.largest = plain["n"], plain["largest"]
        return made


def bin_of(value: float) -> int:
    """The bin of a number in [0, 1].

    >>> bin_of(0.0), bin_of(0.5), bin_of(1.0)
    (0, 32, 63)
    """
    return min(max(int(value * BINS), 0), BINS - 1)


def as_text(counts: npt.NDArray[np.int64]) -> str:
    """Counts as short text: bin:count where there are any.

    >>> as_text(np.array([0, 3, 0, 1]))
    '1:3 3:1'
    """
    return " ".join(f"{b}:{counts[b]}" for b in np.flatnonzero(counts))


def from_text(text: str) -> npt.NDArray[np.int64]:
    """Read what `as_text` wrote."""
    counts = np.zeros(BINS, np.int64)
    for entry in text.split():
        b, _, count = entry.partition(":")
        counts[int(b)] = int(count)
    return counts


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
        for test, value in numbers(sure[i], late[i], shares, int(by_class[i].sum()), bins).items():
            bins[test][bin_of(value)] += 1
    return {test: as_text(counts) for test, counts in bins.items()}


def numbers(sure: float, late: float, classes: Mapping[str, int], n: int, tests: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a unit, each in [0, 1], by the test that takes it."""
    shares = {CLASS + repr(name): count / n for name, count in classes.items()}
    return {name: shares.get(name, 0.0) for name in tests} | {SURE: sure / n, LATE: late / n}
