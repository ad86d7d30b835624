"""Batches of tangles of like length, cut into blocks, as tensors.

Letters: B tangles, T items of a block, C items of context before it, S sequences, N real items, F fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import Rule
from kvec.tangle.vocabulary import MISSING, UNKNOWN

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """Some consecutive items of each of B tangles, ready for the network."""

    codes: Tensor  # (B, T, F) embedded fields
    numbers: Tensor  # (B, T, 2 × projected fields)
    slot: Tensor  # (B, T) membership
    position: Tensor  # (B, T) index in the sequence
    arrival: Tensor  # (B, T) index in the tangle
    gaps: Tensor | None  # (B, T, 2)
    starts: Tensor  # (B·T + 1,) item r of the flattened block sees rows[starts[r]:starts[r + 1]]
    rows: Tensor  # (pairs,) int32, rows of its tangle's C + T items
    relation: Tensor  # (pairs,) uint8, for which a bias is added to the attention score
    n_context: int  # C
    step_rows: Tensor  # (N,) where each real item lies among the B·T, step by step, the longest sequence first
    step_places: Tensor  # (N,) where it lies sequence by sequence
    step_sizes: Tensor  # (L,) how many sequences reach each step
    sequences: Tensor  # (S,) which they are among the batch's, the longest first
    owners: Tensor  # (N,) which of the B tangles each belongs to, sequence by sequence
    items: Ints  # (N,) indices in the table, sequence by sequence


@dataclass(frozen=True)
class Draw:
    """What training varies at random per tangle, so that no network learns it by heart."""

    slots: Ints  # (B, slots) a permutation of the membership slots
    offset: Ints  # (B,) added to the order of arrival
    hidden: npt.NDArray[np.bool_] | None  # (B, longest, F) values shown as unknown

    def taken(self, rows: Ints) -> Draw:
        """Of some of the tangles."""
        return Draw(self.slots[rows], self.offset[rows], None if self.hidden is None else self.hidden[rows])


@dataclass(frozen=True)
class Batch:
    """Whole tangles, and all their sequences; where several processes share a batch, those that are here."""

    tangles: Tangles
    members: Ints  # (B,) tangle numbers
    sequences: Ints  # (S,) sequence numbers, tangle by tangle
    items: Ints  # (N,) item numbers, sequence by sequence
    offsets: Ints  # (S + 1,) where each sequence starts among them
    sizes: Ints  # items of every tangle of the batch, also of those that are elsewhere
    here: Ints  # (B,) which of those the members are

    @classmethod
    def of(cls, tangles: Tangles, members: Ints, sizes: Ints | None = None, here: Ints | None = None) -> Batch:
        """The batch of these tangles, which may be some of a batch of tangles of these sizes."""
        bounds = tangles.sequence_starts
        sequences = ranges(bounds[members], bounds[members + 1])
        items = tangles.sequences.by_sequence[ranges(tangles.offsets[sequences], tangles.offsets[sequences + 1])]
        offsets = np.concatenate([[0], np.cumsum(tangles.sequences.length[sequences], dtype=np.int64)])
        sizes = tangles.sizes[members] if sizes is None else sizes
        return cls(tangles, members, sequences, items, offsets, sizes, np.arange(len(sizes)) if here is None else here)

    @property
    def places(self) -> Ints:
        """(N,) where the items lie among those of the whole batch."""
        ends = np.cumsum(self.sizes)
        return ranges((ends - self.sizes)[self.here], ends[self.here])

    def draw(self, rng: np.random.Generator, slots: int, modulus: int, hide: float = 0.0) -> Draw:
        """Choose slots, offsets and hidden values at random; for the whole batch, so that all processes draw alike."""
        order = rng.random((len(self.sizes), slots)).argsort(axis=1)
        offset = rng.integers(0, modulus, len(self.sizes))
        shape = len(self.sizes), int(self.sizes.max()), self.tangles.codes.shape[1]
        hidden = rng.random(shape, dtype=np.float32) < hide if hide else None
        return Draw(order, offset, hidden).taken(self.here)

    def blocks(self, rule: Rule, size: int, slots: int, draw: Draw | None = None) -> Iterator[Block]:
        """The tangles in blocks of at most `size` items, each with as much context as the rule's window reaches."""
        longest = int(self.tangles.sizes[self.members].max())
        for first in range(0, longest, size):
            yield self._block(rule, first, min(first + size, longest), slots, draw)

    def _block(self, rule: Rule, first: int, last: int, slots: int, draw: Draw | None) -> Block:
        t = self.tangles
        starts, sizes = t.starts[self.members], t.sizes[self.members]
        arrival = np.arange(first, last)
        real = arrival[None, :] < sizes[:, None]  # (B, T)
        items = np.where(real, starts[:, None] + arrival, starts[:, None])
        sequence = t.sequences.sequence[items]
        opened = sequence - t.sequence_starts[self.members][:, None]
        slot, order = opened % slots, np.broadcast_to(arrival, items.shape)
        codes = t.codes[items]
        if draw is not None:
            if draw.hidden is not None:
                codes[draw.hidden[:, first:last] & (codes != MISSING)] = UNKNOWN
            slot = np.take_along_axis(draw.slots, slot, axis=1)
            order = order + draw.offset[:, None]
        return Block(
            codes=torch.from_numpy(codes),
            numbers=torch.from_numpy(t.numbers[items]),
            slot=torch.from_numpy(slot.astype(np.int64)),
            position=torch.from_numpy(t.sequences.position[items].astype(np.int64)),
            arrival=torch.from_numpy(order.astype(np.int64)),
            gaps=None if t.gaps is None else torch.from_numpy(t.gaps[items].astype(np.int64)),
            **self._visible(rule, first, last),
            **self._sequences(items, real),
        )

    def _visible(self, rule: Rule, first: int, last: int) -> dict[str, Any]:
        """What each item of the block sees; padding sees nothing."""
        context = min(first, rule.window - 1)
        counts = np.zeros((len(self.members), last - first), np.int64)
        rows, relation = [], []
        for row, tangle in enumerate(self.members):
            start, end = int(self.tangles.starts[tangle]), int(self.tangles.starts[tangle + 1])
            if start + first < end:
                seen = rule.look(self.tangles, int(tangle), start + first, min(start + last, end))
                counts[row, : len(seen.starts) - 1] = np.diff(seen.starts)
                rows.append((seen.items - (start + first - context)).astype(np.int32))
                relation.append(seen.relation)
        return {
            "starts": torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])),
            "rows": torch.from_numpy(np.concatenate(rows)),
            "relation": torch.from_numpy(np.concatenate(relation)),
            "n_context": context,
        }

    def _sequences(self, items: Ints, real: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """The block's real items, sequence by sequence and step by step."""
        owners = self.tangles.sequences.sequence
        rows = np.flatnonzero(real)
        flat = items.ravel()[rows]
        rows = rows[np.lexsort((flat, owners[flat]))]
        flat = items.ravel()[rows]
        owner, starts, counts = np.unique(owners[flat], return_index=True, return_counts=True)
        longest_first = np.argsort(-counts, kind="stable")
        rank = np.empty(len(owner), np.int64)
        rank[longest_first] = np.arange(len(owner))
        step = np.arange(len(rows)) - np.repeat(starts, counts)
        order = np.lexsort((np.repeat(rank, counts), step))
        return {
            "step_rows": torch.from_numpy(rows[order]),
            "step_places": torch.from_numpy(order),
            "step_sizes": torch.from_numpy(np.bincount(step)),
            "sequences": torch.from_numpy(_find(self.sequences, owner)[longest_first]),
            "owners": torch.from_numpy(rows // items.shape[1]),
            "items": flat,
        }


def plan_batches(
    sizes: Ints, batch: int, batch_items: int, block: int, rng: np.random.Generator | None = None
) -> list[Ints]:
    """Group tangles of like size; with a generator, at random (tangles are sorted within pools of some batches).

    >>> [b.tolist() for b in plan_batches(np.array([5, 1, 4, 2]), batch=2, batch_items=100, block=100)]
    [[1, 3], [2, 0]]
    """
    order = np.arange(len(sizes)) if rng is None else rng.permutation(len(sizes))
    pool = max(len(order), 1) if rng is None else batch * 32
    batches: list[Ints] = []
    for start in range(0, len(order), pool):
        part = order[start : start + pool]
        part = part[np.argsort(sizes[part], kind="stable")]
        current: list[int] = []
        for tangle in part:
            padded = (len(current) + 1) * min(int(sizes[tangle]), block)
            if current and (len(current) >= batch or padded > batch_items):
                batches.append(np.array(current, np.int64))
                current = []
            current.append(int(tangle))
        batches.append(np.array(current, np.int64))
    if rng is not None:
        batches = [batches[i] for i in rng.permutation(len(batches))]
    return batches


def ranges(starts: Ints, ends: Ints) -> Ints:
    """The numbers of several ranges, one after the other."""
    counts = ends - starts
    return np.repeat(ends - np.cumsum(counts), counts) + np.arange(int(counts.sum()))


def _find(values: Ints, wanted: npt.NDArray[np.integer[Any]]) -> Ints:
    order = np.argsort(values)
    return order[np.searchsorted(values, wanted, sorter=order)]
