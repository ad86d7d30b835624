"""The networks of the paper's rivals (§V-A): they share embeddings, heads and training with KVEC, and see less.

Every sequence is to be a tangle of its own for them, so that nothing of another key can reach it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kvec.decide.model import Network, Outputs, State
from kvec.tangle.batch import Block
from kvec.words.config import Encoder
from kvec.words.sizes import Vocabularies


class Recurrent(Network):
    """EARLIEST: an LSTM over each sequence's items, without attention."""

    def __init__(
        self, vocabularies: Vocabularies, settings: Encoder, n_classes: tuple[int, ...], n_relations: int = 0
    ) -> None:
        super().__init__(vocabularies, settings, n_classes, n_relations)
        self.blocks = nn.ModuleList()


class Transformer(Network):
    """SRN: a causal Transformer over each sequence; the newest item's embedding is the representation."""

    def __init__(
        self, vocabularies: Vocabularies, settings: Encoder, n_classes: tuple[int, ...], n_relations: int = 0
    ) -> None:
        super().__init__(vocabularies, settings, n_classes, n_relations)
        del self.fusion
        self.widen = nn.Linear(settings.width, settings.fusion)

    def fuse(self, mixed: Tensor, block: Block, state: State, keep: int | None = None) -> Tensor:
        """The representation after each of the block's items, (N, R)."""
        newest = mixed.flatten(0, 1).index_select(0, block.step_rows[block.step_places.argsort()])
        return torch.tanh(self.widen(newest))


class Sure(Network):
    """KVEC without a policy: its halting score is the probability of its best class."""

    def heads(self, representation: Tensor, detach_policy: bool = False, dial: Tensor | None = None) -> Outputs:
        """What (N, R) representations say; nothing is learned about halting."""
        said = super().heads(representation, detach_policy, dial)
        logits = said.classes[0].detach()
        best = logits.argmax(dim=-1, keepdim=True)
        others = logits.scatter(1, best, -torch.inf).logsumexp(dim=-1)
        return Outputs(logits.gather(1, best)[:, 0] - others, said.classes, said.baseline)


class Confident(Sure, Transformer):
    """SRN without a policy, so θ is SRN-Confidence's μ."""
