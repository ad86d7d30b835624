"""Attention over lists of visible items on a CPU: the work and the memory are those of the visible pairs alone.

Letters: B tangles, T queries, J keys (context and block), D width, H heads, P visible pairs, R relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kvec.encode import loops


@dataclass(frozen=True)
class Lists:
    """What each of B·T queries sees: rows of its tangle's J keys, the newest n of them its own block."""

    starts: Tensor  # (B·T + 1,) int64
    rows: Tensor  # (P,) int32
    relation: Tensor  # (P,) uint8, by which a table (H, R) tells what is added to the scores
    n_keys: int  # J

    def dense(self, b: int, t: int, dtype: torch.dtype, table: Tensor | None = None) -> Tensor:
        """The same as an additive mask, (B, H, T, J), or (B, 1, T, J) where there is no table of biases.

        A query that sees nothing (padding) sees its own row.
        """
        heads = 1 if table is None else len(table)
        mask = torch.full((heads, b * t, self.n_keys), -torch.inf, dtype=dtype, device=self.rows.device)
        counts = self.starts.diff()
        query = torch.repeat_interleave(torch.arange(b * t, device=counts.device), counts)
        bias = mask.new_zeros(()) if table is None else table[:, self.relation.to(torch.int64)]
        mask[:, query, self.rows.to(torch.int64)] = bias
        padding = (counts == 0).nonzero()[:, 0]
        mask[:, padding, self.n_keys - t + padding % t] = 0.0
        return mask.view(heads, b, t, self.n_keys).transpose(0, 1)


def attend(projected: Tensor, k: Tensor, v: Tensor, lists: Lists, heads: int, table: Tensor | None = None) -> Tensor:
    """Mix (B, T, D) over (B, J, D) keys and values; padding gives zeros.

    The queries, keys and values of the block are `projected`, (B, T, 3, D), and all gradients go there; k and v hold
    those of the context, which are constant, and those of the block once more. The table of biases is (H, R); without
    one nothing is added to any score.
    """
    mixed: Tensor = _Attend.apply(projected, table, k.detach(), v.detach(), lists, heads)  # type: ignore[no-untyped-call]
    return mixed


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, table: Tensor | None, k: Tensor, v: Tensor, lists: Lists, heads: int
    ) -> Tensor:
        b, t, _, width = projected.shape
        size = width // heads
        weights = projected.new_empty(len(lists.rows) * heads)
        mixed = projected.new_empty(b, t, width)
        q = projected[:, :, 0]

        def attend(first: int, last: int) -> None:
            scratch = _scratch(q, lists.n_keys, size, 1)
            loops.call("kvec_attend", q, *_strides(q), k, v, *_strides(k), lists.n_keys, lists.starts, lists.rows,
                       lists.relation, table, _columns(table), first, last, t, heads, size, weights, mixed,
                       scratch)  # fmt: skip

        loops.in_threads(attend, b)
        ctx.save_for_backward(projected, table, k, v, weights, mixed)
        ctx.lists, ctx.heads = lists, heads
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None, None, None]:
        projected, table, k, v, weights, mixed = ctx.saved_tensors
        lists, heads = ctx.lists, ctx.heads
        b, t, _, width = projected.shape
        size = width // heads
        grad = gradients[0].contiguous()
        together = projected.new_empty(b, t, 3, width)
        tables = None if table is None else table.new_zeros(b, *table.shape)  # apart for each tangle, as threads are
        q = projected[:, :, 0]
        dq, dk, dv = (together[:, :, i] for i in range(3))

        def back(first: int, last: int) -> None:
            scratch = _scratch(q, lists.n_keys, size, 3)
            loops.call("kvec_attend_back", q, *_strides(q), k, v, *_strides(k), lists.n_keys, lists.starts, lists.rows,
                       lists.relation, weights, mixed, grad, first, last, t, heads, size, dq, dk, dv, 3 * width, tables,
                       _columns(table), scratch)  # fmt: skip

        loops.in_threads(back, b)
        return together, None if tables is None else tables.sum(dim=0), None, None, None, None


def _scratch(like: Tensor, n_keys: int, size: int, copies: int) -> Tensor:
    """Room for some copies of a head's rows side by side, one across, and two numbers for each row."""
    return like.new_empty(copies * n_keys * loops.whole(size, like) + (size + 2) * loops.whole(n_keys, like))


def _columns(table: Tensor | None) -> int:
    return 0 if table is None else table.shape[1]


def _strides(x: Tensor) -> tuple[int, int]:
    if x.stride(2) != 1:
        raise ValueError("the numbers of a row must lie side by side")
    return x.stride(0), x.stride(1)
