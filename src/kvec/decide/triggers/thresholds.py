"""Triggers that halt when a score reaches a threshold, and the one that counts items (SRN-Confidence, SRN-Fixed)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kvec.decide.reaching import first_reached, records
from kvec.decide.triggers.base import SMALLEST, Floats, Ints, Prefixes, Trigger, logs_of, need_sequences

N_SETTINGS = 60
CHUNK = 1 << 16  # items scored at one time


class Fixed(Trigger):
    """Halts after τ items, whatever they say."""

    name = "fixed"
    longest: int  # held-out sequence

    def fit(self, known: Prefixes) -> Self:
        """Learn how far τ may go."""
        need_sequences(known)
        self.longest = int(known.length.max())
        return self

    def settings(self) -> Floats:
        """Values of τ up to the longest held-out sequence, ever sparser."""
        return np.unique(np.geomspace(1, self.longest, N_SETTINGS).round())

    def sweep(self, prefixes: Prefixes, settings: Floats) -> Ints:
        """τ items, or all of a shorter sequence."""
        return np.minimum(prefixes.length, np.maximum(settings.astype(np.int64), 1)[:, None])


class Threshold(Trigger):
    """Halts at the first item whose score reaches the setting."""

    thresholds: Floats

    def fit(self, known: Prefixes) -> Self:
        """Learn which thresholds spread over the earliness that can be reached."""
        need_sequences(known)
        self.learn(known)
        self.thresholds = spread_thresholds(known.offsets, self.score(known), N_SETTINGS)
        return self

    @abstractmethod
    def learn(self, known: Prefixes) -> None:
        """Learn what the score needs."""

    @abstractmethod
    def readiness(self, probabilities: npt.NDArray[np.floating[Any]], place: Ints) -> Floats:
        """(N,) the score of items with these probabilities that are the `place`-th of their sequences."""

    def score(self, prefixes: Prefixes) -> Floats:
        """(N,) how ready each item makes its sequence."""
        place = prefixes.place
        found = np.empty(place.size)
        for start in range(0, place.size, CHUNK):
            part = slice(start, start + CHUNK)
            found[part] = self.readiness(prefixes.probabilities[part], place[part])
        return found

    def settings(self) -> Floats:
        """Thresholds from low to high."""
        return self.thresholds

    def sweep(self, prefixes: Prefixes, settings: Floats) -> Ints:
        """The first item whose score is no less than the threshold, or the last."""
        score = self.score(prefixes)
        stopped = np.empty((len(settings), len(prefixes.truth)), np.int64)
        for row, threshold in zip(stopped, settings, strict=True):
            row[:] = first_reached(prefixes.offsets, score, float(threshold))
        return np.where(stopped > 0, stopped, prefixes.length)


class Confidence(Threshold):
    """Halts once the largest class probability, as the network says it, reaches μ."""

    name = "confidence"

    def learn(self, known: Prefixes) -> None:
        """Nothing: the network is believed."""

    def readiness(self, probabilities: npt.NDArray[np.floating[Any]], place: Ints) -> Floats:
        """The largest probability."""
        largest: Floats = probabilities.max(axis=1).astype(np.float64)
        return largest


class Sprt(Threshold):
    """Halts once the class to be decided leads its strongest rival by a margin of log-likelihood.

    After Baum and Veeravalli's sequential test of several hypotheses. By Bayes, the likelihood of all items seen so far
    under class k is, up to a factor common to all classes, p_k / π_k: the network's posterior over the share of the
    class among held-out sequences. Compared with the setting is log(p_k / π_k) − max over j ≠ k of log(p_j / π_j),
    where k is the class of largest p, the one that would be decided. Where posteriors are exact, a margin of A bounds
    the chance of deciding k when it is j by about e^−A.
    """

    name = "sprt"
    log_prior: Floats  # (C,)

    def learn(self, known: Prefixes) -> None:
        """Learn the share of each class; one sequence more of each, lest any be zero."""
        counts = np.bincount(known.truth, minlength=known.n_classes) + 1
        self.log_prior = np.log(counts / counts.sum())

    def readiness(self, probabilities: npt.NDArray[np.floating[Any]], place: Ints) -> Floats:
        """The margin, in nats."""
        likelihood = logs_of(probabilities) - self.log_prior
        rows, best = np.arange(len(likelihood)), probabilities.argmax(axis=1)
        leader = likelihood[rows, best]
        likelihood[rows, best] = -np.inf
        rival = np.maximum(likelihood.max(axis=1), np.log(SMALLEST))  # with a single class there is none
        margin: Floats = leader - rival
        return margin


def spread_thresholds(offsets: Ints, score: Floats, n: int) -> Floats:
    """Up to n scores that, as thresholds, part the reachable mean earliness by even ratios: early points lie close.

    Only an item that tops all earlier scores of its sequence can be a stop; a threshold beyond its score moves the
    sequence on to the next such item, or to its end. Sorted by score, these moves add up to the earliness.
    """
    length = np.diff(offsets)
    owner = np.repeat(np.arange(length.size), length)
    values, rank = np.unique(score, return_inverse=True)
    record = records(offsets, rank)
    is_last = np.append(np.diff(owner[record]) > 0, True)
    move_to = np.where(is_last, offsets[owner[record] + 1] - 1, np.append(record[1:], 0))
    moves = np.bincount(rank[record], (move_to - record) / length[owner[record]], values.size)
    late = np.sum(1 / length) + np.cumsum(moves) - moves  # when items of this very score halt
    wanted = np.geomspace(late[0], late[-1], n)
    return values[np.unique(np.searchsorted(late, wanted * (1 - 1e-12)))]
