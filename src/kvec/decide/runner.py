"""The network over booked items: books them, runs them as one causal block, and keeps what must be remembered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.kernel import Arriving, Kernel, Memory
from kvec.tangle.arrivals import Arrivals
from kvec.tangle.coder import Coded, Coder
from kvec.tangle.live import Booked, Live
from kvec.tangle.sightings import LEAST_ROWS
from kvec.tangle.tangles import gap_step
from kvec.tangle.visibility import make_rule
from kvec.words.config import Config
from kvec.words.errors import ModelError
from kvec.words.items import Item
from kvec.words.limits import Limits
from kvec.words.sizes import Vocabularies

CHUNK = 1024  # items that run as one block at the most


class Runner:
    """One network, its memory and its bookkeeping."""

    def __init__(
        self, weights: Mapping[str, npt.NDArray[Any]], config: Config, sizes: Vocabularies, limits: Limits,
        session_gap: float | None = None, dtype: npt.DTypeLike = np.float32, kernel: type[Kernel] = Kernel,
        like: Runner | None = None,
    ) -> None:  # fmt: skip
        rule = make_rule(config.visibility)
        self._most = min(rule.most, limits.max_cached_items)  # that one item can see
        self._sizes, self._starts = sizes, np.array(sizes.starts(), np.int64)
        self.kernel: Kernel
        self._arriving: Arriving
        if like is not None:  # neither remembers anything between two runs
            self.kernel, self._arriving = like.kernel, like._arriving
        else:
            self.kernel = kernel(weights, config.encoder, dtype, n_relations=len(rule.relations))
            self._arriving = Arriving(CHUNK, len(self._starts), sizes.projected, dtype)
        if (len(self.kernel.table), len(self.kernel.project)) != (sum(sizes.sizes()), sizes.projected):
            raise ModelError("the weights do not have a row for each value of the vocabulary")
        self.memory = Memory(config.encoder, self.kernel.n_outputs, dtype)
        self.arrivals = Arrivals(rule, limits, config.encoder.slots, session_gap)

    @property
    def n(self) -> int:
        """Items that are booked and have not run yet, one that an interruption left half booked included."""
        return max(len(self._arriving.booked), self.arrivals.sightings.n_added)

    def book(self, item: Item, coded: Coded, time: float | None, wall: float) -> Booked:
        """Book an item for which there is room, and write down what the network needs of it."""
        booked = self.arrivals.book(item, coded, time, wall)
        if booked.position == 0:
            self.begin(booked.live)
        self._arriving.booked.append((self._parts(booked), coded.numbers, booked.row, booked.live.place))
        return booked

    def begin(self, live: Live) -> None:
        """Let a sequence begin with an empty state."""
        self.memory.make_room(0, self.arrivals.n_places)
        self.memory.clear(live.place)

    def run(self) -> npt.NDArray[Any]:
        """Run the booked items; what the heads say after each: halting logit, class logits."""
        arriving, sightings = self._arriving, self.arrivals.sightings
        arriving.lay_out(self._starts)
        added, n = sightings.added(), 0
        if len(added) != arriving.n:
            raise ModelError("this stream was interrupted in the middle of an item; go on from a saved state")
        while (n := sightings.see(added, n, arriving.seen, arriving.relation, arriving.starts)) < len(added):
            arriving.make_room(2 * len(arriving.seen) + self._most)
        self.memory.make_room(len(sightings.links.items), self.arrivals.n_places)
        said = self.kernel.run(self.memory, arriving)
        arriving.booked.clear()  # where this was interrupted, nothing more is taken
        self.arrivals.settle()
        return said

    def _parts(self, booked: Booked) -> list[int]:
        """The numbers of an item's parts, in the order of `Vocabularies`."""
        sizes = self._sizes
        parts = list(booked.coded.codes)
        if sizes.slots:
            parts.append(booked.live.slot)
        if sizes.positions:
            parts.append(min(booked.position, sizes.positions - 1))
        if sizes.arrivals:
            parts.append(booked.arrival % sizes.arrivals)
        if sizes.gaps:
            parts += (gap_step(booked.gap), gap_step(booked.tangle_gap))
        return parts

    # -- plain data ---------------------------------------------------------------------------------------------

    def to_plain(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """All that is remembered."""
        facts, arrays = self.arrivals.to_plain()
        rows, places = arrays.pop("rows"), arrays.pop("places")
        return facts, {
            **arrays, "cache": self.memory.cache[rows], "hidden": self.memory.hidden[places],
            "cell": self.memory.cell[places], "outputs": self.memory.outputs[places],
        }  # fmt: skip

    def restore(self, facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], coder: Coder) -> None:
        """Remember what `to_plain` told, and nothing else."""
        self.arrivals.restore(facts, arrays, coder)
        self.memory.restore(arrays, len(self.arrivals.sightings.links.items))

    def shrink(self, coder: Coder, most: float = math.inf) -> None:
        """Give back memory that a busier time needed, if no more than `most` items and sequences are to be moved."""
        cached, live = self.arrivals.n_cached, len(self.arrivals.live)
        rows, places = len(self.memory.cache), len(self.memory.hidden)
        n_moved = len(self.arrivals.sightings.raw) + live
        if (8 * cached < rows - LEAST_ROWS or 8 * live < places - 64) and n_moved <= most:
            self.restore(*self.to_plain(), coder)
