"""The numbers of items at which a trigger weighs waiting: log-spaced, as far as enough held-out sequences reach."""

from __future__ import annotations

import numpy as np

from kvec.decide.triggers.base import Floats, Ints, Prefixes

FEWEST = 20  # held-out sequences that reach a step
SHARE = 0.05  # of all of them that reach it


def log_steps(length: Ints) -> Ints:
    """1, 2, 3 … items, eight in an octave, while 20 sequences and a twentieth of all are as long; always 1.

    >>> log_steps(np.repeat([30, 99], [100, 5])).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30]
    """
    octaves = 2.0 ** np.arange(int(length.max()).bit_length())
    steps = np.unique(np.outer(octaves, 1 + np.arange(8) / 8).astype(np.int64))
    reach = (length[:, None] >= steps).sum(axis=0)
    kept: Ints = steps[(reach >= max(FEWEST, SHARE * length.size)) | (steps == 1)]
    return kept


def alive(prefixes: Prefixes, step: int) -> tuple[Ints, Ints]:
    """The items that are the `step`-th of their sequences, and these sequences."""
    who = np.flatnonzero(prefixes.length >= step)
    return prefixes.offsets[who] + step - 1, who


def costs_to_sweep(typical: float) -> Floats:
    """Costs of waiting for a whole typical length, in errors, from one error per item to next to nothing, and nothing.

    Where waiting costs nothing, every sequence is read to its end.
    """
    return np.append(np.geomspace(typical, 1e-2, 40), 0.0)
