"""Operating points: where on the trade-off of a trained model to halt, chosen from its scores on validation.

The points lie on one path from latest to earliest: first θ falls from above all scores to 0.5 at the least delay cost,
then λ rises to the largest one, then θ falls to 0. Without knots there is one delay cost, and θ alone moves.

Letters: S sequences, N items, P knots, M points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.dial import LEAST, MOST, mixture
from kvec.decide.held import some_of
from kvec.words.config import Config
from kvec.words.errors import SettingError
from kvec.words.plain import require_known

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
OWN_WORD = 0.5  # θ at which a policy halts where halting costs it less than waiting
NEVER = 2.0  # θ that no score reaches
NEAR = 0.005  # in earliness: of points this near to the wanted one the most accurate is taken
PIECES = (24, 64, 24)  # points of the three pieces of the path
TARGETS = ("earliness", "accuracy", "threshold", "delay_cost", "cost_per_error", "cost_per_item", "cost_per_second")
COSTS = ("cost_per_error", "cost_per_item", "cost_per_second")


Target = Mapping[str, Any]  # by name, numbers; `cost_per_error` may be a matrix, (true class, decided class)


@dataclass(frozen=True)
class OperatingPoint:
    """The delay cost λ that the policy is told (None: it knows its own alone), and the threshold θ on its score."""

    threshold: float
    delay_cost: float | None = None


def with_classes(target: Target, classes: Sequence[str]) -> Target:
    """The target with costs of errors by class, if they are {true class: {decided class: cost}}, as a matrix."""
    given = target.get("cost_per_error")
    if not isinstance(given, Mapping):
        return target
    matrix = np.zeros((len(classes), len(classes)))
    for true, row in given.items():
        if not isinstance(row, Mapping):
            raise SettingError(f"cost_per_error[{true!r}] is {row!r}; write {{true class: {{decided class: cost}}}}")
        for decided, cost in row.items():
            require_known([str(true), str(decided)], classes, "class", "cost_per_error")
            matrix[classes.index(str(true)), classes.index(str(decided))] = cost
    return {**target, "cost_per_error": matrix}


def require_turnable(config: Config) -> None:
    """Refuse another operating point for a model whose scores depend on its own."""
    if config.deciding.after_halt == "drop":
        raise SettingError(
            "this model drops items after a halt, so what it says depends on where it halts: its point is fixed"
        )


@dataclass(frozen=True)
class Held:
    """What validation tells of the trade-off."""

    offsets: Ints  # (S + 1,)
    knots: Floats  # (N, P) logits of Halt at each knot
    predicted: Ints  # (N,) the class that each item would be decided for
    truth: Ints  # (S,)
    elapsed: Floats | None  # (N,) seconds since the sequence began, where there are times

    @classmethod
    def of(cls, kept: Mapping[str, npt.NDArray[Any]]) -> Held:
        """From the validation arrays of a model folder."""
        kept = some_of(dict(kept), kept["labels"][:, 0] >= 0)
        with np.errstate(divide="ignore"):
            score = kept["halt"].astype(np.float64)
            knots = kept["knots"] if "knots" in kept else np.log(score / (1 - score))[:, None]
        return cls(
            kept["offsets"],
            knots.astype(np.float64),
            kept["classes.0"].argmax(axis=1),
            kept["labels"][:, 0].astype(np.int64),
            kept["elapsed"].astype(np.float64) if "elapsed" in kept else None,
        )

    @property
    def length(self) -> Ints:
        """(S,) items of each sequence."""
        return np.diff(self.offsets)

    @property
    def n_knots(self) -> int:
        """P."""
        return int(self.knots.shape[1])

    def scores(self, delay_cost: float | None) -> Floats:
        """(N,) halting scores at a delay cost."""
        dial = mixture(LEAST if delay_cost is None else delay_cost, self.n_knots)[0]
        scores: Floats = 1 / (1 + np.exp(-(self.knots @ dial)))
        return scores

    def stops(self, point: OperatingPoint) -> Ints:
        """(S,) items seen of each sequence at an operating point."""
        place = np.arange(len(self.knots))
        reached = np.where(self.scores(point.delay_cost) >= point.threshold, place, len(place))
        first = np.minimum.reduceat(reached, self.offsets[:-1])
        return np.minimum(first - self.offsets[:-1] + 1, self.length)

    @cached_property
    def path(self) -> tuple[OperatingPoint, ...]:
        """The operating points from latest to earliest."""
        if self.n_knots == 1:
            scores = np.unique(np.quantile(self.scores(None), np.linspace(0, 1, sum(PIECES))))
            return tuple(OperatingPoint(float(theta)) for theta in [NEVER, *scores[::-1], 0.0])
        late, middle, early = PIECES
        first = np.maximum.reduceat(self.scores(LEAST), self.offsets[:-1])
        falls = np.quantile(np.maximum(first, OWN_WORD), np.linspace(1, 0, late))
        last = self.scores(MOST)[self.offsets[:-1]]
        ends = np.quantile(np.minimum(last, OWN_WORD), np.linspace(1, 0, early))
        return (
            OperatingPoint(NEVER, LEAST),
            *(OperatingPoint(float(theta), LEAST) for theta in np.unique(falls)[::-1]),
            *(OperatingPoint(OWN_WORD, float(cost)) for cost in np.geomspace(LEAST, MOST, middle)),
            *(OperatingPoint(float(theta), MOST) for theta in np.unique(ends)[::-1]),
            OperatingPoint(0.0, MOST),
        )

    @cached_property
    def along(self) -> Ints:
        """(M, S) items seen of each sequence at every point of the path."""
        return np.stack([self.stops(point) for point in self.path])

    def earliness(self, stops: Ints) -> Floats:
        """(…,) mean share of a sequence seen."""
        late: Floats = np.mean(stops / self.length, axis=-1)
        return late

    def accuracy(self, stops: Ints) -> Floats:
        """(…,) share of sequences decided rightly."""
        right: Floats = (self.predicted[self.offsets[:-1] + stops - 1] == self.truth).mean(axis=-1)
        return right

    def best(self) -> OperatingPoint:
        """The point of largest HM; of equals, the more accurate."""
        right, saved = self.accuracy(self.along), 1 - self.earliness(self.along)
        hm = 2 * right * saved / np.maximum(right + saved, 1e-12)
        return self.path[int(np.lexsort((right, hm.round(12)))[-1])]

    def choose(self, target: Target, now: OperatingPoint) -> OperatingPoint:
        """The operating point that meets a target best on validation; one that none meets is refused."""
        if not target:
            raise SettingError(f"say what to aim at: {', '.join(TARGETS)}")
        if unknown := set(target) - set(TARGETS):
            raise SettingError(f"unknown target {min(unknown)!r}; known: {', '.join(TARGETS)}")
        if set(target) <= set(COSTS):
            return self._cheapest(target)
        if len(target) > 1 and set(target) != {"threshold", "delay_cost"}:
            raise SettingError(f"one target at a time, or costs together; found {', '.join(target)}")
        name, value = next(iter(target.items()))
        if name in ("threshold", "delay_cost"):
            return self._given(target, now)
        if not 0 < value <= 1:
            raise SettingError(f"{name} is {value:g}; it must lie above 0 and be at most 1")
        return self._at_earliness(value) if name == "earliness" else self._at_accuracy(value)

    def _given(self, target: Target, now: OperatingPoint) -> OperatingPoint:
        theta = target.get("threshold", OWN_WORD if "delay_cost" in target else now.threshold)
        cost = target.get("delay_cost", now.delay_cost)
        if not 0 <= theta <= 1:
            raise SettingError(f"the threshold is {theta:g}; it must lie between 0 and 1")
        if "delay_cost" in target and self.n_knots == 1:
            raise SettingError("this model knows one delay cost alone; train it with encoder.knots=9 to turn it")
        if cost is not None and not LEAST <= cost <= MOST and self.n_knots > 1:
            raise SettingError(f"the delay cost is {cost:g}; it must lie between {LEAST:g} and {MOST:g}")
        return OperatingPoint(theta, cost)

    def _at_earliness(self, wanted: float) -> OperatingPoint:
        late = self.earliness(self.along)
        if wanted < late.min() - 0.02 or wanted > late.max() + 0.02:
            raise SettingError(
                f"earliness {wanted:g} cannot be reached: on validation it lies between {late.min():.3f} (one item of "
                f"each sequence) and {late.max():.3f}"
            )
        points = [self.path[int(np.argmin(np.abs(late - wanted)))]]
        for k in np.flatnonzero((late[:-1] > wanted) != (late[1:] > wanted)):
            points.append(self._between(self.path[k], self.path[k + 1], wanted))
        stops = np.stack([self.stops(point) for point in points])
        error = np.abs(self.earliness(stops) - wanted)
        near = np.flatnonzero(error <= max(error.min(), NEAR))
        return points[int(near[self.accuracy(stops[near]).argmax()])]

    def _between(self, one: OperatingPoint, other: OperatingPoint, wanted: float) -> OperatingPoint:
        """Bisect between two neighbours on the path, of which one is earlier than wanted and the other later."""
        is_late = float(self.earliness(self.stops(one))) > wanted
        for _ in range(20):
            cost = one.delay_cost
            if one.delay_cost is not None and other.delay_cost is not None:
                cost = float(np.sqrt(one.delay_cost * other.delay_cost))
            middle = OperatingPoint((one.threshold + other.threshold) / 2, cost)
            if (float(self.earliness(self.stops(middle))) > wanted) == is_late:
                one = middle
            else:
                other = middle
        return min(one, other, key=lambda point: abs(float(self.earliness(self.stops(point))) - wanted))

    def _at_accuracy(self, wanted: float) -> OperatingPoint:
        right, late = self.accuracy(self.along), self.earliness(self.along)
        meeting = np.flatnonzero(right >= wanted)
        if not len(meeting):
            best = int(right.argmax())
            raise SettingError(
                f"accuracy {wanted:g} cannot be reached: on validation the best is {right[best]:.4f}, at earliness "
                f"{late[best]:.3f}"
            )
        return self.path[int(meeting[late[meeting].argmin()])]

    def _cheapest(self, costs: Target) -> OperatingPoint:
        if any(not np.all(np.asarray(c) >= 0) for c in costs.values()) or not any(np.any(c) for c in costs.values()):
            raise SettingError("costs must be numbers from 0 on, and one of them above 0")
        if costs.get("cost_per_second") and self.elapsed is None:
            raise SettingError("cost_per_second needs times, which the training data did not have; use cost_per_item")
        at = self.offsets[:-1] + self.along - 1
        error = costs.get("cost_per_error", 0.0)
        if isinstance(error, np.ndarray):
            total = error[self.truth, self.predicted[at]].mean(axis=1)
        else:
            total = error * (1 - self.accuracy(self.along))
        total = total + costs.get("cost_per_item", 0.0) * self.along.mean(axis=1)
        if self.elapsed is not None:
            total = total + costs.get("cost_per_second", 0.0) * self.elapsed[at].mean(axis=1)
        return self.path[int(np.argmin(total))]
