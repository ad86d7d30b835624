"""The trade-off of a model: accuracy against earliness for every threshold and for every fixed number of items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvec.report.metrics import Floats, Ints, Summary, harmonic_means, summarise
from kvec.words.errors import DataError

MOST_POINTS = 101


@dataclass(frozen=True)
class Traces:
    """What a model made of every item of S sequences, N items in all, one sequence after the other."""

    offsets: Ints  # (S+1,) sequence s holds the items offsets[s] to offsets[s+1]
    halt: Floats  # (N,) halting score
    predicted: Ints  # (N,) best class if the sequence were decided here
    confidence: Floats  # (N,) probability of that class
    truth: Ints  # (S,)
    tangle: Ints  # (S,) index of the tangle
    untempered: Floats | None = None  # (N,) `confidence` before calibration, where it is known

    def __post_init__(self) -> None:
        """Give every array its type, and check that they fit together."""
        for name, kind in (("halt", np.float64), ("confidence", np.float64), ("offsets", np.int64)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), kind))
        for name in ("predicted", "truth", "tangle"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.int64))
        if self.untempered is not None:
            object.__setattr__(self, "untempered", np.asarray(self.untempered, np.float64))
        n_items, n = self.halt.size, self.truth.size
        if self.offsets.shape != (n + 1,) or self.offsets[0] != 0 or self.offsets[-1] != n_items:
            raise ValueError(f"offsets must be {n + 1} numbers from 0 to {n_items}, found {self.offsets}")
        if n and self.length.min() < 1:
            raise ValueError(f"sequence {self.length.argmin()} is empty; every sequence has at least one item")
        if not self.predicted.size == self.confidence.size == n_items or self.tangle.size != n:
            raise ValueError(f"{n_items} items and {n} sequences need as many scores; the arrays differ in size")
        if not np.all((self.halt >= 0) & (self.halt <= 1)):
            raise ValueError("halting scores must lie between 0 and 1")

    @property
    def length(self) -> Ints:
        """(S,) the stored length of each sequence."""
        return np.diff(self.offsets)

    def is_halted(self, theta: float) -> NDArray[np.bool_]:
        """(S,) whether a score of each sequence reaches θ."""
        most: Floats = np.maximum.reduceat(self.halt, self.offsets[:-1]) if self.truth.size else self.halt
        return most >= theta

    def decided(self, n_observed: Ints) -> tuple[Ints, Floats]:
        """The class of every sequence when it is decided after `n_observed` items, and its probability."""
        last = self.offsets[:-1] + n_observed - 1
        return self.predicted[last], self.confidence[last]


@dataclass(frozen=True)
class Dial:
    """Points of a dial that is more than a threshold, from early to late."""

    names: tuple[str, ...]
    stops: Ints  # (M, S) items seen of each sequence at each point


@dataclass(frozen=True)
class Curve:
    """Points of a trade-off, from early to late."""

    setting: Floats  # the threshold θ, the fixed number of items, or the place on a dial
    earliness: Floats  # lower is better
    accuracy: Floats
    hm: Floats

    def accuracy_at(self, earliness: float) -> float:
        """Accuracy at an earliness between two points, by straight line; NaN beyond the ends."""
        return float(np.interp(earliness, self.earliness, self.accuracy, left=np.nan, right=np.nan))

    def best(self) -> int:
        """The index of the point of largest HM; of equals, the one of larger accuracy."""
        return int(np.lexsort((self.accuracy, self.hm.round(12)))[-1])


def stop_at_threshold(traces: Traces, theta: float) -> Ints:
    """Items seen of each sequence when it halts at the first score ≥ θ, or else at its end."""
    if not traces.truth.size:
        return np.zeros(0, np.int64)
    place = np.arange(traces.halt.size)
    first = np.minimum.reduceat(np.where(traces.halt >= theta, place, place.size), traces.offsets[:-1])
    return np.minimum(first - traces.offsets[:-1] + 1, traces.length)


def stop_at_fixed(traces: Traces, n: int) -> Ints:
    """Items seen of each sequence when every one is decided after `n` items, or at its end."""
    return np.minimum(traces.length, max(int(n), 1))


def threshold_curve(traces: Traces, thetas: ArrayLike | None = None) -> Curve:
    """The trade-off over thresholds: those given, or up to 101 that spread evenly over the reachable earliness."""
    scores, curve = _every_threshold(traces)
    if thetas is not None:
        chosen = np.atleast_1d(np.asarray(thetas, np.float64))
        return _points(curve, np.searchsorted(scores, chosen, side="left"), chosen)
    curve = _reachable(curve)
    if curve.setting.size <= MOST_POINTS:
        return curve
    wanted = np.linspace(curve.earliness[0], curve.earliness[-1], MOST_POINTS)
    kept = np.unique(np.searchsorted(curve.earliness, wanted, side="left").clip(max=curve.setting.size - 1))
    return _points(curve, kept, curve.setting[kept])


def dial_curve(traces: Traces, dial: Dial) -> Curve:
    """The trade-off over the points of a dial."""
    late = np.mean(dial.stops / traces.length, axis=1)
    right = np.array([np.mean(traces.decided(stop)[0] == traces.truth) for stop in dial.stops])
    return Curve(np.arange(len(late), dtype=np.float64), late, right, harmonic_means(right, late))


def best_threshold(traces: Traces) -> tuple[float, float]:
    """The θ of largest HM among all that differ, midway between the scores that bound it, and its HM."""
    curve = _reachable(_every_threshold(traces)[1])
    best = curve.best()
    return float(curve.setting[best]), float(curve.hm[best])


def fixed_curve(traces: Traces, ns: ArrayLike | None = None) -> Curve:
    """The trade-off of deciding every sequence after n items; by default n up to the greatest length, ever sparser."""
    _need_sequences(traces)
    chosen = fixed_sizes(traces.length) if ns is None else np.atleast_1d(np.asarray(ns, np.int64))
    length = traces.length
    late = np.array([np.mean(np.minimum(length, max(n, 1)) / length) for n in chosen])
    right = accuracy_by_items(traces, chosen)
    return Curve(chosen.astype(np.float64), late, right, harmonic_means(right, late))


def fixed_sizes(length: Ints) -> Ints:
    """Numbers of items for sequences of these lengths: every one up to 200, then ever sparser up to the greatest."""
    longest = int(length.max())
    sparse = np.geomspace(1, longest, MOST_POINTS).round().astype(np.int64)
    return np.unique(np.append(np.arange(1, min(longest, 200) + 1), sparse))


def best_fixed(traces: Traces) -> tuple[int, float]:
    """The fixed number of items of largest HM, and its HM."""
    curve = fixed_curve(traces)
    best = curve.best()
    return int(curve.setting[best]), float(curve.hm[best])


def accuracy_by_items(traces: Traces, ns: ArrayLike) -> Floats:
    """Accuracy after n items of every sequence, or all of a shorter one."""
    sizes = np.atleast_1d(np.asarray(ns, np.int64))
    return np.array([np.mean(traces.decided(stop_at_fixed(traces, n))[0] == traces.truth) for n in sizes])


def accuracy_at_end(traces: Traces) -> float:
    """Accuracy when every sequence is read to its end."""
    return float(np.mean(traces.decided(traces.length)[0] == traces.truth))


def summarise_stops(
    traces: Traces, n_observed: Ints, n_classes: int, draws: int = 1000, seed: int = 0,
    is_known: NDArray[np.bool_] | None = None,
) -> Summary:  # fmt: skip
    """The headline numbers when sequence s is decided after n_observed[s] items."""
    predicted, _ = traces.decided(n_observed)
    return summarise(
        traces.truth, predicted, n_observed, traces.length, traces.tangle, n_classes, draws, seed, is_known
    )


def _every_threshold(traces: Traces) -> tuple[Floats, Curve]:
    """The curve at every threshold that makes a difference, with the scores that lie between its points.

    Only an item that tops all earlier scores of its sequence can be a stop. As θ rises past its score, the sequence
    moves on to its next such item, or to its end; sorted by score, these moves add up to the whole curve.
    """
    _need_sequences(traces)
    length, first = traces.length, traces.offsets[:-1]
    scores, rank = np.unique(traces.halt, return_inverse=True)
    sequence = np.repeat(np.arange(length.size), length)
    top = np.maximum.accumulate(sequence * scores.size + rank)  # integers: exact, and no maximum crosses a sequence
    stop = np.flatnonzero(np.diff(top, prepend=-1) > 0)
    owner = sequence[stop]
    is_last = np.append(owner[1:] != owner[:-1], True)
    move_to = np.where(is_last, traces.offsets[owner + 1] - 1, np.append(stop[1:], 0))

    is_right = (traces.predicted == traces.truth[sequence]).astype(np.int64)
    gain = np.zeros(scores.size, np.int64)
    np.add.at(gain, rank[stop], is_right[move_to] - is_right[stop])
    wait = np.bincount(rank[stop], (move_to - stop) / length[owner], scores.size)
    matters = wait > 0
    scores, gain, wait = scores[matters], gain[matters], wait[matters]
    right = np.cumsum(np.append(is_right[first].sum(), gain)) / length.size
    late = np.minimum(np.cumsum(np.append(np.sum(1 / length), wait)) / length.size, 1.0)

    low, high = np.append(0.0, scores), np.append(scores, 1.0)
    middle = np.where((low + high) / 2 > low, (low + high) / 2, high)
    if scores.size and scores[-1] >= 1:
        middle[-1] = np.inf  # a sequence with a score of 1 halts at every θ ≤ 1
    return scores, Curve(middle, late, right, harmonic_means(right, late))


def _reachable(curve: Curve) -> Curve:
    """The points that a θ of at most 1 can reach."""
    index = np.flatnonzero(curve.setting <= 1)
    return _points(curve, index, curve.setting[index])


def _points(curve: Curve, index: NDArray[np.intp], setting: Floats) -> Curve:
    return Curve(setting, curve.earliness[index], curve.accuracy[index], curve.hm[index])


def _need_sequences(traces: Traces) -> None:
    if not traces.truth.size:
        raise DataError("there is no labelled sequence, so there is no trade-off to look at")
