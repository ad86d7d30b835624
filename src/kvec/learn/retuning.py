"""Fitting only the trigger of a trained model on new data: temperatures, the way of halting, its operating point."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.checkpoint import Trained
from kvec.decide.held import Arrays
from kvec.decide.operating import Held, OperatingPoint, require_turnable
from kvec.decide.readiness import TRIGGERS, heard
from kvec.decide.targets import Target, require_target, with_classes
from kvec.decide.unknown import parted
from kvec.learn.settling import FEWEST, readiness_of
from kvec.words.errors import DataError, SettingError


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
    if trigger in set(TRIGGERS) - set(known_triggers(model)):
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


def known_triggers(model: Trained) -> tuple[str, ...]:
    """The triggers that a model can have."""
    return TRIGGERS[1:] if model.config.training.objective == "every" else TRIGGERS
