"""What a stream tells of every item to those who ask: halting scores and class probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kvec.decide.deployed import Deployed
from kvec.tangle.live import Booked, Live

Floats = npt.NDArray[np.float64]


class Listener(Protocol):
    """Someone who hears, while items run, what the network says of them; N items, one row of `said` for each."""

    def heard(self, model: Deployed, booked: Sequence[Booked], said: npt.NDArray[Any]) -> None:
        """Items have run; what they settle is decided after this."""

    def closed(self, live: Live) -> None:
        """A sequence has ended; it is decided by now."""


def halting_scores(model: Deployed, booked: Sequence[Booked], said: npt.NDArray[Any]) -> Floats:
    """(N,) how ready each item's sequence was after it."""
    return model.ready.after(said, _places(booked))


def class_probabilities(model: Deployed, booked: Sequence[Booked], said: npt.NDArray[Any]) -> Floats:
    """(N, classes) how likely each class of the first label column was after each item."""
    logits = said[:, 1 : 1 + len(model.vocabulary.labels[0])]
    return model.readiness.probabilities(0, logits, _places(booked))


def _places(booked: Sequence[Booked]) -> npt.NDArray[np.int64]:
    return np.array([one.position + 1 for one in booked], np.int64)
