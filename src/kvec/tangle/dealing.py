"""Tangles whose keys are dealt out into smaller ones, for training: the same items among fewer others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvec.tangle.sessions import Ints, Sequences
from kvec.tangle.tangles import Tangles, gaps_of, numbered

FEW = 8  # sequences of the smallest parts: those of fewer lose what keys of a small tangle tell of each other


def draw_parts(tangle: Ints, rng: np.random.Generator) -> Ints:
    """A part of its tangle for every sequence, given the tangle of each.

    A tangle falls into 1, 2, 4, … parts, each as likely, down to `FEW` sequences a part on average.
    """
    most = np.log2(np.maximum(np.bincount(tangle) / FEW, 1)).astype(np.int64)
    n_parts = 2 ** rng.integers(0, most + 1)
    return rng.integers(0, n_parts[tangle])


def dealt_tangles(tangle: Ints, part: Ints) -> tuple[Ints, Ints]:
    """Which of the dealt tangles each sequence comes to, and the tangle that each of them is from."""
    n_parts = int(part.max(initial=0)) + 1
    found, dealt = np.unique(tangle * n_parts + part, return_inverse=True)
    return dealt, found // n_parts


def deal(tangles: Tangles, part: Ints) -> Tangles:
    """Sequences of one tangle and one part as a tangle of their own, as if no other item had ever come.

    A part does not start anew where it was silent for longer than sequences live, as a stream's tangle would.
    """
    if not part.any():
        return tangles
    old = tangles.sequences
    tangle, parent = dealt_tangles(tangles.tangle_of.astype(np.int64), part)
    order = np.argsort(tangle[old.sequence], kind="stable")  # of items
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    kept = np.argsort(place[old.first])  # of sequences
    number = np.empty(len(kept), np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    sequence = number[old.sequence[order]]
    by_sequence = np.argsort(sequence, kind="stable")
    sequences = Sequences(
        sequence, old.position[order], by_sequence, place[old.first[kept]], place[old.last[kept]], old.number[kept]
    )
    session = tangles.session[order]
    opens = np.diff(session[by_sequence], prepend=-1) != 0
    session[by_sequence] = (np.cumsum(opens) - 1).astype(np.int32)
    tangle = tangle[kept]
    starts = np.searchsorted(tangle[sequence], np.arange(len(parent) + 1))
    match = tangles.match[order]
    time = None if tangles.time is None else tangles.time[order]
    return replace(
        tangles,
        starts=starts,
        sequences=sequences,
        session=session,
        alike=tangles.alike[order],
        match=np.where(match < 0, match, numbered(tangle[sequence], [match.astype(np.int64)])),
        codes=tangles.codes[order],
        numbers=tangles.numbers[order],
        gaps=None if time is None else gaps_of(time, starts, sequences),
        time=time,
        labels=tangles.labels[kept],
        tangle_of=tangle.astype(np.int32),
        given=tangles.given[parent],
        reason=tangles.reason[kept],
        frame=tangles.frame[order],
    )
