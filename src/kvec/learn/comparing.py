"""Which trigger a model halts by: each fitted on half of the tangles and measured on the other, both ways."""

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
from kvec.report.metrics import harmonic_means, interval, resampled
from kvec.words.errors import DataError, SettingError

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
DIALS = ("hazard", "induction")  # triggers that take a delay cost
DRAWS = 500
FEWEST_TANGLES = 20  # with fewer, intervals over draws of them are too narrow


@dataclass(frozen=True)
class Tried:
    """How a trigger does on sequences that it was not fitted on."""

    trigger: str
    totals: Floats  # (T, 4) of each tangle: its labelled sequences, those decided rightly, shares seen, costs

    @property
    def accuracy(self) -> float:
        """The share that is decided rightly."""
        return self.measured("accuracy")

    @property
    def hm(self) -> float:
        """HM of accuracy and of what is saved."""
        return self.measured("HM")

    @property
    def earliness(self) -> float:
        """The mean share of a sequence that is seen."""
        return float(self.totals[:, 2].sum() / self.totals[:, 0].sum())

    @property
    def cost(self) -> float:
        """What a sequence costs on average; 0 where nothing was said to cost."""
        return -self.measured("cost")

    def measured(self, measure: str) -> float:
        """One of `measure_of`; more is better, so that costs are negative."""
        return float(_measured(self.totals.sum(axis=0), measure))


@dataclass(frozen=True)
class Gain:
    """By how much one trigger is ahead of another, and the interval of that, endless where tangles are too few."""

    point: float
    low: float
    high: float


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


def measure_of(target: Target) -> str:
    """What counts: the cost, the accuracy at an earliness, or HM, as the target has it."""
    return "cost" if set(target) & set(COSTS) else "accuracy" if "earliness" in target else "HM"


def choose(tried: Sequence[Tried], present: str, target: Target) -> tuple[str, dict[str, Gain]]:
    """The present trigger, or the best of those that are ahead of it beyond chance; what others gain over it.

    Without the present one among them the best, and no gains.
    """
    measure = measure_of(target)
    best = max(tried, key=lambda each: each.measured(measure))
    now = next((each for each in tried if each.trigger == present), None)
    if now is None:
        return best.trigger, {}
    gains = {each.trigger: _gain(each, now, measure) for each in tried if each is not now}
    ahead = [each for each in tried if each is not now and gains[each.trigger].low > 0]
    return max([now, *ahead], key=lambda each: each.measured(measure)).trigger, gains


def _gain(one: Tried, other: Tried, measure: str) -> Gain:
    """On the same resampled tangles."""
    point = one.measured(measure) - other.measured(measure)
    if len(one.totals) < FEWEST_TANGLES:
        return Gain(point, -np.inf, np.inf)
    first, second = (_measured(resampled(each.totals, DRAWS), measure) for each in (one, other))
    return Gain(point, *interval(first - second, point))


def _measured(totals: Floats, measure: str) -> Floats:
    """(…,) a measure of sums of `Tried.totals`, (…, 4)."""
    right, late, cost = np.moveaxis(totals[..., 1:] / totals[..., :1], -1, 0)
    found: Floats = {"cost": -cost, "accuracy": right, "HM": harmonic_means(right, late)}[measure]
    return found


def _tried(model: Trained, halves: Sequence[tuple[Arrays, Arrays]], trigger: str, target: Target) -> Tried:
    """A trigger fitted on the first of each two and measured on the second; one that misses the target is refused."""
    found = []
    for fitted, measured in halves:
        turned = retune(model, fitted, trigger, target)
        known = some_of(measured, measured["labels"][:, 0] >= 0)
        seen = Held.of(heard(turned.readiness, known))
        stops = seen.stops(turned.operating_point)
        costs = seen.cost(stops, target, each=True) if measure_of(target) == "cost" else np.zeros(len(stops))
        found.append((known["tangle"], np.ones(len(stops)), seen.is_right(stops), stops / seen.length, costs))
    tangle, *added = (np.concatenate(each) for each in zip(*found, strict=True))
    group = np.unique(tangle, return_inverse=True)[1]
    return Tried(trigger, np.stack([np.bincount(group, each) for each in added], axis=1))
