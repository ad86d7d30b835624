"""Attention over visible items, and the block around it (§IV-B).

Letters: B tangles, T items, C items of context, D width, H heads. Here q, k, v are attention's own.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from kvec.encode import sparse
from kvec.encode.sparse import Lists


class Cache(NamedTuple):
    """Attention's keys and values of context and block, each (B, C + T, D)."""

    k: Tensor
    v: Tensor

    def last(self, n: int) -> Cache:
        """The newest n of them, cut off from the graph."""
        start = self.k.shape[1] - n
        return Cache(self.k[:, start:].detach(), self.v[:, start:].detach())


class Dropout(nn.Module):
    """Dropout to the nearest 1/256, from random bytes: several times faster on a CPU than a draw per number."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.of_256 = round(share * 256)

    def forward(self, x: Tensor) -> Tensor:
        """Zero a share of the numbers and scale up the rest, in training only."""
        if not self.training or self.of_256 == 0:
            return x
        words = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        keep = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.of_256
        return x * keep.to(x.dtype).mul_(256 / (256 - self.of_256))


class Attention(nn.Module):
    """Multi-head self-attention over the visible items, with one additive bias per pair."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def qkv(self, x: Tensor, before: Cache | None) -> tuple[Tensor, Cache]:
        """Queries of the block, (B, T, D); keys and values of context and block, (B, C + T, D)."""
        q, k, v = self.project(x).view(*x.shape[:2], 3, -1).unbind(2)
        if before is not None:
            k, v = torch.cat([before.k, k], dim=1), torch.cat([before.v, v], dim=1)
        return q, Cache(k, v)

    def forward(self, x: Tensor, visible: Lists, before: Cache | None = None) -> tuple[Tensor, Cache]:
        """Mix the visible items of (B, T, D)."""
        q, cache = self.qkv(x, before)
        attend = sparse.attend if sparse.can_attend(q, self.heads) else self._dense
        mixed = attend(q, cache.k, cache.v, visible, self.heads)
        return self.out(mixed), cache

    def _dense(self, q: Tensor, k: Tensor, v: Tensor, visible: Lists, heads: int) -> Tensor:
        mask = visible.dense(q.shape[0], q.shape[1], q.dtype)
        q, k, v = self._by_head(q), self._by_head(k), self._by_head(v)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)

    def weights(self, x: Tensor, visible: Lists, before: Cache | None = None) -> Tensor:
        """The shares of attention, mean over heads, (B, T, C + T)."""
        q, cache = self.qkv(x, before)
        mask = visible.dense(q.shape[0], q.shape[1], q.dtype)
        q, k = self._by_head(q), self._by_head(cache.k)
        shares: Tensor = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + mask).softmax(dim=-1)
        return torch.mean(shares, dim=1)

    def _by_head(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (B, H, T, D / H)


class AttentionBlock(nn.Module):
    """Attention, then a two-layer ReLU net, each on normalised input with a residual around it."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.widen, self.narrow = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, visible: Lists, before: Cache | None = None) -> tuple[Tensor, Cache]:
        """(B, T, D) in, (B, T, D) out, and the cache for the next block of items."""
        mixed, cache = self.attention(self.norm1(x), visible, before)
        x = x + self.dropout(mixed)
        return x + self.dropout(self.narrow(functional.relu_(self.widen(self.norm2(x))))), cache
