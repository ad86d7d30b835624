"""Attention over lists of visible items on a CPU: the work and the memory are those of the visible pairs alone.

The inner loops are a small C extension. Where it could not be built, `is_built` is False and dense masks serve.
Letters: B tangles, T queries, J keys (context and block), D width, H heads, P visible pairs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

MOST_SIZE = 128  # numbers of a head that the C loops hold


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(import_module("kvec.encode._sparse").__file__))
    except ImportError:
        return None


_LIBRARY = _library()
is_built = _LIBRARY is not None
_pool = ThreadPoolExecutor(thread_name_prefix="kvec-attention")


@dataclass(frozen=True)
class Lists:
    """What each of B·T queries sees: rows of its tangle's J keys, the newest n of them its own block."""

    starts: Tensor  # (B·T + 1,) int64
    rows: Tensor  # (P,) int32
    bias: Tensor  # (P,) float32, added to the scores
    n_keys: int  # J

    def dense(self, b: int, t: int, dtype: torch.dtype) -> Tensor:
        """The same as an additive mask (B, 1, T, J); a query that sees nothing (padding) sees its own row."""
        mask = torch.full((b * t, self.n_keys), -torch.inf, dtype=dtype, device=self.rows.device)
        counts = self.starts.diff()
        query = torch.repeat_interleave(torch.arange(b * t, device=counts.device), counts)
        mask[query, self.rows.to(torch.int64)] = self.bias.to(dtype)
        padding = (counts == 0).nonzero()[:, 0]
        mask[padding, self.n_keys - t + padding % t] = 0.0
        return mask.view(b, 1, t, self.n_keys)


def can_attend(q: Tensor, heads: int) -> bool:
    """Whether the C loops take these queries: built, on a CPU, single or double precision, heads not too wide."""
    is_taken = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
    return is_built and is_taken and q.shape[-1] // heads <= MOST_SIZE


def attend(q: Tensor, k: Tensor, v: Tensor, lists: Lists, heads: int) -> Tensor:
    """Mix (B, T, D) queries over (B, J, D) keys and values; padding gives zeros."""
    mixed: Tensor = _Attend.apply(q, k, v, lists, heads)  # type: ignore[no-untyped-call]
    return mixed


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, lists: Lists, heads: int) -> Tensor:
        b, t, width = q.shape
        size = width // heads
        weights = q.new_empty(len(lists.rows) * heads)
        mixed = q.new_empty(b, t, width)
        shape = (t, heads, size)

        def scores(first: int, last: int, scratch: Tensor) -> None:
            _call("kvec_scores", q, *_strides(q), k, *_strides(k), k.shape[1], lists.starts, lists.rows, lists.bias,
                  first, last, *shape, weights, scratch)  # fmt: skip

        def mix(first: int, last: int, scratch: Tensor) -> None:
            _call("kvec_mix", weights, v, *_strides(v), v.shape[1], lists.starts, lists.rows,
                  first, last, *shape, mixed, scratch)  # fmt: skip

        _over_tangles(scores, q, k.shape[1] * size)
        weights.exp_()
        _over_tangles(mix, q, k.shape[1] * size)
        ctx.save_for_backward(q, k, v, weights, mixed)
        ctx.lists, ctx.heads = lists, heads
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, weights, mixed = ctx.saved_tensors
        lists, heads = ctx.lists, ctx.heads
        b, t, width = q.shape
        size = width // heads
        grad = gradients[0].contiguous()
        together = q.new_empty(b, t, 3, width) if k.shape[1] == t else None
        if together is not None:  # laid out as the projection that they came from
            dq, dk, dv = together.unbind(2)
        else:
            dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)

        def back(first: int, last: int, scratch: Tensor) -> None:
            _call("kvec_back", q, *_strides(q), k, v, *_strides(k), k.shape[1], lists.starts, lists.rows,
                  weights, mixed, grad, first, last, t, heads, size,
                  dq, *_strides(dq), dk, dv, *_strides(dk), scratch)  # fmt: skip

        _over_tangles(back, q, 4 * k.shape[1] * size)
        return dq, dk, dv, None, None


def _strides(x: Tensor) -> tuple[int, int]:
    if x.stride(2) != 1:
        raise ValueError("the numbers of a row must lie side by side")
    return x.stride(0), x.stride(1)


def _call(name: str, *given: Tensor | int) -> None:
    """Call a C function of the first tensor's type; tensors are passed by address, head counts as C ints."""
    kind = next(x.dtype for x in given if isinstance(x, Tensor))
    function = getattr(_LIBRARY, f"{name}_{'f64' if kind == torch.float64 else 'f32'}")
    function(*(ctypes.c_void_p(x.data_ptr()) if isinstance(x, Tensor) else ctypes.c_int64(x) for x in given))


def _over_tangles(work: Callable[[int, int, Tensor], None], like: Tensor, scratch: int) -> None:
    """Do the work for all tangles, in as many threads as PyTorch uses."""
    n = like.shape[0]
    parts = min(torch.get_num_threads(), n)
    bounds = [n * i // parts for i in range(parts + 1)]
    room = [like.new_empty(scratch) for _ in range(parts)]
    if parts == 1:
        work(0, n, room[0])
    else:
        list(_pool.map(work, bounds[:-1], bounds[1:], room))
