"""The KVEC network: encoder, one gated state per sequence, and its heads (§IV).

Letters: B tangles, T items of a block, N real items of it, S sequences, D width, R size of the representation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kvec.decide.dial import mixture
from kvec.encode.attention import AttentionBlock, Cache
from kvec.encode.embedding import Embedding
from kvec.encode.fusion import Fusion, Steps
from kvec.encode.sparse import Lists
from kvec.tangle.batch import Batch, Block, Draw, Ints
from kvec.tangle.tangles import embedded_sizes
from kvec.tangle.visibility import Rule
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Encoder
from kvec.words.sizes import Vocabularies


@dataclass(frozen=True)
class Outputs:
    """What the heads say after each of N items, sequence by sequence."""

    halt: Tensor  # (N,) logit of Halt
    classes: tuple[Tensor, ...]  # of each label column, (N, classes) logits
    baseline: Tensor  # (N,)
    knots: Tensor | None = None  # (N, P) logits of Halt at each knot of the dial, where there are some

    @classmethod
    def joined(cls, parts: list[Outputs]) -> Outputs:
        """Several blocks' outputs as one."""
        return cls(
            torch.cat([p.halt for p in parts]),
            tuple(torch.cat(logits) for logits in zip(*(p.classes for p in parts), strict=True)),
            torch.cat([p.baseline for p in parts]),
        )

    def taken(self, order: Tensor) -> Outputs:
        """The same in another order."""
        order = order.to(self.halt.device)
        halt, *classes, baseline = (t.index_select(0, order) for t in self.tensors())
        return Outputs(halt, tuple(classes), baseline)

    def detached(self) -> Outputs:
        """The same as leaves of a new graph."""
        halt, *classes, baseline = (t.detach().requires_grad_() for t in self.tensors())
        return Outputs(halt, tuple(classes), baseline)

    def whole(self) -> Outputs:
        """The same in single precision, whatever they were reckoned in."""
        halt, *classes, baseline = (t.float() for t in self.tensors())
        return replace(self, halt=halt, classes=tuple(classes), baseline=baseline)

    def tensors(self) -> list[Tensor]:
        """All of them."""
        return [self.halt, *self.classes, self.baseline]


@dataclass
class State:
    """What the network remembers from block to block: plain tensors, owned by the caller."""

    hidden: Tensor  # (S, R) representation of each sequence
    memory: Tensor  # (S, R) cell memory of each sequence
    caches: list[Cache | None]  # per attention block


class Network(nn.Module):
    """Embedding, attention blocks, fusion; classifier per label column, halting policy and baseline."""

    dial: Tensor

    def __init__(
        self, vocabularies: Vocabularies, settings: Encoder, n_classes: tuple[int, ...], n_relations: int = 0
    ) -> None:
        super().__init__()
        self.settings = settings
        self.n_classes = n_classes
        self.embedding = Embedding(vocabularies, settings.width)
        self.blocks = nn.ModuleList(
            AttentionBlock(settings.width, settings.heads, settings.feed_forward, settings.dropout, n_relations)
            for _ in range(settings.blocks)
        )
        self.norm = nn.LayerNorm(settings.width)
        self.fusion = Fusion(settings.width, settings.fusion)
        self.classifiers = nn.ModuleList(nn.Linear(settings.fusion, n) for n in n_classes)
        self.policy = nn.Linear(settings.fusion, settings.knots)
        if settings.knots > 1:
            self.register_buffer("dial", torch.ones(settings.knots) / settings.knots)
        self.baseline = nn.Sequential(nn.Linear(settings.fusion, 64), nn.ReLU(), nn.Linear(64, 1))
        nn.init.constant_(self.policy.bias, -4.0)  # wait at first: every length gets to be seen

    def turn(self, delay_cost: float) -> None:
        """Let the policy halt as befits this delay cost; without knots it knows its own alone."""
        if self.settings.knots > 1:
            self.dial = torch.as_tensor(mixture(delay_cost, self.settings.knots)[0]).to(self.policy.weight)

    def favour(self, biases: Sequence[float]) -> None:
        """Let attention begin with a bias for each relation of two items."""
        with torch.no_grad():
            for layer in self.layers():
                if layer.attention.relation is not None:
                    layer.attention.relation.copy_(torch.tensor(biases))

    def layers(self) -> list[AttentionBlock]:
        """The attention blocks, first to last."""
        return [block for block in self.blocks if isinstance(block, AttentionBlock)]

    def new_state(self, n_sequences: int) -> State:
        """The memory of tangles of which nothing has been seen."""
        empty = self.policy.weight.new_zeros(n_sequences, self.settings.fusion)
        return State(empty, empty, [None] * len(self.blocks))

    def encode(self, block: Block, state: State, keep: int | None = None) -> Tensor:
        """Embed and mix a block's items, (B, T, D); keep the caches of the newest `keep` items in the state."""
        x = self.embedding(block.codes, block.numbers, block.slot, block.position, block.arrival, block.gaps)
        visible = lists_of(block)
        for i, layer in enumerate(self.layers()):
            before = state.caches[i]
            x, cache = layer(x, visible, before.last(block.n_context) if before else None)
            state.caches[i] = cache.last(min(keep, cache.k.shape[1])) if keep else None
        mixed: Tensor = self.norm(x)
        return mixed

    def forward(
        self, block: Block, state: State, keep: int | None = None, detach_policy: bool = False,
        dials: Tensor | None = None,
    ) -> Outputs:  # fmt: skip
        """Run a block on top of `state`, which moves on to the block's end unless `keep` is None: no block follows.

        With `dials`, (B, knots), each tangle's policy is mixed by its own row, and else by the network's dial.
        """
        fused = self.fuse(self.encode(block, state, keep), block, state, keep)
        return self.heads(fused, detach_policy, None if dials is None else dials[block.owners])

    def fuse(self, mixed: Tensor, block: Block, state: State, keep: int | None = None) -> Tensor:
        """The representation after each of the block's items, (N, R), from their embeddings (B, T, D)."""
        steps, who = Steps(block.step_rows, block.step_places, block.step_sizes), block.sequences
        fused: Tensor
        fused, hidden, memory = self.fusion(mixed.flatten(0, 1), steps, state.hidden[who], state.memory[who])
        if keep is not None:
            state.hidden = state.hidden.index_copy(0, who, hidden.detach())
            state.memory = state.memory.index_copy(0, who, memory.detach())
        return fused

    def heads(self, representation: Tensor, detach_policy: bool = False, dial: Tensor | None = None) -> Outputs:
        """What (N, R) representations say; the baseline never trains the representation."""
        apart = representation.detach()
        knots = self.policy(apart if detach_policy else representation)  # (N, P)
        has_dial = self.settings.knots > 1
        return Outputs(
            (knots * (self.dial if dial is None else dial)).sum(-1) if has_dial else knots.squeeze(-1),
            tuple(classifier(representation) for classifier in self.classifiers),
            self.baseline(apart).squeeze(-1),
            knots if has_dial else None,
        )

    def no_outputs(self) -> Outputs:
        """What is said of no items at all."""
        return self.heads(self.policy.weight.new_zeros(0, self.settings.fusion))


def build_network(
    vocabulary: Vocabulary, settings: Encoder, has_time: bool, kind: type[Network] = Network, n_relations: int = 0
) -> Network:
    """A network for this vocabulary, with the embeddings that the settings switch on; relations may have biases."""
    classes = tuple(len(classes) for classes in vocabulary.labels)
    return kind(embedded_sizes(vocabulary, settings, has_time), settings, classes, n_relations)


def run_blocks(
    network: Network,
    batch: Batch,
    rule: Rule,
    size: int,
    draw: Draw | None = None,
    detach_policy: bool = False,
    dials: Tensor | None = None,
    precision: torch.dtype | None = None,
) -> Iterator[tuple[Block, Outputs]]:
    """Run whole tangles block by block, each on the detached caches of those before.

    With a `precision`, products are reckoned in it where PyTorch holds that to be safe.
    """
    longest = int(batch.tangles.sizes[batch.members].max())
    keep = rule.window - 1 if longest > size else None
    state = network.new_state(len(batch.sequences))
    device = network.policy.weight.device
    for block in batch.blocks(rule, size, network.settings.slots, draw):
        block = to_device(block, device)
        if precision is None:
            yield block, network(block, state, keep, detach_policy, dials)
        else:
            with torch.autocast(device.type, precision):
                outputs = network(block, state, keep, detach_policy, dials)
            yield block, outputs.whole()


def lists_of(block: Block) -> Lists:
    """What the block's items see, as attention takes it."""
    return Lists(block.starts, block.rows, block.relation, block.n_context + block.codes.shape[1])


def to_device(block: Block, device: torch.device) -> Block:
    """The block with its tensors on a device."""
    if device.type == "cpu":
        return block
    moved: dict[str, Any] = {name: v.to(device) for name, v in vars(block).items() if isinstance(v, Tensor)}
    return replace(block, **{**moved, "step_sizes": block.step_sizes})


def in_batch_order(parts: list[Ints], batch: Batch) -> Tensor:
    """Where each item of the batch, sequence by sequence, lies in the joined outputs of blocks with these items."""
    items = np.concatenate(parts)
    order = np.argsort(items, kind="stable")
    return torch.from_numpy(order[np.searchsorted(items, batch.items, sorter=order)])
