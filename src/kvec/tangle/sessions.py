"""Sequences and sessions of an arranged table, as whole columns (§III, §IV-B)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sequences:
    """The sequences of an arranged table, numbered by first arrival, so that those of one tangle are neighbours."""

    sequence: npt.NDArray[np.int32]  # (N,) the sequence of each item
    position: npt.NDArray[np.int32]  # (N,) index of each item in its sequence
    by_sequence: Ints  # (N,) item indices, sequence by sequence, each in order of arrival
    first: Ints  # (S,) the first item of each sequence
    last: Ints  # (S,) its last item
    number: npt.NDArray[np.int32]  # (S,) 0 for the key's first sequence in the tangle

    @property
    def length(self) -> npt.NDArray[np.int32]:
        """(S,) items of each sequence."""
        return self.position[self.last] + 1


def find_sequences(
    tangle: Ints, key: Ints, time: Floats | None = None, is_end: npt.NDArray[np.bool_] | None = None,
    expiry: float | None = None,
) -> Sequences:  # fmt: skip
    """Find the sequences of items in order of arrival; an end mark or an idle time over `expiry` starts the next one.

    >>> found = find_sequences(np.array([0, 0, 0, 0]), np.array([7, 8, 7, 7]), is_end=np.array([0, 0, 1, 0], bool))
    >>> found.sequence.tolist(), found.position.tolist(), found.number.tolist()
    ([0, 1, 0, 2], [0, 0, 1, 0], [0, 0, 1])
    """
    n = len(tangle)
    owner = tangle.astype(np.int64) * (int(key.max(initial=0)) + 1) + key
    order = np.argsort(owner, kind="stable")
    opens_key = _changes(owner[order])
    opens = opens_key.copy()
    if is_end is not None:
        opens[1:] |= is_end[order[:-1]]
    if expiry is not None and time is not None:
        opens[1:] |= np.diff(time[order]) > expiry
    starts = np.flatnonzero(opens)
    by_arrival = np.argsort(order[starts], kind="stable")  # number sequences by their first item
    rank = np.empty(len(starts), np.int32)
    rank[by_arrival] = np.arange(len(starts), dtype=np.int32)
    run = np.cumsum(opens) - 1
    sequence = np.empty(n, np.int32)
    sequence[order] = rank[run]
    position = np.empty(n, np.int32)
    position[order] = np.arange(n) - starts[run]
    key_start = np.maximum.accumulate(np.where(opens_key, run, 0)) if n else run
    ends = np.append(starts, n)[1:] - 1
    by_sequence = np.argsort(sequence, kind="stable")
    return Sequences(
        sequence, position, by_sequence,
        first=order[starts][by_arrival], last=order[ends][by_arrival],
        number=(run - key_start)[starts][by_arrival].astype(np.int32),
    )  # fmt: skip


def find_sessions(
    sequences: Sequences, fields: list[Ints], time: Floats | None = None, gap: float | None = None
) -> npt.NDArray[np.int32]:
    """The session of each item: a run of one sequence that agrees in `fields` and has no gap longer than `gap`.

    Sessions are numbered sequence by sequence, so that those of one tangle are neighbours too.
    """
    order = sequences.by_sequence
    opens = _changes(sequences.sequence[order])
    for field in fields:
        opens |= _changes(field[order])
    if gap is not None and time is not None:
        opens[1:] |= np.diff(time[order]) > gap
    session = np.empty(len(order), np.int32)
    session[order] = np.cumsum(opens) - 1
    return session


def _changes(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Whether each value differs from the one before; the first always does."""
    changed = np.ones(len(values), bool)
    changed[1:] = values[1:] != values[:-1]
    return changed
