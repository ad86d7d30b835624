"""Attention over lists in C against the same over dense masks, forwards and backwards."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import dense_attention
from torch import Tensor
from torch.nn import functional

from kvec.encode import sparse
from kvec.encode.attention import Attention
from kvec.encode.sparse import Lists, attend

needs_c = pytest.mark.skipif(not sparse.is_built, reason="the C extension is not built here")


def random_lists(b: int, t: int, n_keys: int, rng: torch.Generator, padding: float = 0.2) -> Lists:
    """Any number of different rows for each query, in any order; none for padding."""
    lists: list[Tensor] = []
    for _ in range(b * t):
        n = int(torch.randint(1, n_keys + 1, (), generator=rng))
        n = 0 if torch.rand((), generator=rng) < padding else n
        lists.append(torch.randperm(n_keys, generator=rng)[:n])
    starts = torch.tensor([0, *(len(rows) for rows in lists)]).cumsum(0)
    rows = torch.cat(lists).to(torch.int32)
    return Lists(starts, rows, torch.randn(len(rows), generator=rng), n_keys)


def tensors(b: int, t: int, n_keys: int, width: int, rng: torch.Generator, kind: torch.dtype) -> list[Tensor]:
    return [
        torch.randn(b, n, width, generator=rng, dtype=torch.float64).to(kind).requires_grad_()
        for n in (t, n_keys, n_keys)
    ]


def masked(q: Tensor, k: Tensor, v: Tensor, lists: Lists, heads: int) -> Tensor:
    """The same by a dense mask; zeros for padding, as the lists give."""
    b, t = q.shape[:2]
    by_head = [x.view(b, x.shape[1], heads, -1).transpose(1, 2) for x in (q, k, v)]
    mixed = functional.scaled_dot_product_attention(*by_head, attn_mask=lists.dense(b, t, q.dtype))
    is_real = (lists.starts.diff() > 0).view(b, t, 1)
    return mixed.transpose(1, 2).flatten(2) * is_real


@needs_c
@given(
    st.integers(1, 3), st.integers(1, 6), st.integers(0, 4), st.integers(1, 3),
    st.sampled_from([1, 3, 8, 16, 32, 40, sparse.MOST_SIZE]), st.integers(0, 99),
)  # fmt: skip
def test_lists_and_masks_agree_with_their_gradients(
    b: int, t: int, context: int, heads: int, size: int, seed: int
) -> None:
    rng = torch.Generator().manual_seed(seed)
    lists = random_lists(b, t, context + t, rng)
    given = tensors(b, t, context + t, heads * size, rng, torch.float64)
    fast, dense = attend(*given, lists, heads), masked(*given, lists, heads)
    torch.testing.assert_close(fast, dense, rtol=1e-10, atol=1e-12)
    towards = torch.randn(fast.shape, generator=rng, dtype=torch.float64)
    for a, e in zip(torch.autograd.grad(fast, given, towards), torch.autograd.grad(dense, given, towards), strict=True):
        torch.testing.assert_close(a, e, rtol=1e-9, atol=1e-11)


@needs_c
def test_the_gradient_is_that_of_finite_differences() -> None:
    rng = torch.Generator().manual_seed(1)
    lists = random_lists(2, 3, 5, rng)
    given = tensors(2, 3, 5, 6, rng, torch.float64)
    assert torch.autograd.gradcheck(lambda *x: attend(*x, lists, 2), given)


@needs_c
@pytest.mark.parametrize("threads", [1, 2])
def test_single_precision_and_threads(threads: int) -> None:
    rng = torch.Generator().manual_seed(2)
    lists = random_lists(5, 20, 30, rng)
    given = tensors(5, 20, 30, 64, rng, torch.float32)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast = attend(*given, lists, 4)
        fast.sum().backward()
    finally:
        torch.set_num_threads(before)
    exact = [x.detach().double().requires_grad_() for x in given]
    slow = masked(*exact, lists, 4)
    slow.sum().backward()
    torch.testing.assert_close(fast.double(), slow, rtol=1e-4, atol=1e-5)
    for a, e in zip(given, exact, strict=True):
        assert a.grad is not None
        torch.testing.assert_close(a.grad.double(), e.grad, rtol=1e-3, atol=1e-4)


@needs_c
def test_large_scores_and_biases_do_not_overflow() -> None:
    lists = Lists(
        torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1], dtype=torch.int32), torch.tensor([500.0, 0, -900]), 2
    )
    q = torch.full((1, 2, 4), 60.0)
    k = torch.tensor([[[60.0] * 4, [-60.0] * 4]])
    v = torch.tensor([[[1.0] * 4, [2.0] * 4]])
    assert attend(q, k, v, lists, 1).tolist() == [[[1.0] * 4, [2.0] * 4]]


def test_dense_masks_show_the_lists() -> None:
    lists = Lists(torch.tensor([0, 2, 2, 3, 4]), torch.tensor([2, 0, 1, 2], dtype=torch.int32), torch.arange(4.0), 3)
    never = -torch.inf
    assert lists.dense(2, 2, torch.float32)[:, 0].tolist() == [
        [[1.0, never, 0.0], [never, never, 0.0]],  # the second is padding: it sees its own row, so that none is empty
        [[never, 2.0, never], [never, never, 3.0]],
    ]


@needs_c
def test_the_layer_gives_the_same_either_way() -> None:
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(3)
    attention = Attention(24, 3).double()
    x, lists = torch.randn(2, 5, 24, generator=rng, dtype=torch.float64), random_lists(2, 5, 5, rng, padding=0)
    found = []
    for _ in range(2):
        attention.zero_grad()
        mixed, _ = attention(x, lists)
        mixed.square().sum().backward()
        found.append([mixed.detach(), *(p.grad.clone() for p in attention.parameters() if p.grad is not None)])
        with dense_attention():
            attention.zero_grad()
            mixed, _ = attention(x, lists)
            mixed.square().sum().backward()
            found.append([mixed.detach(), *(p.grad.clone() for p in attention.parameters() if p.grad is not None)])
    for other in found[1:]:
        for a, e in zip(other, found[0], strict=True):
            torch.testing.assert_close(a, e)


def test_heads_too_wide_for_the_c_loops_are_dense() -> None:
    wide = sparse.MOST_SIZE + 2
    attention = Attention(wide, 1).double()
    lists = random_lists(1, 4, 4, torch.Generator().manual_seed(0), padding=0)
    x = torch.randn(1, 4, wide, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        q, cache = attention.qkv(x, None)
        torch.testing.assert_close(attention(x, lists)[0], attention.out(masked(q, cache.k, cache.v, lists, 1)))
