"""What the first n items of sequences say, as tables for classifiers that are no networks.

Letters: S sequences, N items, n items seen of each sequence, all of a shorter one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.reproduce.learners import need_learner
from kvec.tangle.tangles import Tangles
from kvec.tangle.vocabulary import FIRST_KNOWN, FieldVocabulary, Vocabulary
from kvec.words.schema import Schema

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
FEW = 8  # known values of a field at the most for which items are counted one by one
POSITIONS = 32  # items at the beginning that are told one by one
NEWEST = 4  # items at the end that are, where there are more than those


class PrefixFeatures:
    """The items of sequences, ready to be summed up for any n; nothing of another key is in it."""

    def __init__(self, tangles: Tangles, schema: Schema, vocabulary: Vocabulary) -> None:
        self.tangles, self.schema, self.vocabulary = tangles, schema, vocabulary
        self.sequence = tangles.sequences.sequence.astype(np.int64)
        self.position = tangles.sequences.position.astype(np.int64)
        self.length = tangles.sequences.length.astype(np.int64)

    @cached_property
    def numbers(self) -> Floats:
        """(N, F) every value as a number, names by their codes; then the time since the item before, if known."""
        columns = []
        for field in self.vocabulary.fields:
            column = self.tangles.frame[f"value.{field.name}"]
            if column.dtype.is_numeric():
                columns.append(column.cast(float).fill_null(np.nan).to_numpy())
            else:
                columns.append(self.codes(field).astype(np.float64))
        if (time := self.tangles.time) is not None:
            previous = self.tangles.previous
            columns.append(np.where(previous >= 0, time - time[previous], np.nan))
        return np.column_stack(columns)

    @cached_property
    def few(self) -> list[FieldVocabulary]:
        """Fields of so few values that each counts by itself, such as directions."""
        return [field for field in self.vocabulary.coded if 0 < len(field.values) <= FEW]

    def codes(self, field: FieldVocabulary) -> Ints:
        """(N,) the code of each item's value of an embedded field."""
        return self.tangles.codes[:, self.vocabulary.first_code(field.name)].astype(np.int64)

    def dense(self, n: int) -> Floats:
        """(S, features): values one by one; counts, sums and extremes of all, and for each value of fields of few."""
        seen = self.position < n
        n_seen = np.minimum(self.length, n)
        parts = [
            n_seen[:, None].astype(np.float64),
            *(self._at(self.position, place) for place in range(min(n, POSITIONS))),
        ]
        if n > POSITIONS:
            from_end = n_seen[self.sequence] - 1 - self.position
            parts += [self._at(from_end, place) for place in range(NEWEST)]
        parts += [self._changes(seen), self._summed(seen)]
        for field in self.few:
            codes = self.codes(field)
            parts += [self._summed(seen & (codes == FIRST_KNOWN + i)) for i in range(len(field.values))]
        return np.concatenate(parts, axis=1)

    def sparse(self, n: int) -> Any:
        """(S, values) a sparse matrix: which values occur, and of fields that are matched, with which of few."""
        columns, start = [], 0
        for field in self.vocabulary.coded:
            columns.append(self.codes(field) + start)
            start += field.sizes[0]
        for field in self.vocabulary.coded:
            for other in self.few if field.name in self.schema.match_names else ():
                if other != field:
                    columns.append(self.codes(field) * other.sizes[0] + self.codes(other) + start)
                    start += field.sizes[0] * other.sizes[0]
        seen = self.position < n
        rows = np.tile(self.sequence[seen], len(columns)).astype(np.int32)
        held = np.concatenate([column[seen] for column in columns]).astype(np.int32)
        matrix = need_learner("scipy.sparse").csr_array(
            (np.ones(len(rows)), (rows, held)), shape=(len(self.length), start)
        )
        matrix.data[:] = 1.0  # whether a value occurs, not how often
        return matrix

    def _at(self, places: Ints, place: int) -> Floats:
        """(S, F) the numbers of the item at a place of each sequence; NaN where there is none."""
        rows = np.flatnonzero(places == place)
        found = np.full((len(self.length), self.numbers.shape[1]), np.nan)
        found[self.sequence[rows]] = self.numbers[rows]
        return found

    def _changes(self, seen: npt.NDArray[np.bool_]) -> Floats:
        """(S, 1) how many sessions have begun."""
        session, previous = self.tangles.session, self.tangles.previous
        begins = seen & ((previous < 0) | (session != session[previous]))
        return np.bincount(self.sequence[begins], minlength=len(self.length))[:, None].astype(np.float64)

    def _summed(self, chosen: npt.NDArray[np.bool_]) -> Floats:
        """(S, 1 + 4 F) how many items are chosen, and of their numbers the sum, the mean, the least and the most."""
        rows = np.flatnonzero(chosen)
        owner, size = self.sequence[rows], len(self.length)
        count: Floats = np.bincount(owner, minlength=size).astype(np.float64)
        parts: list[Floats] = [count]
        for column in self.numbers[rows].T:
            total = np.bincount(owner, np.nan_to_num(column), minlength=size).astype(np.float64)
            least, most = np.full(size, np.nan), np.full(size, np.nan)
            np.fmin.at(least, owner, column)
            np.fmax.at(most, owner, column)
            parts += [total, total / np.maximum(count, 1), least, most]
        return np.stack(parts, axis=1)
