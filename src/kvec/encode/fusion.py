"""Gated fusion of item embeddings into one representation per sequence (§IV-B).

Letters: M items with padding, N real ones, S sequences, D width, R size of the representation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from kvec.encode import loops


@dataclass(frozen=True)
class Steps:
    """The N items of S sequences, step by step: of each step the sequences that reach it, the longest first."""

    rows: Tensor  # (N,) where each item lies among the M
    places: Tensor  # (N,) where its representation shall lie
    sizes: Tensor  # (L,) how many sequences reach each step; always on the CPU


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

    def forward(self, items: Tensor, steps: Steps, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Fuse (M, D) onto states (S, R): representations after every item, (N, R); hidden and memory at the ends."""
        if loops.can_take(items) and loops.whole(self.size, items) == self.size:
            cell: dict[str, Tensor] = dict(self.cell.named_parameters())
            fused, hidden, memory = _Cell.apply(  # type: ignore[no-untyped-call]
                items, cell["weight_ih_l0"], cell["weight_hh_l0"], cell["bias_ih_l0"] + cell["bias_hh_l0"],
                hidden, memory.contiguous(), steps.rows.contiguous(), steps.places.contiguous(), steps.sizes,
            )  # fmt: skip
            return fused, hidden, memory
        packed = PackedSequence(items.index_select(0, steps.rows), steps.sizes)
        found, (hidden, memory) = self.cell(packed, (hidden[None], memory[None]))
        return found.data.index_select(0, steps.places.argsort()), hidden[0], memory[0]


class _Cell(torch.autograd.Function):
    """The same as nn.LSTM: the products with all items at once by PyTorch, the steps in C."""

    @staticmethod
    def forward(
        ctx: Any, items: Tensor, weight_in: Tensor, weight: Tensor, bias: Tensor, hidden: Tensor, memory: Tensor,
        rows: Tensor, places: Tensor, sizes: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        gates = (items @ weight_in.t()).to(items.dtype)
        size = weight.shape[1]
        n, offsets = len(rows), sizes.cumsum(0) - sizes
        ends, held, memories = _copy(hidden), _copy(memory), items.new_empty(n, size)
        bent, before, out = items.new_empty(n, size), items.new_empty(len(items), size), items.new_empty(n, size)
        is_padding = torch.ones(len(items), dtype=torch.bool)
        is_padding[rows] = False
        padding = is_padding.nonzero()[:, 0]
        before[padding] = 0.0
        across = weight.t().contiguous()

        def run(first: int, last: int) -> None:
            loops.call("kvec_cell", gates, bias, across, sizes, offsets, len(offsets), rows, places, size,
                       first, last, ends, held, memories, bent, before, out)  # fmt: skip

        loops.in_threads(run, len(hidden))
        ctx.save_for_backward(items, weight_in, weight, memory, gates, memories, bent, before, padding)
        ctx.layout = sizes, offsets, len(offsets), rows, places, size
        return out, ends, held

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        items, weight_in, weight, start, gates, memories, bent, before, padding = ctx.saved_tensors
        grad, d_hidden, d_memory = gradients[0].contiguous(), _copy(gradients[1]), _copy(gradients[2])
        d_gates = torch.empty_like(gates)
        d_gates[padding] = 0.0

        def back(first: int, last: int) -> None:
            loops.call("kvec_cell_back", gates, weight, *ctx.layout, first, last, start, memories, bent, grad, d_hidden,
                       d_memory, d_gates)  # fmt: skip

        loops.in_threads(back, len(d_hidden))
        across = d_gates.t()
        d_weights = across @ items, across @ before, d_gates.sum(0)
        return d_gates @ weight_in, *d_weights, d_hidden, d_memory, None, None, None


def _copy(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)
