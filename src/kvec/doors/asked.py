"""What an evaluation says of what was asked for: a target beside what was reached, and words without an effect."""

from __future__ import annotations

import numpy as np

from kvec.decide.halting import first_halts
from kvec.decide.held import held_out
from kvec.decide.operating import Held
from kvec.decide.scores import Scores
from kvec.decide.targets import Target
from kvec.decide.unknown import Unknown
from kvec.estimator import KVEC
from kvec.tangle.tangles import Tangles


def of_the_asked(model: KVEC, tangles: Tangles, scores: Scores, target: Target) -> tuple[str, ...]:
    """A sentence for each, where there is something to say."""
    trained = model.model_
    effect = _without_effect(trained.unknown, trained.threshold, scores)
    return (*_reached(model, tangles, scores, target), *effect)


def _reached(model: KVEC, tangles: Tangles, scores: Scores, target: Target) -> list[str]:
    """What validation and this data have of the accuracy or earliness that was the target."""
    trained, said = model.model_, []
    point = trained.operating_point
    for name in ("accuracy", "earliness"):
        if name not in target:
            continue
        held = [Held.of(kept) for kept in (trained.validation, held_out(tangles, scores))]
        there, here = (float(getattr(each, name)(each.stops(point))) for each in held)
        anyhow = " (known or not)" if name == "accuracy" and trained.unknown.is_asked else ""
        wanted = f"{name} {target[name]:g}{anyhow}"
        said.append(f"asked for: {wanted}; at this point validation has {there:.4f}, this data {here:.4f}")
    return said


def _without_effect(unknown: Unknown, threshold: float, scores: Scores) -> list[str]:
    """That decisions by halting are always known, where it was asked for unsure ones and all of them halt."""
    if not unknown.abstain_below or unknown.abstain_at_halts:
        return []
    halted = first_halts(scores, threshold)
    at = scores.offsets[:-1] + np.where(halted > 0, halted, np.diff(scores.offsets)) - 1
    is_unsure = scores.classes[0][at].max(axis=1, initial=0.0) < unknown.abstain_below
    if (is_unsure & (halted == 0)).any() or not (is_unsure.any() or (halted > 0).all()):
        return []
    which = "all halt" if (halted > 0).all() else "all that are less sure halt"
    return [f"no decision is affected by abstain_below={unknown.abstain_below:g}, as {which}; add abstain_at_halts=1"]
