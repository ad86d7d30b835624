"""Attention over visible items, and the block around it (§IV-B).

Letters: B tangles, T items, C items of context, D width, H heads, R relations. Here q, k, v are attention's own.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from kvec.encode import loops
from kvec.encode.dropout import Dropout
from kvec.encode.sparse import Lists, attend


class Cache(NamedTuple):
    """Attention's keys and values of context and block, each (B, C + T, D)."""

    k: Tensor
    v: Tensor

    def last(self, n: int) -> Cache:
        """The newest n of them, cut off from the graph."""
        start = self.k.shape[1] - n
        return Cache(self.k[:, start:].detach(), self.v[:, start:].detach())


class Attention(nn.Module):
    """Multi-head self-attention over the visible items, with a learned bias for each relation of two items."""

    def __init__(self, width: int, heads: int, n_relations: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.relation = nn.Parameter(torch.zeros(heads, n_relations)) if n_relations else None  # all alike at first

    def qkv(self, x: Tensor, before: Cache | None) -> tuple[Tensor, Cache]:
        """Queries, keys and values of the block, (B, T, 3, D); keys and values of context and block, (B, C + T, D)."""
        projected = self.project(x).to(x.dtype).view(*x.shape[:2], 3, -1)  # autocast halves products, not scores
        k, v = projected[:, :, 1], projected[:, :, 2]
        if before is not None:
            k, v = torch.cat([before.k, k], dim=1), torch.cat([before.v, v], dim=1)
        return projected, Cache(k, v)

    def forward(self, x: Tensor, visible: Lists, before: Cache | None = None) -> tuple[Tensor, Cache]:
        """Mix the visible items of (B, T, D)."""
        projected, cache = self.qkv(x, before)
        if loops.can_take(x):
            mixed = attend(projected, cache.k, cache.v, visible, self.heads, self.relation)
        else:
            mixed = self._dense(projected[:, :, 0], cache.k, cache.v, visible)
        return self.out(mixed), cache

    def _dense(self, q: Tensor, k: Tensor, v: Tensor, visible: Lists) -> Tensor:
        mask = visible.dense(q.shape[0], q.shape[1], q.dtype, self.relation)
        q, k, v = self._by_head(q), self._by_head(k), self._by_head(v)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)

    def weights(self, x: Tensor, visible: Lists, before: Cache | None = None) -> Tensor:
        """The shares of attention, mean over heads, (B, T, C + T)."""
        projected, cache = self.qkv(x, before)
        mask = visible.dense(x.shape[0], x.shape[1], x.dtype, self.relation)
        q, k = self._by_head(projected[:, :, 0]), self._by_head(cache.k)
        shares: Tensor = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + mask).softmax(dim=-1)
        return torch.mean(shares, dim=1)

    def _by_head(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, H, T, D / H)


class AttentionBlock(nn.Module):
    """Attention, then a two-layer ReLU net, each on normalised input with a residual around it."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float, n_relations: int = 0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, n_relations)
        self.widen, self.narrow = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, visible: Lists, before: Cache | None = None) -> tuple[Tensor, Cache]:
        """(B, T, D) in, (B, T, D) out, and the cache for the next block of items."""
        mixed, cache = self.attention(self.norm1(x), visible, before)
        x = self.dropout(mixed, onto=x)
        wide = functional.relu_(self.widen(self.norm2(x).flatten(0, 1)))  # a view would be copied to be changed
        return self.dropout(self.narrow(wide).view(x.shape), onto=x), cache
