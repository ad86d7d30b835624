"""Which trigger a model can best halt by: each fitted on half of the tangles and measured on the other, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.checkpoint import Trained
from kvec.decide.held import Arrays, some_of
from kvec.decide.operating import Held
from kvec.decide.readiness import heard
from kvec.decide.targets import COSTS, Target
from kvec.decide.unknown import Unknown
from kvec.learn.retuning import known_triggers, require_possible, retune
from kvec.learn.settling import FEWEST
from kvec.report.metrics import harmonic_mean
from kvec.words.errors import DataError, SettingError

Bools = npt.NDArray[np.bool_]
DIALS = ("hazard", "induction")  # triggers that take a delay cost


@dataclass(frozen=True)
class Tried:
    """How a trigger does on sequences that it was not fitted on."""

    trigger: str
    accuracy: float
    earliness: float
    hm: float
    cost: float | None = None  # of a sequence, where the target says what costs


def compare_triggers(model: Trained, held: Arrays, target: Target) -> list[Tried]:
    """Every trigger that reaches this, fitted on one half of the tangles and measured on the other, both ways.

    Where none does, the last says why.
    """
    target, _ = require_possible(model, held["labels"], None, target)
    model = replace(model, unknown=Unknown())
    is_known = held["labels"][:, 0] >= 0
    is_first = halves_of(held["tangle"], is_known)
    if (n := min(int(is_known[is_first].sum()), int(is_known[~is_first].sum()))) < FEWEST:
        raise DataError(
            f"triggers are compared on halves of the tangles, and one half has {n} labelled sequences; give {FEWEST} "
            "or more in each, or name a trigger, such as --trigger induction"
        )
    halves = [(some_of(held, half), some_of(held, ~half)) for half in (is_first, ~is_first)]
    found, why_not = [], None
    for trigger in (each for each in known_triggers(model) if "delay_cost" not in target or each in DIALS):
        try:
            found.append(_tried(model, halves, trigger, target))
        except SettingError as error:  # perhaps another trigger reaches the target
            why_not = error
    if why_not is not None and not found:
        raise why_not
    return found


def halves_of(tangle: npt.NDArray[np.integer[Any]], is_known: Bools, seed: int = 0) -> Bools:
    """(S,) which sequences are in the first half: whole tangles, shuffled, those with most labels dealt out first."""
    names, group = np.unique(tangle, return_inverse=True)
    n_known = np.bincount(group[is_known], minlength=len(names))
    order = np.lexsort((np.random.default_rng(seed).random(len(names)), -n_known))
    is_first = np.zeros(len(names), bool)
    is_first[order[0::4]] = is_first[order[3::4]] = True  # one, then two of the other half, then two of this
    return is_first[group]


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
