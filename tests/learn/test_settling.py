"""What halts after training: fitted on held-out sequences, as the objective and their number have it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.made_held import made_held

from kvec.decide.dial import halting_scores
from kvec.decide.held import Arrays, prefixes_of
from kvec.decide.operating import Held, OperatingPoint
from kvec.learn.settling import FEWEST, settle, traces_of
from kvec.learn.validating import unseen
from kvec.report.curves import best_threshold
from kvec.words.config import Config
from kvec.words.errors import DataError


def config_of(*settings: str) -> Config:
    return Config().override(settings)


def labelled(n: int, among: int = 60) -> Arrays:
    """Held-out sequences of which n have a label."""
    held = made_held(among, 0)
    return held | {"labels": np.where(np.arange(among)[:, None] < n, held["labels"], -1)}


def test_induction_turns_what_learned_to_tell() -> None:
    held = labelled(FEWEST)
    settled = settle(held, Config())
    assert settled.readiness.trigger == "induction" and settled.readiness.waiting is not None
    assert settled.point == Held.of(settled.held).best() and settled.point.delay_cost is not None
    turned = halting_scores(settled.held["knots"], settled.point.delay_cost)
    np.testing.assert_array_equal(settled.held["halt"], turned)
    assert "knots" not in held, "what was given stays"


def test_with_few_sequences_the_surest_class_halts() -> None:
    settled = settle(labelled(FEWEST - 1), Config())
    assert settled.readiness.trigger == "calibrated" and settled.point.delay_cost is None
    shares = settled.readiness.temperatures[0].apply(made_held(60, 0)["classes.0"], prefixes_of(made_held(60, 0)).place)
    np.testing.assert_allclose(settled.held["halt"], shares.max(axis=1), rtol=1e-6)


@pytest.mark.parametrize("n", [FEWEST, FEWEST - 1])
def test_a_threshold_that_is_given_stays(n: int) -> None:
    free, fixed = settle(labelled(n), Config()), settle(labelled(n), config_of("deciding.threshold=0.3"))
    assert fixed.point == Held.of(free.held).best(0.3) and fixed.point.threshold == 0.3


@pytest.mark.parametrize("objective", ["expected", "paper"])
def test_a_policy_that_was_learned_halts(objective: str) -> None:
    held = labelled(60)
    settled = settle(held, config_of(f"training.objective={objective}"))
    assert settled.readiness.trigger == "hazard" and settled.held is held
    assert settled.point == OperatingPoint(best_threshold(traces_of(held))[0])
    knots = config_of("training.objective=expected", "encoder.knots=3", "deciding.threshold=0.5")
    assert settle(held, knots).point == OperatingPoint(0.5, knots.training.delay_cost)


@pytest.mark.parametrize("objective", ["every", "expected"])
def test_without_labels_nothing_says_where_to_halt(objective: str) -> None:
    with pytest.raises(DataError, match="no validation sequence has a label"):
        settle(labelled(0), config_of(f"training.objective={objective}"))


@pytest.mark.parametrize(
    ("lengths", "ends", "counted"), [("early", 0.2, "none"), ("even", 0.2, "balanced"), ("early", 0.0, "none")]
)
def test_what_is_lost_on_unseen_sequences(lengths: str, ends: float, counted: str) -> None:
    config = config_of(f"training.lengths={lengths}", f"training.ends={ends}", f"training.class_weights={counted}")
    held = labelled(45)
    settled = settle(held, config)
    truth = held["labels"][:45, 0].tolist()
    (temperatures,) = settled.readiness.temperatures
    total = 0.0
    for s in range(45):
        loss = weights = 0.0
        for n, row in enumerate(held["classes.0"][held["offsets"][s] : held["offsets"][s + 1]], 1):
            share = temperatures.apply(row[None], np.array([n]))[0, held["labels"][s, 0]]
            weight = 1 / n if lengths == "early" else 1.0
            loss, weights = loss - weight * np.log(share), weights + weight
        balance = 45 / truth.count(truth[s]) / len(set(truth)) if counted == "balanced" else 1.0
        total += balance * ((1 - ends) * loss / weights - ends * np.log(share))
    assert unseen(settled, config) == pytest.approx(total / 45)
