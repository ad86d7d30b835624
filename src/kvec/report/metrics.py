"""What a set of decisions is worth: accuracy, macro scores, earliness and HM, with intervals (§V of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kvec.report.text import table
from kvec.words.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MEASURES = ("accuracy", "precision", "recall", "f1", "earliness", "hm")
ABSTAINING = ("coverage", "known_accuracy")  # measures of decisions of which some say that they do not know
NAMES = {"f1": "F1", "hm": "HM", "known_accuracy": "accuracy of these"}
NOTES = {"earliness": "lower is better", "coverage": "decisions that are known; the others count as wrong above"}
_CHUNK = 4_000_000  # resampled tangles held at one time


@dataclass(frozen=True)
class ClassScore:
    """The scores of one class; `earliness` is None where no sequence has the class."""

    precision: float
    recall: float
    f1: float
    support: int  # sequences that have the class
    n_predicted: int  # sequences that were given the class
    earliness: float | None


@dataclass(frozen=True)
class Summary:
    """The headline numbers of an evaluation; each interval holds 95 % of the bootstrap draws over tangles.

    A decision that says that it does not know is wrong in all but `known_accuracy`, and was given no class.
    """

    accuracy: float
    precision: float
    recall: float
    f1: float
    earliness: float  # lower is better
    hm: float
    n_keys: int
    n_tangles: int
    mean_n_observed: float
    intervals: dict[str, tuple[float, float]]
    coverage: float = 1.0  # share of decisions that say that they know
    known_accuracy: float = 0.0  # of these; 0 where there is none

    def __str__(self) -> str:
        """The headline numbers with their intervals, and what they were measured on."""
        rows = []
        for name in (*MEASURES, *(name for name in ABSTAINING if name in self.intervals)):
            low, high = self.intervals.get(name, (None, None))
            between = "" if low is None else f"{low:.4f} – {high:.4f}"
            rows.append((NAMES.get(name, name), f"{getattr(self, name):.4f}", between, NOTES.get(name, "")))
        where = "one tangle, so without intervals" if self.n_tangles == 1 else f"{self.n_tangles:,} tangles"
        ending = f"{self.n_keys:,} sequences in {where}; "
        ending += f"{self.mean_n_observed:.1f} items seen on average"
        return table(rows, ("measure", "value", "95 % interval", ""), right=(1,)) + "\n" + ending

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in (*MEASURES, *ABSTAINING)}
        plain |= {"n_keys": self.n_keys, "n_tangles": self.n_tangles, "mean_n_observed": self.mean_n_observed}
        return plain | {"intervals": {name: list(ends) for name, ends in self.intervals.items()}}


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Share of sequences that received their true class.

    >>> accuracy([0, 1, 1, 2], [0, 1, 2, 2])
    0.75
    """
    return float(np.mean(np.asarray(truth) == np.asarray(predicted)))


def earliness(n_observed: ArrayLike, length: ArrayLike) -> float:
    """Mean over sequences of the share of items that were seen; lower is better.

    >>> earliness([1, 5], [10, 10])
    0.3
    """
    return float(np.mean(np.asarray(n_observed) / np.asarray(length)))


def harmonic_mean(accuracy: float, earliness: float) -> float:
    """HM of accuracy and of the share of items saved; 1.0 is best.

    >>> round(harmonic_mean(accuracy=0.9, earliness=0.1), 3)
    0.9
    """
    saved = 1 - earliness
    return 2 * saved * accuracy / (saved + accuracy) if saved + accuracy else 0.0


def harmonic_means(accuracy: Floats, earliness: Floats) -> Floats:
    """`harmonic_mean` of many pairs."""
    saved = 1 - earliness
    return ratio(2 * saved * accuracy, saved + accuracy)


def area_under_roc(is_true: ArrayLike, score: ArrayLike) -> float:
    """How likely a true case scores higher than another one, ties counting half; NaN without both kinds.

    >>> area_under_roc([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.8])
    0.875
    """
    positive = np.asarray(is_true, bool)
    _, place, count = np.unique(np.asarray(score), return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]  # of equals their mean
    n = int(positive.sum())
    pairs = n * (positive.size - n)
    return float((rank[positive].sum() - n * (n + 1) / 2) / pairs) if pairs else float("nan")


def macro_scores(truth: ArrayLike, predicted: ArrayLike, n_classes: int) -> tuple[float, float, float]:
    """Mean precision, recall and F1 over the classes that occur in truth or prediction, 0 where undefined."""
    precision, recall, f1 = _macro(*_counts(_classes(truth, n_classes), _classes(predicted, n_classes), n_classes))
    return float(precision), float(recall), float(f1)


def confusion_matrix(truth: ArrayLike, predicted: ArrayLike, n_classes: int) -> Ints:
    """How many sequences of each class (row) were given each class (column)."""
    cells = _classes(truth, n_classes) * n_classes + _classes(predicted, n_classes)
    return np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)


def per_class(
    truth: ArrayLike,
    predicted: ArrayLike,
    n_observed: ArrayLike,
    length: ArrayLike,
    n_classes: int,
    is_known: ArrayLike | None = None,
) -> tuple[ClassScore, ...]:
    """The scores of every class, by index."""
    true = _classes(truth, n_classes)
    hits, support, given = _counts(true, _classes(predicted, n_classes), n_classes, is_known)
    late = ratio(np.bincount(true, np.asarray(n_observed) / np.asarray(length), n_classes), support)
    scores = (ratio(hits, given), ratio(hits, support), ratio(2 * hits, support + given))
    return tuple(
        ClassScore(float(p), float(r), float(f), int(s), int(g), float(e) if s else None)
        for p, r, f, s, g, e in zip(*scores, support, given, late, strict=True)
    )


def summarise(
    truth: ArrayLike,
    predicted: ArrayLike,
    n_observed: ArrayLike,
    length: ArrayLike,
    tangle: ArrayLike,
    n_classes: int,
    draws: int = 1000,
    seed: int = 0,
    is_known: ArrayLike | None = None,
) -> Summary:
    """All headline numbers of a set of decisions, one entry per sequence; no intervals without draws, or of one tangle.

    Where some say that they do not know, `is_known` tells which do know.
    """
    if not np.asarray(truth).size:
        raise DataError("there is no sequence to measure; give data with at least one labelled sequence")
    true, given = _classes(truth, n_classes), _classes(predicted, n_classes)
    counts = _counts(true, given, n_classes, is_known)
    n_known = int(counts[2].sum())
    right, late = float(counts[0].sum() / true.size), earliness(n_observed, length)
    scores = (right, *map(float, _macro(*counts)), late, harmonic_mean(right, late))
    point = dict(zip(MEASURES, scores, strict=True))
    point |= {"coverage": n_known / true.size, "known_accuracy": float(counts[0].sum() / max(n_known, 1))}
    n_tangles = int(np.unique(np.asarray(tangle)).size)
    drawn = {}
    if draws and n_tangles > 1:
        drawn = bootstrap(truth, predicted, n_observed, length, tangle, n_classes, draws, seed, is_known)
    return Summary(
        **point,
        n_keys=int(np.asarray(truth).size),
        n_tangles=n_tangles,
        mean_n_observed=float(np.mean(np.asarray(n_observed))),
        intervals={name: interval(values, point[name]) for name, values in drawn.items()},
    )


def bootstrap(
    truth: ArrayLike,
    predicted: ArrayLike,
    n_observed: ArrayLike,
    length: ArrayLike,
    tangle: ArrayLike,
    n_classes: int,
    draws: int = 1000,
    seed: int = 0,
    is_known: ArrayLike | None = None,
) -> dict[str, Floats]:
    """Every measure on `draws` resamples of the tangles with replacement; the same seed draws the same tangles."""
    true, given = _classes(truth, n_classes), _classes(predicted, n_classes)
    known = np.ones(true.size, bool) if is_known is None else np.asarray(is_known, bool)
    names, group = np.unique(np.asarray(tangle), return_inverse=True)
    n = names.size
    right = np.flatnonzero((true == given) & known)
    tables = [  # what a tangle adds to the hits, the support and the predictions of each class
        np.bincount(group[rows] * n_classes + cls, minlength=n * n_classes).reshape(n, n_classes)
        for rows, cls in ((right, true[right]), (slice(None), true), (known, given[known]))
    ]
    late = np.bincount(group, np.asarray(n_observed) / np.asarray(length), n)
    added = np.concatenate([*tables, late[:, None]], axis=1, dtype=np.float64)
    totals = resampled(added, draws, seed)
    hits, support, predictions = (totals[:, i * n_classes : (i + 1) * n_classes] for i in range(3))
    n_keys = support.sum(axis=1)
    share_right, share_seen = hits.sum(axis=1) / n_keys, totals[:, -1] / n_keys
    scores = (share_right, *_macro(hits, support, predictions), share_seen, harmonic_means(share_right, share_seen))
    drawn_measures = dict(zip(MEASURES, scores, strict=True))
    if is_known is not None:
        n_known = predictions.sum(axis=1)
        drawn_measures |= {"coverage": n_known / n_keys, "known_accuracy": ratio(hits.sum(axis=1), n_known)}
    return drawn_measures


def resampled(added: Floats, draws: int, seed: int = 0) -> Floats:
    """(draws, columns) sums of what tangles add, (tangles, columns), over resamples of them with replacement."""
    n = len(added)
    rng = np.random.default_rng(seed)
    totals = np.empty((draws, added.shape[1]))
    rows = max(1, _CHUNK // n)
    for start in range(0, draws, rows):
        size = min(rows, draws - start)
        drawn = rng.integers(0, n, (size, n)) + np.arange(size)[:, None] * n
        times = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)  # each tangle was drawn
        totals[start : start + size] = times.astype(np.float64) @ added
    return totals


def interval(drawn: Floats, point: float) -> tuple[float, float]:
    """The middle 95 % of bootstrap draws, widened where a skewed measure would leave out the point itself."""
    low, high = np.quantile(drawn, (0.025, 0.975))
    return min(float(low), point), max(float(high), point)


def _classes(given: ArrayLike, n_classes: int) -> Ints:
    index = np.asarray(given, np.int64)
    if index.size and not 0 <= index.min() <= index.max() < n_classes:
        raise ValueError(f"classes run from 0 to {n_classes - 1}; found {index.min()} to {index.max()}")
    return index


def _counts(truth: Ints, predicted: Ints, n_classes: int, is_known: ArrayLike | None = None) -> tuple[Ints, Ints, Ints]:
    """Hits, support and predictions of each class; what is not known is given none."""
    support = np.bincount(truth, minlength=n_classes)
    if is_known is not None:
        known = np.asarray(is_known, bool)
        truth, predicted = truth[known], predicted[known]
    hits = np.bincount(truth[truth == predicted], minlength=n_classes)
    return hits, support, np.bincount(predicted, minlength=n_classes)


def _macro(hits: Any, support: Any, given: Any) -> tuple[Any, Any, Any]:
    """Precision, recall and F1 averaged over the last axis, the classes; those that do not occur are left out."""
    n_occurring = np.maximum(np.sum(support + given > 0, axis=-1), 1)
    scores = (ratio(hits, given), ratio(hits, support), ratio(2 * hits, support + given))
    precision, recall, f1 = (score.sum(axis=-1) / n_occurring for score in scores)
    return precision, recall, f1


def ratio(part: Any, whole: Any) -> Floats:
    """Part over whole, 0 where undefined."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    zeros: Floats = np.zeros(np.broadcast_shapes(part.shape, whole.shape))
    np.divide(part, whole, out=zeros, where=whole != 0)
    return zeros
