"""How ready a sequence is, as plain loops over single items, beside what streams and tables say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvec.decide.kernel import is_built
from kvec.decide.readiness import Readiness
from kvec.decide.ready import Ready
from kvec.decide.scores import Scores
from kvec.decide.triggers.calibrated import Temperatures
from kvec.decide.triggers.waiting import Waiting

STEPS = np.array([1, 2, 3, 5, 8])
LEAST, MOST = 0.02, 50.0
COSTS = (None, 0.001, 0.02, 0.3, 1.0, 7.7, 50.0, 1000.0)
WAYS = [True, False] if is_built else [False]


def slow_probabilities(logits: npt.NDArray[Any], n: int, temperatures: Temperatures | None) -> list[float]:
    """Softmax; then p^b / sum p^b, where b goes from that of the unsure to that of the sure in this octave of items."""
    powers = [math.exp(float(logit) - float(max(logits))) for logit in logits]
    shares = [power / sum(powers) for power in powers]
    if temperatures is not None:
        octave = 0
        while 2 ** (octave + 1) <= n and octave + 1 < len(temperatures.sharpness):
            octave += 1
        unsure, sure = temperatures.sharpness[octave]
        least = 1 / len(shares)
        how_sure = (max(shares) - least) / max(1 - least, 1e-12)
        beta = (1 - how_sure) * unsure + how_sure * sure
        powers = [max(share, 1e-12) ** beta for share in shares]
        shares = [power / sum(powers) for power in powers]
    return [float(np.float32(share)) for share in shares]


def slow_features(shares: list[float]) -> list[float]:
    first, second = max(shares), sorted(shares)[-2] if len(shares) > 1 else max(shares)
    lead = first - second
    doubt = -sum(p * math.log(max(p, 1e-12)) for p in shares)
    return [*shares, *(p**2 for p in shares), first, first**3, lead, lead**2, lead**3, doubt]


def slow_score(logits: npt.NDArray[Any], n: int, readiness: Readiness, delay_cost: float | None) -> float:
    """What waiting loses is linear in the features at each knot; between two knots, by the logarithm of the cost."""
    shares = slow_probabilities(logits, n, readiness.temperatures[0] if readiness.temperatures else None)
    if readiness.waiting is None:
        return max(shares)
    n = min(n, max(readiness.waiting.steps))
    if n not in readiness.waiting.steps:
        return 0.0
    weights = readiness.waiting.weights[list(readiness.waiting.steps).index(n)]
    cost = min(max(LEAST if delay_cost is None else delay_cost, LEAST), MOST)
    logit = 0.0
    for knot, (*slope, level) in enumerate(weights):
        place = math.log(cost / LEAST) / math.log(MOST / LEAST) * (len(weights) - 1)
        share = max(1 - abs(place - knot), 0.0)
        logit += share * (level + sum(w * f for w, f in zip(slope, slow_features(shares), strict=True)))
    return 1 / (1 + math.exp(-logit))


def made(n_classes: int, n_knots: int, n_octaves: int, seed: int = 0) -> Readiness:
    rng = np.random.default_rng(seed)
    tempered = (Temperatures(rng.uniform(0.3, 2, (n_octaves, 2))),) if n_octaves else ()
    weights = rng.normal(0, 1, (len(STEPS), n_knots, 2 * n_classes + 7)).astype(np.float32)
    return Readiness(tempered, "induction", Waiting(STEPS, weights)) if n_knots else Readiness(tempered, "calibrated")


def said_of(lengths: npt.NDArray[np.int64], n_classes: int, scale: float = 3.0) -> npt.NDArray[np.float32]:
    """Rows of outputs: the halting logit, those of the classes, and those of another label column."""
    return np.random.default_rng(1).normal(0, scale, (int(lengths.sum()), 1 + n_classes + 2)).astype(np.float32)


@pytest.mark.parametrize(
    ("n_classes", "n_knots", "n_octaves"), [(1, 3, 2), (2, 1, 0), (2, 17, 3), (5, 4, 1), (3, 0, 2)]
)
def test_streams_and_tables_are_ready_by_the_definition(n_classes: int, n_knots: int, n_octaves: int) -> None:
    readiness, lengths = made(n_classes, n_knots, n_octaves), np.array([1, 4, 12, 7])
    said, place = said_of(lengths, n_classes), np.concatenate([np.arange(1, n + 1) for n in lengths])
    logits = said[:, 1 : 1 + n_classes]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    whole = Scores(np.cumsum([0, *lengths]), np.zeros(len(said), np.float32), (shares,))
    for cost in COSTS:
        expected = [slow_score(row, int(n), readiness, cost) for row, n in zip(logits, place, strict=True)]
        table = readiness.applied(whole, cost)
        assert table.halt == pytest.approx(expected, abs=1e-5), cost
        for use_c in WAYS:
            ready = Ready(readiness, n_classes, cost, use_c)
            found = ready.after(said, place)
            assert found == pytest.approx(expected, abs=1e-6), (cost, use_c)
            assert (found == found.astype(np.float32)).all(), "rounded as tables round"
            one_by_one = [float(ready.after(said[i : i + 1], place[i : i + 1])[0]) for i in range(len(said))]
            assert one_by_one == pytest.approx(found.tolist(), abs=1e-6)
            assert ready.after(said[:0], place[:0]).shape == (0,)


@pytest.mark.parametrize("use_c", WAYS)
def test_both_say_the_same_where_networks_and_costs_are_extreme(use_c: bool) -> None:
    readiness, lengths = made(3, 17, 3), np.array([9])
    readiness.waiting.weights[2] *= 1e3  # type: ignore[union-attr]
    said, place = said_of(lengths, 3, scale=60.0), np.arange(1, 10)
    for cost in COSTS:
        found = Ready(readiness, 3, cost, use_c).after(said, place)
        expected = Ready(readiness, 3, cost, use_c=False).after(said, place)
        assert found == pytest.approx(expected, abs=1e-6)
        assert (found >= 0).all() and (found <= 1).all()


@pytest.mark.parametrize("use_c", WAYS)
@pytest.mark.parametrize("seed", range(5))
def test_where_waiting_neither_gains_nor_loses_both_halt(use_c: bool, seed: int) -> None:
    """A logit of exactly 0 is a score of exactly 0.5, the policy's own word."""
    readiness = made(4, 17, 2, seed)
    readiness.waiting.weights[:] = 0  # type: ignore[union-attr]
    said = said_of(np.array([3]), 4)
    assert Ready(readiness, 4, 0.7, use_c).after(said, np.arange(1, 4)).tolist() == [0.5] * 3
