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
        self._sizes, self._starts = sizes, sizes.starts()
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
        """Items that are booked and have not run yet."""
        return self._arriving.n

    def book(self, item: Item, coded: Coded, time: float | None, wall: float) -> Booked:
        """Book an item for which there is room, and write down what the network needs of it."""
        booked = self.arrivals.book(item, coded, time, wall)
        arriving, i, live = self._arriving, self._arriving.n, booked.live
        arriving.index[i] = self._index(booked)
        if coded.numbers:
            arriving.numbers[i] = coded.numbers
        arriving.rows[i] = booked.row
        arriving.places[i] = live.place
        if booked.position == 0:
            self.begin(live)
        n = int(arriving.starts[i])
        if n + self._most > len(arriving.seen):
            arriving.make_room(2 * len(arriving.seen) + self._most)
        arriving.starts[i + 1] = self.arrivals.sightings.see(booked, arriving.seen, arriving.relation, n)
        arriving.n = i + 1
        return booked

    def begin(self, live: Live) -> None:
        """Let a sequence begin with an empty state."""
        self.memory.make_room(0, self.arrivals.n_places)
        self.memory.clear(live.place)

    def run(self) -> npt.NDArray[Any]:
        """Run the booked items; what the heads say after each: halting logit, class logits."""
        self.memory.make_room(len(self.arrivals.sightings.links.items), self.arrivals.n_places)
        said = self.kernel.run(self.memory, self._arriving)
        self._arriving.n = 0
        self.arrivals.settle()
        return said

    def _index(self, booked: Booked) -> list[int]:
        """The rows of an item's parts in the embedding table, in the order of `Vocabularies`."""
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
        return [start + code for start, code in zip(self._starts, parts, strict=True)]

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
        raw, live = len(self.arrivals.sightings.raw), len(self.arrivals.live)
        rows, places = len(self.memory.cache), len(self.memory.hidden)
        if (8 * raw < rows - LEAST_ROWS or 8 * live < places - 64) and raw + live <= most:
            self.restore(*self.to_plain(), coder)
