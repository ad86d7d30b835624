"""An operating point with a finite-sample, distribution-free promise about errors (docs/decisions/0024-the-promise.md).

Letters: P operating points, S sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvec.decide.bounds import BOUNDS
from kvec.decide.promise import KINDS, ClassPromise, Promise
from kvec.decide.risk import Ints, Sample
from kvec.words.errors import DataError, SettingError
from kvec.words.plain import require_choice

KNOWN_BEFORE = (  # not how many were found, lest that be given
    "give the most that can ever occur with --max-keys, from what is known of such data and not from this calibration"
)
_SEED = 20240625  # of the order in which units are taken: fixed, so that nobody chooses it

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Wish:
    """What is to be promised."""

    kind: str  # early error, or error
    alpha: float
    confidence: float = 0.95
    bound: str = "betting"
    per_class: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be promised."""
        require_choice(self.kind, tuple(KINDS), "the kind of error")
        require_choice(self.bound, BOUNDS, "the bound")
        for name, value, such in (("the largest error", self.alpha, 0.02), ("the confidence", self.confidence, 0.95)):
            if not 0 < value < 1:
                perhaps = f"; did you mean {value / 100:g}?" if 1 < value < 100 else f", as {such:g}"
                raise SettingError(f"{name} is {value:g}; it must be a share between 0 and 1{perhaps}")

    @property
    def delta(self) -> float:
        """The chance of a broken promise that is allowed."""
        return 1 - self.confidence


@dataclass(frozen=True)
class Calibration:
    """What a model makes of labelled sequences at operating points that go from the latest to the earliest."""

    points: Sequence[Mapping[str, float]]  # P of them; the first decides sequences at their end
    stops: Ints  # (P, S) items seen
    is_right: Bools  # (P, S)
    length: Ints  # (S,)
    is_right_at_end: Bools  # (S,)
    truth: Ints  # (S,) true class; -1 for one that the model does not know
    unit: Ints  # (S,)
    block: float | None = None  # seconds of a unit; None where units are tangles

    @property
    def units(self) -> str:
        """What the units are."""
        return "tangles" if self.block is None else f"blocks of {self.block:g} s"

    def lost(self, kind: str, of: Bools | None = None) -> Bools:
        """(P, S) which sequences are lost, or which of some."""
        which = np.ones(len(self.length), bool) if of is None else of
        lost: Bools = ~self.is_right[:, which]
        if kind == "early error":
            lost &= self.is_right_at_end[which] & (self.stops[:, which] < self.length[which])
        return lost

    def sample(self, kind: str, most_keys: int, of: Bools | None = None) -> Sample:
        """Losses of the units that hold any of these sequences; in an order that nobody chose."""
        which = np.ones(len(self.unit), bool) if of is None else of
        lost = self.lost(kind, which)
        names, unit = np.unique(self.unit[which], return_inverse=True)
        keys = np.bincount(unit, minlength=len(names))
        losses = np.stack([np.bincount(unit[row], minlength=len(names)) for row in lost])
        order = np.random.default_rng(_SEED).permutation(len(names))
        return Sample(losses[:, order], keys[order], most_keys)


def guarantee(
    calibration: Calibration, wish: Wish, most_keys: int, label: str = "label", classes: Mapping[str, int] | None = None
) -> Promise:
    """Promise for the earliest operating point that passes; where none does, refuse and say what would help.

    Points, `most_keys` (K_max of all sequences of a unit) and, where each class is to be promised by itself, `classes`
    (K_max of each) are fixed before calibration.
    """
    if wish.bound == "binomial" and max((most_keys, *(classes or {}).values())) > 1:
        raise SettingError(
            "the binomial bound needs at most one sequence in a unit (--max-keys 1); use betting instead"
        )
    sample = calibration.sample(wish.kind, most_keys)
    if wish.per_class:
        if not classes:
            raise SettingError("there are no classes, so nothing can be promised of each")
        n_passed, by_class = _classes_passed(calibration, wish, classes)
        kept = [each for each in by_class if each.is_promised]
        upper = max(each.upper for each in kept)
        observed = sum(each.observed * each.n_sequences for each in kept) / sum(each.n_sequences for each in kept)
    else:
        n_passed, by_class = _passed(sample, calibration, wish), ()
        observed = sample.observed(n_passed - 1)
        upper = min(sample.upper(n_passed - 1, wish.bound, wish.delta), wish.alpha)
    chosen = n_passed - 1
    return Promise(
        wish.kind, label, wish.alpha, wish.confidence, wish.bound, dict(calibration.points[chosen]),
        len(calibration.points), n_passed, most_keys, sample.n_units, sample.n_sequences, observed, upper,
        float(np.mean(calibration.stops[chosen] / calibration.length)), calibration.block,
        _assumption(calibration, most_keys, by_class), by_class,
    )  # fmt: skip


def _passed(sample: Sample, calibration: Calibration, wish: Wish) -> int:
    """How many points pass in their order."""
    if problem := _too_many_keys(sample):
        raise DataError(problem)
    if n_needed := sample.n_needed(wish.bound, wish.alpha, wish.delta):
        more = f"bring {n_needed:,}, or promise a larger error or less confidence"
        if sample.n_units == 1 and calibration.block is None:
            more = "one endless tangle needs --block SECONDS, and then " + more
        raise DataError(
            f"there are too few {calibration.units} to calibrate on, {sample.n_units:,}: even without any loss at "
            f"least {n_needed:,} are needed for {100 * wish.alpha:g}% with {100 * wish.confidence:g}% confidence;"
            f" {more}"
        )
    if not (n_passed := sample.n_passed(wish.bound, wish.alpha, wish.delta)):
        least = f"{100 * sample.upper(0, wish.bound, wish.delta):.3g}"
        perhaps = f"with other data of this kind perhaps {least}% can be promised, with a better model less"
        raise DataError(
            f"even at the end of every sequence {100 * sample.observed(0):.3g}% of {sample.n_sequences:,} are "
            f"{KINDS[wish.kind]}, too many to promise {100 * wish.alpha:g}%; "
            f"{'that needs a better model' if least == '100' else perhaps}"
        )
    return n_passed


def _classes_passed(
    calibration: Calibration, wish: Wish, classes: Mapping[str, int]
) -> tuple[int, tuple[ClassPromise, ...]]:
    """How many points pass for every class of which anything can be promised; δ is shared among all classes."""
    delta = wish.delta / len(classes)
    samples, passed, why_not = {}, {}, {}
    for number, (name, most_keys) in enumerate(classes.items()):
        which = calibration.truth == number
        samples[name] = sample = calibration.sample(wish.kind, most_keys, which)
        problem = "there are none" if not which.any() else _too_many_keys(sample)
        if not problem and (n_needed := sample.n_needed(wish.bound, wish.alpha, delta)):
            problem = f"{sample.n_units:,} {calibration.units} hold it, and at least {n_needed:,} are needed"
        if not problem:
            passed[name] = sample.n_passed(wish.bound, wish.alpha, delta)
            if not passed[name]:
                problem = f"{100 * sample.observed(0):.3g}% are {KINDS[wish.kind]} even at their end"
        why_not[name] = problem
    n_passed = min((n for n in passed.values() if n), default=0)
    if not n_passed:
        first, problem = next(iter(why_not.items()))
        if KNOWN_BEFORE not in problem:
            problem += f"; bring more {calibration.units} that hold it, or promise a larger error or less confidence"
        raise DataError(f"nothing can be promised of any class; {first!r}: {problem}")
    return n_passed, tuple(
        ClassPromise(
            name, not why_not[name], why_not[name], sample.n_units, sample.n_sequences, sample.most_keys,
            sample.observed(n_passed - 1) if sample.n_units else 0.0,
            1.0 if why_not[name] else min(sample.upper(n_passed - 1, wish.bound, delta), wish.alpha),
        )
        for name, sample in samples.items()
    )  # fmt: skip


def _too_many_keys(sample: Sample) -> str:
    """What is wrong where a unit holds more sequences than were said to be possible."""
    if sample.keys.max(initial=0) <= sample.most_keys:
        return ""
    return f"a unit holds more of them than {sample.most_keys:,}, the number fixed beforehand; {KNOWN_BEFORE}"


def _assumption(calibration: Calibration, most_keys: int, by_class: Sequence[ClassPromise]) -> str:
    unit = calibration.units
    if calibration.block is not None:
        unit += (
            ", by the first item of each sequence, taken to be independent of each other though one stream made them,"
        )
    alone = "" if calibration.block is not None else ", independently of each other"
    fewer = [each for each in by_class if each.is_promised and each.most_keys < most_keys]
    own = ", nor more than " + ", ".join(f"{each.most_keys:,} of class {each.name!r}" for each in fewer)
    return (
        f"new {unit} come from the same distribution as those of the calibration{alone}, and none "
        f"holds more than {most_keys:,} labelled sequences{own if fewer else ''}; items of decided sequences are "
        "kept as context"
    )
