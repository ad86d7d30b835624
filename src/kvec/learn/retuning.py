"""Fitting only the trigger of a trained model on new data: temperatures, the way of halting, its operating point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvec.decide.checkpoint import Trained
from kvec.decide.held import Arrays, prefixes_of, scores_of, some_of
from kvec.decide.operating import OWN_WORD, REACH, Held, OperatingPoint, require_turnable
from kvec.decide.readiness import TRIGGERS, Readiness
from kvec.decide.targets import COSTS, Target, require_target, with_classes
from kvec.decide.triggers.calibrated import Temperatures
from kvec.decide.triggers.calimera import Calimera
from kvec.decide.unknown import Unknown, parted
from kvec.learn.choosing import trigger_curve
from kvec.report.metrics import harmonic_mean
from kvec.words.errors import DataError, SettingError

DOUBT = 10.0  # sequences that speak for the network's own word, beside those that are held out
FEWEST = 40  # labelled sequences; with fewer a trigger learns noise


@dataclass(frozen=True)
class Tried:
    """How a trigger does on sequences that it was not fitted on."""

    trigger: str
    accuracy: float
    earliness: float
    hm: float
    cost: float | None = None  # of a sequence, where the target says what costs


def temperatures(held: Arrays) -> tuple[Temperatures, ...]:
    """What makes the class probabilities of each label column true to their word on these sequences."""
    n_columns = held["labels"].shape[1]
    return tuple(Temperatures.fit(prefixes_of(held, column), DOUBT) for column in range(n_columns))


def retune(model: Trained, held: Arrays, trigger: str, target: Target) -> Trained:
    """The model with a trigger fitted on these sequences, at the point that meets the target (else of best HM)."""
    require_turnable(model.config)
    target, words = parted(with_classes(target, model.vocabulary.labels[0]))
    if target:
        require_target(target)
    if why_not := _unusable(trigger, target):
        raise SettingError(why_not)
    if (n := int((held["labels"][:, 0] >= 0).sum())) < FEWEST:
        raise DataError(f"{n} labelled sequences are too few to tune on; give {FEWEST} or more")
    readiness = Readiness(temperatures(held), trigger)
    if trigger == "induction":
        readiness, target = _induced(readiness, held, target), {"threshold": OWN_WORD}
    held = _heard(readiness, held)
    seen = Held.of(held)
    stands = model.config.training.delay_cost if model.delay_cost is None else model.delay_cost
    now = OperatingPoint(model.threshold, None if seen.knots is None else stands)
    point = seen.choose(target, now) if target else seen.best()
    return replace(
        model.turned(point), readiness=readiness, validation=held,
        unknown=model.unknown.asked(words).settled(held, point),
    )  # fmt: skip


def compare_triggers(model: Trained, held: Arrays, target: Target) -> list[Tried]:
    """Every trigger that reaches this, fitted on one half of the tangles and measured on the other, both ways.

    Where none does, the last says why.
    """
    model, (target, _) = replace(model, unknown=Unknown()), parted(with_classes(target, model.vocabulary.labels[0]))
    is_known, is_even = held["labels"][:, 0] >= 0, held["tangle"] % 2 == 0
    if (n := min(int(is_known[is_even].sum()), int(is_known[~is_even].sum()))) < FEWEST:
        raise DataError(
            f"triggers are compared on halves of the tangles, and one half has {n} labelled sequences; give {FEWEST} "
            "or more in each, or name a trigger, such as --trigger hazard"
        )
    halves = [(some_of(held, half), some_of(held, ~half)) for half in (is_even, ~is_even)]
    found, why_not = [], None
    for trigger in (each for each in TRIGGERS if not _unusable(each, target)):
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
        _require_near(turned, target)
        seen = Held.of(_heard(turned.readiness, measured))
        stops = seen.stops(turned.operating_point)
        right, late = float(seen.accuracy(stops)), float(seen.earliness(stops))
        cost = float(seen.cost(stops, target)) if set(target) & set(COSTS) else 0.0
        results.append((right, late, harmonic_mean(right, late), cost))
    right, late, hm, cost = (float(value) for value in np.mean(results, axis=0))
    return Tried(trigger, right, late, hm, cost if set(target) & set(COSTS) else None)


def _heard(readiness: Readiness, held: Arrays) -> Arrays:
    """The sequences with the scores of a trigger; a dial turns the learned one alone."""
    if readiness.trigger == "hazard":
        return held
    kept = {name: array for name, array in held.items() if name != "knots"}
    return kept | {"halt": readiness.applied(scores_of(kept)).halt}


def _require_near(model: Trained, target: Target) -> None:
    """Refuse a point that is far from a wanted earliness even on the sequences that it was fitted on."""
    if "earliness" in target:
        seen = Held.of(model.validation)
        late = float(seen.earliness(seen.stops(model.operating_point)))
        if abs(late - target["earliness"]) > REACH:
            raise SettingError(f"earliness {target['earliness']:g} cannot be reached: the nearest here is {late:.3f}")


def _unusable(trigger: str, target: Target) -> str:
    """Why a trigger cannot aim at this; empty where it can."""
    if trigger == "induction":
        if others := set(target) - {*COSTS, "earliness"}:
            return f"the trigger induction cannot aim at {min(others)}; give earliness, or what errors and items cost"
        if set(target) & set(COSTS) and (
            target.get("cost_per_second") or not isinstance(target.get("cost_per_error"), float | int)
            or not target["cost_per_error"]
        ):  # fmt: skip
            return "the trigger induction weighs items against errors: give cost_per_error, cost_per_item"
    if trigger == "calibrated" and "delay_cost" in target:
        return "the trigger calibrated takes no delay cost; give earliness, accuracy, threshold or costs"
    return ""


def _induced(readiness: Readiness, held: Arrays, target: Target) -> Readiness:
    """Backward induction at the cost of waiting that the target asks for."""
    known = prefixes_of(held)
    trigger = Calimera().fit(known)
    if set(target) & set(COSTS):
        cost = target.get("cost_per_item", 0.0) / target["cost_per_error"] * trigger.typical
    else:
        curve = trigger_curve(trigger, known)
        place = np.abs(curve.earliness - target["earliness"]).argmin() if target else curve.best()
        cost = float(curve.setting[place])
    gains = {}
    if cost > 0:  # else all is read
        weights = trigger.induce(np.array([cost / trigger.typical]))
        gains = {int(n): (w.slope[:, 0], float(w.level[0])) for n, w in zip(trigger.steps, weights, strict=True)}
    return replace(readiness, temperatures=(trigger.temperatures, *readiness.temperatures[1:]), gains=gains)
