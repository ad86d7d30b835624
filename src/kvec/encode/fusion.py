"""Gated fusion of item embeddings into one representation per sequence (§IV-B).

Letters: L steps, S sequences of a group, D width, R size of the representation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Fusion(nn.Module):
    """The paper's gates f, i, o around a cell memory: an LSTM over each sequence's own items."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.cell = nn.LSTM(width, size)
        with torch.no_grad():
            for name, parameter in self.cell.named_parameters():
                if name.startswith("bias"):
                    parameter.zero_()
                if name.startswith("bias_ih"):
                    parameter[size : 2 * size] = 1.0  # remember at first

    def forward(self, embedded: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Fuse (L, S, D) onto states (S, R): representations at every step, (L, S, R), memory after the last."""
        representations, (_, memory) = self.cell(embedded, (hidden[None], memory[None]))
        return representations, memory[0]
