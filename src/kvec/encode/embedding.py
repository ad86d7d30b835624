"""Input embedding: value + membership + relative position + time, fixed at an item's arrival (§IV-B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kvec.encode import loops
from kvec.words.sizes import Vocabularies


class Embedding(nn.Module):
    """The sum of one learned vector per part; all tables lie in one matrix, so that one look-up adds them up."""

    starts: Tensor

    def __init__(self, vocabularies: Vocabularies, width: int) -> None:
        super().__init__()
        self.vocabularies = vocabularies
        sizes = vocabularies.sizes()
        self.register_buffer("starts", torch.tensor(vocabularies.starts(), dtype=torch.int64), persistent=False)
        self.table = nn.Parameter(torch.randn(sum(sizes), width) * (width * max(len(self.starts), 1)) ** -0.5)
        self.project = nn.Linear(vocabularies.projected, width, bias=False) if vocabularies.projected else None

    def forward(
        self, codes: Tensor, numbers: Tensor, slot: Tensor, position: Tensor, arrival: Tensor, gaps: Tensor | None
    ) -> Tensor:
        """Embed (B, T) items as (B, T, D)."""
        sizes = self.vocabularies
        parts: list[Tensor] = [codes.to(torch.int64)]
        if sizes.slots:
            parts.append(slot[..., None])
        if sizes.positions:
            parts.append(position.clamp(max=sizes.positions - 1)[..., None])
        if sizes.arrivals:
            parts.append((arrival % sizes.arrivals)[..., None])
        if sizes.gaps:
            assert gaps is not None
            parts.append(gaps)
        index = torch.cat(parts, dim=-1) + self.starts  # (B, T, parts)
        flat = index.flatten(0, -2)
        if flat.shape[1]:
            embedded = look_up(flat, self.table)
        else:  # numbers alone
            embedded = self.table.new_zeros(flat.shape[0], self.table.shape[1])
        if self.project is not None:
            embedded = embedded + self.project(numbers.to(embedded.dtype).flatten(0, -2))
        return embedded.view(*index.shape[:-1], -1)

    @torch.no_grad()
    def start_from(self, field: int, rows: Mapping[int, Sequence[float]]) -> None:
        """Let codes of a field start from given vectors."""
        for code, vector in rows.items():
            self.table[int(self.starts[field]) + code] = torch.as_tensor(vector, dtype=self.table.dtype)


def look_up(index: Tensor, table: Tensor) -> Tensor:
    """The sum of the rows of a table that each row of (N, parts) names."""
    if not loops.can_take(table):
        return functional.embedding_bag(index, table, mode="sum")
    found: Tensor = _LookUp.apply(index.contiguous(), table)  # type: ignore[no-untyped-call]
    return found


class _LookUp(torch.autograd.Function):
    """The same with a gradient that is added up row by row, without sorting the rows first."""

    @staticmethod
    def forward(ctx: Any, index: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return functional.embedding_bag(index, table, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        (index,) = ctx.saved_tensors
        table = gradients[0].new_zeros(ctx.shape)
        loops.call("kvec_add_rows", gradients[0].contiguous(), index, *index.shape, table.shape[1], table)
        return None, table
