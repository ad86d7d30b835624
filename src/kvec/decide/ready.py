"""How ready sequences are after arriving items: `Readiness` for single items of many sequences, in C where it can be.

Letters: N items, C classes, P knots.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.dial import LEAST, halting_scores, mixture
from kvec.decide.kernel import LIBRARY, is_built
from kvec.decide.readiness import Floats, Ints, Readiness
from kvec.words.errors import ModelError


class Ready:
    """The trigger of a model whose dial stands at a delay cost."""

    def __init__(self, readiness: Readiness, n_classes: int, delay_cost: float | None, use_c: bool = is_built) -> None:
        self.readiness, self.n_classes = readiness, n_classes
        self.delay_cost = LEAST if delay_cost is None else delay_cost
        if not readiness.is_for(n_classes):
            raise ModelError("what halts does not have the sizes that the model's classes give it")
        self._c = _Compiled(self) if use_c and readiness.trigger != "hazard" else None

    def after(self, said: npt.NDArray[Any], n_observed: Ints) -> Floats:
        """(N,) how ready sequences are, by (N, outputs) rows of what the heads say after so many items of each."""
        if self.readiness.trigger == "hazard":
            return hazards(said[:, 0])
        logits = said[:, 1 : 1 + self.n_classes]
        if self._c is not None:
            return self._c.after(logits, n_observed)
        shares = self.readiness.probabilities(0, logits, n_observed).astype(np.float32)  # as tables round them
        found = shares.max(axis=1)
        if self.readiness.waiting is not None:
            found = halting_scores(self.readiness.waiting.knots(shares, n_observed), self.delay_cost)
        scores: Floats = found.astype(np.float64)
        return scores


class _Compiled:
    """The loop in C, and the arrays as it likes them."""

    def __init__(self, ready: Ready) -> None:
        self.n_classes = ready.n_classes
        tempered, waiting = ready.readiness.temperatures[:1], ready.readiness.waiting
        self._sharpness = np.ascontiguousarray(tempered[0].sharpness if tempered else np.zeros((0, 2)), np.float64)
        self._weights: Floats | None = None
        self._row, self._dial = np.zeros(0, np.int32), np.zeros(0, np.float32)
        if waiting is not None:
            dial = mixture(ready.delay_cost, waiting.weights.shape[1])[0].astype(np.float32)
            counts = np.flatnonzero(dial)  # two at the most
            self._row, self._dial = waiting.row, dial[counts]
            self._weights = np.ascontiguousarray(waiting.weights[:, counts], np.float64)

    def after(self, logits: npt.NDArray[Any], n_observed: Ints) -> Floats:
        """(N,) how ready sequences are."""
        assert LIBRARY is not None
        given = np.ascontiguousarray(logits, np.float64)
        seen = np.ascontiguousarray(n_observed, np.int64)
        room, out = np.empty(self.n_classes), np.empty(len(given))  # not shared: streams may run in several threads
        LIBRARY.kvec_ready(
            _long(len(given)), _long(self.n_classes), _at(given), _at(seen), _long(len(self._sharpness)),
            _at(self._sharpness), _long(len(self._row)), _at(self._row), _long(len(self._dial)), _at(self._weights),
            _at(self._dial), _at(room), _at(out),
        )  # fmt: skip
        return out


def hazards(logits: npt.NDArray[Any]) -> Floats:
    """(N,) the halting scores of logits, rounded as batch evaluation rounds them."""
    bounded = np.maximum(logits, -80)  # lest e^x be too large for single precision
    scores: Floats = np.where(logits > -80, 1 / (1 + np.exp(-bounded)), 0).astype(np.float64)
    return scores


def _at(array: npt.NDArray[Any] | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


_long = ctypes.c_int64
