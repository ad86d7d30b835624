"""What a trigger is: learned from held-out sequences, it halts others by the class probabilities seen so far.

Letters: S sequences, N items, C classes, M settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from kvec.words.errors import DataError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
SMALLEST = 1e-12  # a probability of float32 may be 0; its logarithm may not be infinite


@dataclass(frozen=True)
class Prefixes:
    """Class probabilities after each of N items of S sequences, one sequence after the other."""

    offsets: Ints  # (S + 1,)
    probabilities: npt.NDArray[np.floating[Any]]  # (N, C)
    truth: Ints  # (S,) class of each sequence; only fitting looks at it

    def __post_init__(self) -> None:
        """Check that the arrays fit together."""
        n_items, n = len(self.probabilities), len(self.truth)
        if self.offsets.shape != (n + 1,) or self.offsets[0] != 0 or self.offsets[-1] != n_items:
            raise ValueError(f"offsets must be {n + 1} numbers from 0 to {n_items}, found {self.offsets}")
        if n and self.length.min() < 1:
            raise ValueError(f"sequence {self.length.argmin()} is empty; every sequence has at least one item")
        if n and not 0 <= self.truth.min() <= self.truth.max() < self.n_classes:
            raise ValueError(f"classes must lie between 0 and {self.n_classes - 1}; leave out unlabelled sequences")

    @property
    def length(self) -> Ints:
        """(S,) how many items each sequence has."""
        return np.diff(self.offsets)

    @property
    def n_classes(self) -> int:
        """C, how many classes there are."""
        return int(self.probabilities.shape[1])

    @property
    def place(self) -> Ints:
        """(N,) how many items of its sequence have been seen with each item."""
        return np.arange(1, len(self.probabilities) + 1) - np.repeat(self.offsets[:-1], self.length)

    def rows(self, n_observed: Ints) -> Ints:
        """(S,) the last item seen of each sequence."""
        return self.offsets[:-1] + n_observed - 1

    def predicted(self, n_observed: Ints) -> Ints:
        """(S,) the class that each sequence gets when it is decided after so many items."""
        best: Ints = self.probabilities[self.rows(n_observed)].argmax(axis=1)
        return best

    def is_wrong(self) -> npt.NDArray[np.bool_]:
        """(N,) whether deciding at an item would be an error."""
        wrong: npt.NDArray[np.bool_] = self.probabilities.argmax(axis=1) != np.repeat(self.truth, self.length)
        return wrong


class Trigger(ABC):
    """A way of halting with one setting that trades items for accuracy."""

    name: ClassVar[str]

    @abstractmethod
    def fit(self, known: Prefixes) -> Self:
        """Learn from held-out sequences; returns itself."""

    @abstractmethod
    def settings(self) -> Floats:
        """(M,) the settings to sweep, from earliest to latest."""

    @abstractmethod
    def sweep(self, prefixes: Prefixes, settings: Floats) -> Ints:
        """(M, S) items seen of each sequence when it is decided, for every setting: from 1 to its length."""

    def stops(self, prefixes: Prefixes, setting: float) -> Ints:
        """(S,) items seen of each sequence when it is decided."""
        stopped: Ints = self.sweep(prefixes, np.array([setting], np.float64))[0]
        return stopped


def logs_of(probabilities: npt.NDArray[np.floating[Any]]) -> Floats:
    """Logarithms of probabilities, all finite."""
    return np.log(np.maximum(probabilities.astype(np.float64), SMALLEST))


def need_sequences(known: Prefixes) -> None:
    """Refuse to learn from nothing."""
    if not len(known.truth):
        raise DataError("there is no held-out sequence to fit a trigger on; give validation data with labels")
