"""Where the network looks: the attention of every item of a tangle to the items before it (§V-E of the paper)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from kvec.decide.model import Network, Outputs, State, lists_of, to_device
from kvec.tangle.batch import Batch, Block
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import Rule

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Looked:
    """What T items of a tangle made of it; attention is the mean over heads and blocks."""

    first: int  # of the items, in the table
    origin: int  # of the items that can be seen
    shares: torch.Tensor  # (T, seen items), each row sums to 1
    relation: npt.NDArray[np.uint8]  # (T, seen items) how each stands to those it sees; 0 where it does not see
    items: npt.NDArray[np.int64]  # (T,) the same items in the order of the outputs
    outputs: Outputs


@torch.no_grad()
def look_through(network: Network, tangles: Tangles, rule: Rule, tangle: int, block: int = 4096) -> Iterator[Looked]:
    """Run one tangle block by block, and tell where its items look."""
    batch = Batch.of(tangles, np.array([tangle]))
    state = network.new_state(len(batch.sequences))
    keep = rule.window - 1 if tangles.sizes[tangle] > block else None
    first = int(tangles.starts[tangle])
    for part in batch.blocks(rule, block, network.settings.slots):
        part = to_device(part, network.policy.weight.device)
        shares = _shares(network, part, state)
        outputs = network(part, state, keep)
        yield Looked(first, first - part.n_context, shares, _relations(part, shares), part.items, outputs)
        first += shares.shape[0]


def attention_shares(
    network: Network, tangles: Tangles, rule: Rule, members: npt.NDArray[np.int64], block: int = 4096
) -> tuple[Floats, Floats]:
    """Attention to the own sequence and to others, for the items of these tangles, sequence by sequence."""
    inside = np.zeros(tangles.n_items)
    owner = tangles.sequences.sequence
    was_training = network.training
    network.eval()
    for tangle in members:
        for seen in look_through(network, tangles, rule, int(tangle), block):
            t, n = seen.shares.shape
            is_own = owner[seen.first : seen.first + t, None] == owner[None, seen.origin : seen.origin + n]
            inside[seen.first : seen.first + t] = (seen.shares.cpu().numpy() * is_own).sum(axis=1)
    network.train(was_training)
    chosen = np.concatenate([np.arange(tangles.sequence_starts[g], tangles.sequence_starts[g + 1]) for g in members])
    order = tangles.sequences.by_sequence
    rows = np.concatenate([order[tangles.offsets[s] : tangles.offsets[s + 1]] for s in chosen])
    return inside[rows], 1 - inside[rows]


def _relations(part: Block, shares: torch.Tensor) -> npt.NDArray[np.uint8]:
    found = np.zeros(shares.shape, np.uint8)
    found[np.repeat(np.arange(len(found)), np.diff(part.starts.cpu())), part.rows.cpu()] = part.relation.cpu()
    return found


def _shares(network: Network, part: Block, state: State) -> torch.Tensor:
    x = network.embedding(part.codes, part.numbers, part.slot, part.position, part.arrival, part.gaps)
    visible = lists_of(part)
    total: torch.Tensor = x.new_zeros(x.shape[1], visible.n_keys)
    for i, layer in enumerate(network.layers()):
        before = state.caches[i]
        context = before.last(part.n_context) if before else None
        total += layer.attention.weights(layer.norm1(x), visible, context)[0]
        x, _ = layer(x, visible, context)
    return total / len(network.blocks)
