"""A promise and units of decisions, for the tests of those who watch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kvec.decide.drift import reference
from kvec.decide.promise import Promise
from kvec.words.items import Decision, Reason

CLASSES = ("a", "b", "c")
KEYS = 4


def promise(reference: dict[str, str] | None = None, **changes: Any) -> Promise:
    given: dict[str, Any] = {
        "kind": "error", "label": "label", "alpha": 0.1, "confidence": 0.95, "bound": "betting",
        "operating_point": {"threshold": 0.5}, "n_points": 10, "n_passed": 4, "most_keys": KEYS, "n_units": 200,
        "n_sequences": 800, "observed": 0.05, "upper": 0.09, "earliness": 0.4, "block": None,
        "assumption": "like before", "made": "2024-05-01", "model": "hash", "reference": reference,
    }  # fmt: skip
    return Promise(**given | changes)


def units(
    rng: np.random.Generator, n: int, doubt: float = 1.0, patience: float = 1.0, mix: Mapping[str, float] | None = None
) -> list[list[Decision]]:
    """Decisions of n tangles; all keys of one are of the same class and about as sure."""
    shares = list((mix or dict.fromkeys(CLASSES, 1 / len(CLASSES))).values())
    found = []
    for tangle in range(n):
        label = CLASSES[rng.choice(len(CLASSES), p=shares)]
        base = rng.uniform(0.01, 0.2) * doubt
        found.append([
            Decision(
                tangle, key, 0, (label,), (float(np.clip(1 - base * rng.uniform(0.8, 1.2), 0.3, 1)),),
                1 + int(patience * rng.poisson(4)), None, Reason.HALTED,
            )
            for key in range(KEYS)
        ])  # fmt: skip
    return found


def watched(rng: np.random.Generator, n: int = 200, **changes: Any) -> Promise:
    """A promise that knows n calibration units."""
    every = [(t, one) for t, unit in enumerate(units(rng, n)) for one in unit]
    kept = reference(
        np.array([t for t, _ in every]), np.array([one.probability for _, one in every]),
        np.array([one.n_observed for _, one in every]), np.array([CLASSES.index(one.label) for _, one in every]),
        CLASSES,
    )  # fmt: skip
    return promise(kept, **changes)
