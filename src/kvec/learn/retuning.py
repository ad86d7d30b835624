"""Fitting only the trigger of a trained model on new data: temperatures, the way of halting, its operating point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.checkpoint import Trained
from kvec.decide.held import Arrays, some_of
from kvec.decide.operating import Held, OperatingPoint, require_turnable
from kvec.decide.readiness import TRIGGERS, heard
from kvec.decide.targets import COSTS, Target, require_target, with_classes
from kvec.decide.unknown import Unknown, parted
from kvec.learn.settling import FEWEST, readiness_of
from kvec.report.metrics import harmonic_mean
from kvec.words.errors import DataError, SettingError

DIALS = ("hazard", "induction")  # triggers that take a delay cost


@dataclass(frozen=True)
class Tried:
    """How a trigger does on sequences that it was not fitted on."""

    trigger: str
    accuracy: float
    earliness: float
    hm: float
    cost: float | None = None  # of a sequence, where the target says what costs


def retune(model: Trained, held: Arrays, trigger: str, target: Target) -> Trained:
    """The model with a trigger fitted on these sequences, at the point that meets the target (else of best HM)."""
    target, words = require_possible(model, held["labels"], trigger, target)
    readiness = readiness_of(held, trigger)
    held = heard(readiness, held)
    seen = Held.of(held)
    is_another = trigger != model.readiness.trigger  # whose delay costs, if any, mean something else
    now = OperatingPoint(model.threshold, seen.best().delay_cost if is_another else model.delay_cost)
    point = seen.choose(target, now) if target else seen.best()
    unknown = model.unknown.asked(words).settled(held, point)
    return replace(model, readiness=readiness, validation=held, unknown=unknown).turned(point)


def require_possible(
    model: Trained, labels: npt.NDArray[np.integer[Any]], trigger: str | None, target: Target
) -> tuple[Target, Target]:
    """Refuse what no tuning on sequences of these labels, (S, label columns), can give; the target in its parts."""
    require_turnable(model.config)
    target, words = parted(with_classes(target, model.vocabulary.labels[0]))
    if target:
        require_target(target)
    if trigger in set(TRIGGERS) - set(_known(model)):
        raise SettingError(
            "this model learned nothing about halting while it was trained (training.objective=every), so it has no "
            "learned score; --trigger induction or calibrated"
        )
    if trigger == "calibrated" and "delay_cost" in target:
        raise SettingError("the trigger calibrated takes no delay cost; give earliness, accuracy, threshold or costs")
    if (n := int((labels[:, 0] >= 0).sum())) < FEWEST:
        raise DataError(f"{n} labelled sequences are too few to tune on; give {FEWEST} or more")
    model.unknown.asked(words).require_enough(n, "", "there are")
    return target, words


def _known(model: Trained) -> tuple[str, ...]:
    """The triggers that a model can have."""
    return TRIGGERS[1:] if model.config.training.objective == "every" else TRIGGERS


def compare_triggers(model: Trained, held: Arrays, target: Target) -> list[Tried]:
    """Every trigger that reaches this, fitted on one half of the tangles and measured on the other, both ways.

    Where none does, the last says why.
    """
    target, _ = require_possible(model, held["labels"], None, target)
    model = replace(model, unknown=Unknown())
    is_known, is_even = held["labels"][:, 0] >= 0, held["tangle"] % 2 == 0
    if (n := min(int(is_known[is_even].sum()), int(is_known[~is_even].sum()))) < FEWEST:
        raise DataError(
            f"triggers are compared on halves of the tangles, and one half has {n} labelled sequences; give {FEWEST} "
            "or more in each, or name a trigger, such as --trigger induction"
        )
    halves = [(some_of(held, half), some_of(held, ~half)) for half in (is_even, ~is_even)]
    found, why_not = [], None
    for trigger in (each for each in _known(model) if "delay_cost" not in target or each in DIALS):
        try:
            found.append(_tried(model, halves, trigger, target))
        except SettingError as error:  # perhaps another trigger reaches the target
            why_not = error
    if why_not is not None and not found:
        raise why_not
    return found


def best_of(tried: Sequence[Tried], target: Target) -> Tried:
    """The cheapest, the most accurate at an earliness, or the one of best HM, as the target has it."""
    if any(each.cost is not None for each in tried):
        return min(tried, key=lambda each: each.cost or 0.0)
    return max(tried, key=lambda each: each.accuracy if "earliness" in target else each.hm)


def _tried(model: Trained, halves: Sequence[tuple[Arrays, Arrays]], trigger: str, target: Target) -> Tried:
    """A trigger fitted on the first of each two and measured on the second; one that misses the target is refused."""
    results = []
    for fitted, measured in halves:
        turned = retune(model, fitted, trigger, target)
        seen = Held.of(heard(turned.readiness, measured))
        stops = seen.stops(turned.operating_point)
        right, late = float(seen.accuracy(stops)), float(seen.earliness(stops))
        cost = float(seen.cost(stops, target)) if set(target) & set(COSTS) else 0.0
        results.append((right, late, harmonic_mean(right, late), cost))
    right, late, hm, cost = (float(value) for value in np.mean(results, axis=0))
    return Tried(trigger, right, late, hm, cost if set(target) & set(COSTS) else None)
