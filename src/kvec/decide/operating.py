"""Operating points: where on the trade-off of a trained model to halt, chosen from its scores on validation.

The points lie on one path from latest to earliest: first θ falls from above all scores to 0.5 at the least delay cost,
then λ rises to the largest one, then θ falls to 0. What has no knots knows one delay cost, and θ alone moves.

Letters: S sequences, N items, P knots, M points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.dial import LEAST, MOST, halting_scores
from kvec.decide.held import some_of
from kvec.decide.reaching import first_reached, records
from kvec.decide.targets import COSTS, Target, require_target
from kvec.words.config import Config
from kvec.words.errors import SettingError
from kvec.words.plain import shown_point

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
OWN_WORD = 0.5  # θ at which a policy halts where halting costs it less than waiting
NEVER = 2.0  # θ that no score reaches
NEAR = 0.005  # in earliness: of points this near to the wanted one the most accurate is taken
REACH = 0.02  # in earliness: a point this far from the wanted one is taken for it
STEP = 0.01  # in earliness: between the points of a grid
PIECES = (24, 64, 24)  # points of the three pieces of the path
HALVINGS = 5  # of a step of the path, for the points of a grid


@dataclass(frozen=True)
class OperatingPoint:
    """The delay cost λ that what halts is told (None: it knows its own alone), and the threshold θ on its score."""

    threshold: float
    delay_cost: float | None = None

    def to_dict(self) -> dict[str, float]:
        """Plain data for a promise or a card, without what the model does not have."""
        return {"threshold": self.threshold} | ({} if self.delay_cost is None else {"delay_cost": self.delay_cost})

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> OperatingPoint:
        """Read what `to_dict` wrote, or a card."""
        cost = plain.get("delay_cost")
        return cls(float(plain["threshold"]), None if cost is None else float(cost))

    def __str__(self) -> str:
        """As it is shown."""
        return shown_point(self.threshold, self.delay_cost)


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
    halt: Floats  # (N,) halting scores
    knots: npt.NDArray[np.float32] | None  # (N, P) logits of Halt at each knot of the dial, where there is one
    predicted: Ints  # (N,) the class that each item would be decided for
    truth: Ints  # (S,)
    elapsed: Floats | None  # (N,) seconds since the sequence began, where there are times

    @classmethod
    def of(cls, kept: Mapping[str, npt.NDArray[Any]]) -> Held:
        """From the validation arrays of a model folder."""
        kept = some_of(dict(kept), kept["labels"][:, 0] >= 0)
        return cls(
            kept["offsets"],
            kept["halt"].astype(np.float64),
            kept.get("knots"),
            kept["classes.0"].argmax(axis=1),
            kept["labels"][:, 0].astype(np.int64),
            kept["elapsed"].astype(np.float64) if "elapsed" in kept else None,
        )

    @property
    def length(self) -> Ints:
        """(S,) items of each sequence."""
        return np.diff(self.offsets)

    def scores(self, delay_cost: float | None) -> Floats:
        """(N,) halting scores at a delay cost."""
        if self.knots is None:
            return self.halt
        return halting_scores(self.knots, LEAST if delay_cost is None else delay_cost).astype(np.float64)

    def stops(self, point: OperatingPoint) -> Ints:
        """(S,) items seen of each sequence at an operating point."""
        first = first_reached(self.offsets, self.scores(point.delay_cost), point.threshold)
        return np.where(first > 0, first, self.length)

    @cached_property
    def path(self) -> tuple[OperatingPoint, ...]:
        """The operating points from latest to earliest."""
        late, middle, early = PIECES
        if self.knots is None:
            falls = _spread(self._records(None), late + middle + early)
            return tuple(OperatingPoint(theta) for theta in [NEVER, *falls, 0.0])
        first, last = self._records(LEAST), self._records(MOST)
        return (
            OperatingPoint(NEVER, LEAST),
            *(OperatingPoint(theta, LEAST) for theta in _spread(first[first > OWN_WORD], late)),
            *(OperatingPoint(OWN_WORD, float(cost)) for cost in np.geomspace(LEAST, MOST, middle)),
            *(OperatingPoint(theta, MOST) for theta in _spread(last[last < OWN_WORD], early)),
            OperatingPoint(0.0, MOST),
        )

    def _records(self, delay_cost: float | None) -> Floats:
        """The scores that top all earlier ones of their sequence: only there can it halt."""
        scores = self.scores(delay_cost)
        found: Floats = scores[records(self.offsets, np.unique(scores, return_inverse=True)[1])]
        return found

    def grid(self) -> tuple[OperatingPoint, ...]:
        """Points of the path, each earlier than the one before it: from the end of every sequence to its first item."""
        kept, last = [self.path[0]], 1.0
        for one, other in pairwise(self.path):
            for point in [*self._filled(one, other, HALVINGS), other]:
                late = self._late(point)
                if late <= last - STEP or (point is self.path[-1] and late < last):
                    kept.append(point)
                    last = late
        return tuple(kept)

    def _filled(self, one: OperatingPoint, other: OperatingPoint, halvings: int) -> list[OperatingPoint]:
        """Points between two neighbours on the path, where these are far apart."""
        if not halvings or abs(self._late(one) - self._late(other)) <= STEP:
            return []
        middle = _halfway(one, other)
        return [*self._filled(one, middle, halvings - 1), middle, *self._filled(middle, other, halvings - 1)]

    def _late(self, point: OperatingPoint) -> float:
        return float(self.earliness(self.stops(point)))

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
        right: Floats = self.is_right(stops).mean(axis=-1)
        return right

    def is_right(self, stops: Ints) -> npt.NDArray[np.bool_]:
        """(…, S) which sequences are decided rightly."""
        right: npt.NDArray[np.bool_] = self.predicted[self.offsets[:-1] + stops - 1] == self.truth
        return right

    def best(self, threshold: float | None = None) -> OperatingPoint:
        """The point of largest HM on the path, or of those with this threshold; of equals, the more accurate."""
        if threshold is None:
            points, stops = self.path, self.along
        else:
            costs = [None] if self.knots is None else np.geomspace(LEAST, MOST, PIECES[1]).tolist()
            points = tuple(OperatingPoint(threshold, cost) for cost in costs)
            stops = np.stack([self.stops(point) for point in points])
        right, saved = self.accuracy(stops), 1 - self.earliness(stops)
        hm = 2 * right * saved / np.maximum(right + saved, 1e-12)
        return points[int(np.lexsort((right, hm.round(12)))[-1])]

    def choose(self, target: Target, now: OperatingPoint) -> OperatingPoint:
        """The operating point that meets a target best on validation; one that none meets is refused."""
        require_target(target)
        if set(target) <= set(COSTS):
            return self._cheapest(target)
        if "earliness" in target:
            return self._at_earliness(target["earliness"])
        return self._at_accuracy(target["accuracy"]) if "accuracy" in target else self._given(target, now)

    def _given(self, target: Target, now: OperatingPoint) -> OperatingPoint:
        theta = target.get("threshold", OWN_WORD if "delay_cost" in target else now.threshold)
        cost = target.get("delay_cost", now.delay_cost)
        if not 0 <= theta <= 1:
            raise SettingError(f"the threshold is {theta:g}; it must lie between 0 and 1")
        if "delay_cost" not in target:
            return OperatingPoint(float(theta), cost)
        if self.knots is None:
            raise SettingError(
                "what halts this model takes no delay cost; aim at earliness, accuracy or costs, or fit what takes one "
                "with kvec tune --trigger induction"
            )
        if not LEAST <= cost <= MOST:
            raise SettingError(f"the delay cost is {cost:g}; it must lie between {LEAST:g} and {MOST:g}")
        return OperatingPoint(float(theta), float(cost))

    def _at_earliness(self, wanted: float) -> OperatingPoint:
        late = self.earliness(self.along)
        if not late.min() - REACH <= wanted <= late.max() + REACH:
            raise SettingError(
                f"earliness {wanted:g} cannot be reached: on validation it lies between {late.min():.3f} (one item of "
                f"each sequence) and {late.max():.3f}"
            )
        points = [self.path[int(np.argmin(np.abs(late - wanted)))]]
        for k in np.flatnonzero((late[:-1] > wanted) != (late[1:] > wanted)):
            points.append(self._between(self.path[k], self.path[k + 1], wanted))
        stops = np.stack([self.stops(point) for point in points])
        error = np.abs(self.earliness(stops) - wanted)
        if error.min() > REACH:
            below, above = late[late < wanted].max(), late[late > wanted].min()
            raise SettingError(
                f"earliness {wanted:g} cannot be reached: on validation the nearest are {below:.3f} and {above:.3f}"
            )
        near = np.flatnonzero(error <= max(error.min(), NEAR))
        return points[int(near[self.accuracy(stops[near]).argmax()])]

    def _between(self, one: OperatingPoint, other: OperatingPoint, wanted: float) -> OperatingPoint:
        """Bisect between two neighbours on the path, of which one is earlier than wanted and the other later."""
        is_late = self._late(one) > wanted
        for _ in range(20):
            middle = _halfway(one, other)
            if (self._late(middle) > wanted) == is_late:
                one = middle
            else:
                other = middle
        return min(one, other, key=lambda point: abs(self._late(point) - wanted))

    def _at_accuracy(self, wanted: float) -> OperatingPoint:
        right, late = self.accuracy(self.along), self.earliness(self.along)
        meeting = np.flatnonzero(right >= wanted)
        if not len(meeting):
            best = int(np.lexsort((late, -right))[0])  # the earliest of the most accurate
            raise SettingError(
                f"accuracy {wanted:g} cannot be reached: on validation the best is {right[best]:.4f}, from earliness "
                f"{late[best]:.3f}"
            )
        return self.path[int(meeting[late[meeting].argmin()])]

    def _cheapest(self, costs: Target) -> OperatingPoint:
        return self.path[int(np.argmin(self.cost(self.along, costs)))]

    def cost(self, stops: Ints, costs: Target, each: bool = False) -> Floats:
        """(…,) what a sequence costs on average when it is decided there; (…, S) what each costs."""
        if costs.get("cost_per_second") and self.elapsed is None:
            raise SettingError("cost_per_second needs times, which the training data did not have; use cost_per_item")

        def over(values: npt.NDArray[Any]) -> Any:
            return values if each else values.mean(axis=-1)

        at = self.offsets[:-1] + stops - 1
        error = costs.get("cost_per_error", 0.0)
        if isinstance(error, np.ndarray):
            total = over(error[self.truth, self.predicted[at]])
        else:
            total = error * (1 - over(self.is_right(stops)))
        total = total + costs.get("cost_per_item", 0.0) * over(stops)
        if self.elapsed is not None:
            total = total + costs.get("cost_per_second", 0.0) * over(self.elapsed[at])
        found: Floats = total
        return found


def _halfway(one: OperatingPoint, other: OperatingPoint) -> OperatingPoint:
    """The point between two: θ in the middle, λ on the log scale."""
    cost = one.delay_cost
    if one.delay_cost is not None and other.delay_cost is not None:
        cost = float(np.sqrt(one.delay_cost * other.delay_cost))
    return OperatingPoint((one.threshold + other.threshold) / 2, cost)


def _spread(scores: Floats, n: int) -> list[float]:
    """Up to n of these scores, spread evenly over their ranks, from the highest to the lowest."""
    if not scores.size:
        return []
    found: list[float] = np.unique(np.quantile(scores, np.linspace(0, 1, n), method="nearest"))[::-1].tolist()
    return found
