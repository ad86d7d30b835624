"""Where a stream's items looked, from what it still remembers: they run once more, and attention is noted (§V-E)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.deployed import Deployed
from kvec.decide.engine import Engine
from kvec.decide.kernel import Arriving, Floats, Kernel, Memory
from kvec.decide.succession import replay
from kvec.tangle.live import Remembered, TangleState
from kvec.tangle.visibility import PaperRule, Rule, make_rule
from kvec.words.config import Encoder
from kvec.words.items import Item
from kvec.words.limits import Limits

KINDS = {"own": "own", "value-correlated": "value"}  # what a rule may call them; all else is other


@dataclass(frozen=True)
class Glance:
    """An earlier item that was looked at, by its place among those remembered, and its share of attention."""

    place: int
    share: float
    kind: str  # own, value or other


@dataclass(frozen=True)
class LookedBack:
    """The items that a stream remembers of a tangle, oldest first, and where each of them looked, heaviest first."""

    items: tuple[Item, ...]
    numbers: tuple[int, ...]  # of their sequences
    looks: tuple[tuple[Glance, ...], ...]


class Noting(Kernel):
    """Runs the network through NumPy, and notes how attention was shared: the mean over heads and blocks."""

    def __init__(
        self, weights: Mapping[str, Floats], settings: Encoder, dtype: npt.DTypeLike = np.float32,
        use_c: bool = False, n_relations: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(weights, settings, dtype, use_c=False, n_relations=n_relations)
        self.noted: list[tuple[npt.NDArray[Any], ...]] = []  # of each block: rows, starts, seen rows, relations, shares

    def run(self, memory: Memory, arriving: Arriving) -> Floats:
        """Run items, and note where they look."""
        n = arriving.n
        pairs = int(arriving.starts[n])
        self._shares = np.zeros(pairs)
        said = super().run(memory, arriving)
        self.noted.append((
            arriving.rows[:n].copy(), arriving.starts[: n + 1].copy(), arriving.seen[:pairs].copy(),
            arriving.relation[:pairs].copy(), self._shares / self.settings.blocks,
        ))  # fmt: skip
        return said

    def _weigh(self, qkv: Floats, cache: Floats, layer: int, a: Arriving) -> tuple[Floats, Floats]:
        weights, total = super()._weigh(qkv, cache, layer, a)
        of = np.repeat(np.arange(len(qkv)), np.diff(a.starts[: len(qkv) + 1]))
        self._shares += (weights / total[of]).mean(axis=1)
        return weights, total


@dataclass(frozen=True)
class Recalled:
    """A copy of what a stream remembers of a tangle; the stream may go on meanwhile."""

    model: Deployed
    limits: Limits
    threshold: float
    tangle: TangleState
    remembered: tuple[Remembered, ...]

    @property
    def mark(self) -> tuple[Any, ...]:
        """Two copies of a tangle with the same mark look alike."""
        return self.tangle.n_arrived, len(self.remembered), self.model.hash, self.threshold, self.model.delay_cost

    def looked(self, most: int = 24) -> LookedBack:
        """Where the items looked, each at its `most` heaviest."""
        fresh = Engine(self.model, self.limits, self.threshold, np.float64, kernel=Noting)
        remembered = self.remembered
        replay(fresh, [self.tangle], remembered)
        kernel, rule = fresh.runner.kernel, make_rule(self.model.config.visibility)
        assert isinstance(kernel, Noting)
        places: dict[int, int] = {}
        looks: list[tuple[Glance, ...]] = []
        for rows, starts, seen, relation, shares in kernel.noted:
            for i, row in enumerate(rows.tolist()):
                places[row] = here = len(looks)
                pairs = range(int(starts[i]), int(starts[i + 1]))
                heaviest = sorted(pairs, key=lambda p: -shares[p])[:most]
                looks.append(tuple(
                    Glance(there, float(shares[p]), _kind(rule, remembered[here], remembered[there], int(relation[p])))
                    for p, there in ((p, places[int(seen[p])]) for p in heaviest)
                ))  # fmt: skip
        return LookedBack(tuple(one.item for one in remembered), tuple(one.number for one in remembered), tuple(looks))


def recall(engine: Engine, tangle: str | int) -> Recalled | None:
    """A copy of what an engine remembers of a tangle; None where nothing is."""
    state = engine.arrivals.tangles.get(tangle)
    if state is None:
        return None
    raw = engine.arrivals.sightings.raw
    still = replace(state, rows=state.rows.copy(), live=OrderedDict(), holders={}, alike={})
    remembered = tuple(raw[row] for row in state.rows)
    return Recalled(engine.model, engine.limits, engine.threshold, still, remembered)


def _kind(rule: Rule, one: Remembered, other: Remembered, relation: int) -> str:
    """How the item that is looked at, the other, stands to the one that looks."""
    if (one.item.key, one.number) == (other.item.key, other.number):
        return "own"
    if rule.relations:
        return KINDS.get(rule.relations[relation], "other")
    is_alike = isinstance(rule, PaperRule) or (one.match is not None and one.match == other.match)
    return "value" if is_alike else "other"
