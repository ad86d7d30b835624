"""Familiarity as plain loops over validation sequences, compared with the real code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.decide.made_held import made_held

from kvec.decide.held import Arrays
from kvec.decide.operating import OperatingPoint
from kvec.decide.unknown import ENOUGH, FOLDS, Unknown


def slow_strangeness(row: np.ndarray, logs: np.ndarray, truth: np.ndarray) -> float:
    """The squared distance from the nearest class mean, less that from the mean of all, each by its own spread."""
    means = {c: logs[truth == c].mean(axis=0) for c in set(truth.tolist())}
    within = np.array([x - means[c] for x, c in zip(logs, truth.tolist(), strict=True)])
    across = logs - logs.mean(axis=0)

    def spread(apart: np.ndarray) -> np.ndarray:
        found = sum(np.outer(x, x) for x in apart) / len(apart)
        return found + (1e-3 * np.trace(found) / len(found) + 1e-9) * np.eye(len(found))

    def distance(apart: np.ndarray, by: np.ndarray) -> float:
        return float(apart @ np.linalg.solve(by, apart))

    own, whole = spread(within), spread(across)
    return min(distance(row - mean, own) for mean in means.values()) - distance(row - logs.mean(axis=0), whole)


def slow_familiarity(kept: Arrays, theta: float, level: float, row: np.ndarray, n_observed: int) -> float:
    """(1 + validation sequences at least as strange) / (all of them + 1), among those decided after as many items."""
    logs = np.log(np.maximum(kept["classes.0"].astype(np.float64), 1e-12))
    offsets, labels = kept["offsets"].tolist(), kept["labels"][:, 0].tolist()
    sequences = [s for s in range(len(labels)) if labels[s] >= 0]
    stops = {}
    for s in sequences:
        halts = [i for i in range(offsets[s], offsets[s + 1]) if kept["halt"][i] >= theta]
        stops[s] = (halts[0] if halts else offsets[s + 1] - 1) - offsets[s] + 1
    of_octave = {s: stops[s].bit_length() - 1 for s in sequences}
    enough, first, bounds = np.ceil(ENOUGH / level), 0, [0]
    for octave in range(1, max(of_octave.values()) + 1):
        below = sum(first <= o < octave for o in of_octave.values())
        if below >= enough and sum(o >= octave for o in of_octave.values()) >= enough:
            first = octave
            bounds.append(octave)
    bounds.append(100)
    mine = n_observed.bit_length() - 1
    low, high = next((a, b) for a, b in itertools.pairwise(bounds) if a <= mine < b)

    def items(chosen: list[int]) -> tuple[np.ndarray, np.ndarray]:
        rows = [(i, labels[s]) for s in chosen for i in range(offsets[s], offsets[s + 1])]
        return logs[[i for i, _ in rows]], np.array([c for _, c in rows])

    strange = slow_strangeness(np.log(np.maximum(row.astype(np.float64), 1e-12)), *items(sequences))
    n = at_least = 0
    for place, s in enumerate(sequences):
        if low <= of_octave[s] < high:
            others = [o for p, o in enumerate(sequences) if p % FOLDS != place % FOLDS]
            n += 1
            at_least += slow_strangeness(logs[offsets[s] + stops[s] - 1], *items(others)) >= strange
    return (1 + at_least) / (n + 1)


@given(st.integers(0, 50), st.sampled_from([0.3, 0.7, 1.0]), st.sampled_from([0.3, 0.5]))
def test_familiarity_is_a_count(seed: int, theta: float, level: float) -> None:
    kept = made_held(24, seed)
    unknown = Unknown(unknown_below=level).settled(kept, OperatingPoint(theta))
    new = made_held(3, seed + 1000)
    rows, n_observed = new["classes.0"][:3], np.array([1, 3, 40])
    is_known, found = unknown.judged(rows.max(axis=1), rows, n_observed, np.zeros(3, bool))
    assert found is not None
    wanted = [slow_familiarity(kept, theta, level, row, int(n)) for row, n in zip(rows, n_observed, strict=True)]
    assert found.tolist() == pytest.approx(wanted)
    assert is_known.tolist() == [p > level for p in wanted]
