"""A strong yardstick: for each n of a grid one classifier of its own, on features of the first n items of a sequence.

After m items a sequence is judged by the classifier of the largest n up to m; at its end, which is known by then, by
that of the smallest n from its length on. Every classifier learns from all training sequences, of shorter ones from
what there is.

Letters: S sequences, N items, C classes, G steps of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.scores import Scores
from kvec.reproduce.features import PrefixFeatures
from kvec.reproduce.learners import LEARNERS, Learner
from kvec.tangle.tangles import Tangles
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.schema import Schema

Ints = npt.NDArray[np.int64]
DENSE = 16  # up to here the grid has every n, then four in an octave
SHARE, FEWEST = 0.05, 20  # of the training sequences that reach the last n
TOLD = (1, 2, 3, 5, 8, 10, 12, 20, 50, 100)  # n that tables tell of, always on the grid


def steps_for(length: Ints) -> Ints:
    """The n of the grid: as far as enough training sequences reach.

    >>> steps_for(np.full(100, 40)).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 28, 32, 40]
    """
    longest = int(length.max())
    octaves = np.outer(2.0 ** np.arange(longest.bit_length()), (1, 1.25, 1.5, 1.75)).astype(np.int64)
    steps = np.unique(np.concatenate([np.arange(1, DENSE + 1), octaves.ravel(), TOLD]))
    reach = (length[:, None] >= steps).sum(axis=0)
    kept: Ints = steps[(reach >= max(FEWEST, SHARE * length.size)) | (steps == 1)]
    return kept


@dataclass(frozen=True)
class PrefixClassifiers:
    """One classifier for each n of the grid."""

    steps: Ints  # (G,)
    learned: tuple[Any, ...]  # (G,) with predict_proba, as scikit-learn has it
    learner: Learner
    schema: Schema
    vocabulary: Vocabulary

    @classmethod
    def fit(
        cls, kind: str, training: Tangles, validation: Tangles, schema: Schema, vocabulary: Vocabulary, seed: int
    ) -> PrefixClassifiers:
        """Learn from training sequences; how long or how strictly, validation says."""
        learner = LEARNERS[kind]
        known, held = (PrefixFeatures(tangles, schema, vocabulary) for tangles in (training, validation))
        steps = steps_for(known.length)
        (who, truth), (held_who, held_truth) = (_labelled(tangles) for tangles in (training, validation))
        learned = []
        for n in steps:
            rows, held_rows = (_rows(learner, features, int(n)) for features in (known, held))
            learned.append(learner.learn(rows[who], truth, held_rows[held_who], held_truth, seed))
        return cls(steps, tuple(learned), learner, schema, vocabulary)

    def score(self, tangles: Tangles) -> Scores:
        """Class probabilities after each item, sequence by sequence; the largest stands for the halting score."""
        features = PrefixFeatures(tangles, self.schema, self.vocabulary)
        n_classes = len(self.vocabulary.labels[0])
        said = np.zeros((len(self.steps), tangles.n_sequences, n_classes), np.float32)
        for i, (n, learned) in enumerate(zip(self.steps, self.learned, strict=True)):
            said[i][:, learned.classes_] = learned.predict_proba(_rows(self.learner, features, int(n)))
        owner = np.repeat(np.arange(tangles.n_sequences), features.length)
        classes = said[self.which(features.length), owner]
        return Scores(tangles.offsets, classes.max(axis=1), (classes,))

    def which(self, length: Ints) -> Ints:
        """(N,) the place on the grid of the classifier that judges each item, sequence by sequence."""
        offsets = np.concatenate([[0], np.cumsum(length)])
        seen = np.arange(offsets[-1]) - np.repeat(offsets[:-1], length) + 1
        place: Ints = np.searchsorted(self.steps, seen, side="right") - 1
        place[offsets[1:] - 1] = np.minimum(np.searchsorted(self.steps, length), len(self.steps) - 1)
        return place


def _labelled(tangles: Tangles) -> tuple[Ints, Ints]:
    """The sequences whose class is known, and their classes."""
    labels = tangles.labels[:, 0].astype(np.int64)
    who = np.flatnonzero(labels >= 0)
    return who, labels[who]


def _rows(learner: Learner, features: PrefixFeatures, n: int) -> Any:
    return features.sparse(n) if learner.is_sparse else features.dense(n)
