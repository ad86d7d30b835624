"""Attention over lists in C against the same over dense masks, forwards and backwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import dense_attention
from torch import Tensor
from torch.nn import functional

from kvec.encode import loops
from kvec.encode.attention import Attention
from kvec.encode.sparse import Lists, attend

needs_c = pytest.mark.skipif(not loops.is_built, reason="the C extension is not built here")


RELATIONS = 5


def random_lists(b: int, t: int, n_keys: int, rng: torch.Generator, padding: float = 0.2) -> Lists:
    """Any number of different rows for each query, in any order and of any relation; none for padding."""
    lists: list[Tensor] = []
    for _ in range(b * t):
        n = int(torch.randint(1, n_keys + 1, (), generator=rng))
        n = 0 if torch.rand((), generator=rng) < padding else n
        lists.append(torch.randperm(n_keys, generator=rng)[:n])
    starts = torch.tensor([0, *(len(rows) for rows in lists)]).cumsum(0)
    rows = torch.cat(lists).to(torch.int32)
    return Lists(starts, rows, relations(len(rows), rng), n_keys)


def relations(n: int, rng: torch.Generator) -> Tensor:
    return torch.randint(RELATIONS, (n,), generator=rng).to(torch.uint8)


def random_table(heads: int, rng: torch.Generator, kind: torch.dtype = torch.float64) -> Tensor:
    """Biases of each head and relation."""
    return torch.randn(heads, RELATIONS, generator=rng, dtype=torch.float64).to(kind).requires_grad_()


def tensors(b: int, t: int, n_keys: int, width: int, rng: torch.Generator, kind: torch.dtype) -> list[Tensor]:
    """A block's queries, keys and values, and the keys and values of the context before it."""
    shapes = (b, t, 3, width), (b, n_keys - t, width), (b, n_keys - t, width)
    return [torch.randn(shape, generator=rng, dtype=torch.float64).to(kind) for shape in shapes]


def fast(projected: Tensor, k: Tensor, v: Tensor, lists: Lists, heads: int, table: Tensor | None = None) -> Tensor:
    k, v = torch.cat([k, projected[:, :, 1]], dim=1), torch.cat([v, projected[:, :, 2]], dim=1)
    return attend(projected, k, v, lists, heads, table)


def masked(projected: Tensor, k: Tensor, v: Tensor, lists: Lists, heads: int, table: Tensor | None = None) -> Tensor:
    """The same by a dense mask; zeros for padding, as the lists give."""
    b, t = projected.shape[:2]
    k, v = torch.cat([k, projected[:, :, 1]], dim=1), torch.cat([v, projected[:, :, 2]], dim=1)
    by_head = [x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (projected[:, :, 0], k, v)]
    mixed = functional.scaled_dot_product_attention(*by_head, attn_mask=lists.dense(b, t, projected.dtype, table))
    is_real = (lists.starts.diff() > 0).view(b, t, 1)
    return mixed.transpose(1, 2).flatten(2) * is_real


def gradients(mixed: Tensor, seed: int, *given: Tensor | None) -> list[Tensor]:
    towards = torch.randn(mixed.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return list(torch.autograd.grad(mixed, [x for x in given if x is not None], towards.to(mixed)))


@needs_c
@given(
    st.integers(1, 3), st.integers(1, 6), st.integers(0, 4), st.integers(1, 3),
    st.sampled_from([1, 3, 8, 16, 32, 40, 130]), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_lists_and_masks_agree_with_their_gradients(
    b: int, t: int, context: int, heads: int, size: int, is_typed: bool, seed: int
) -> None:
    rng = torch.Generator().manual_seed(seed)
    lists = random_lists(b, t, context + t, rng)
    projected, *before = tensors(b, t, context + t, heads * size, rng, torch.float64)
    projected.requires_grad_()
    table = random_table(heads, rng) if is_typed else None
    found, expected = fast(projected, *before, lists, heads, table), masked(projected, *before, lists, heads, table)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    if lists.starts[-1]:  # else no score at all depends on the table
        ours, theirs = (gradients(mixed, seed, projected, table) for mixed in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@needs_c
@given(st.integers(1, 3), st.integers(20, 60), st.integers(0, 99))
def test_few_visible_items_far_apart(n: int, apart: int, seed: int) -> None:
    """Rows so far apart that their products are better taken one by one."""
    rng = torch.Generator().manual_seed(seed)
    rows = torch.cat([torch.tensor([0, apart, 2 * apart])[:n] + i for i in range(2)]).to(torch.int32)
    lists = Lists(torch.tensor([0, n, 2 * n]), rows, relations(2 * n, rng), 2 * apart + 2)
    projected, *before = tensors(1, 2, lists.n_keys, 12, rng, torch.float64)
    projected.requires_grad_()
    table = random_table(2, rng)
    found, expected = fast(projected, *before, lists, 2, table), masked(projected, *before, lists, 2, table)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradients(found, seed, projected, table), gradients(expected, seed, projected, table))


@needs_c
def test_the_gradient_is_that_of_finite_differences() -> None:
    rng = torch.Generator().manual_seed(1)
    lists = random_lists(2, 3, 5, rng)
    projected, *before = tensors(2, 3, 5, 6, rng, torch.float64)
    assert torch.autograd.gradcheck(lambda x: fast(x, *before, lists, 2), projected.requires_grad_())
    table = random_table(2, rng)
    assert torch.autograd.gradcheck(lambda x, y: fast(x, *before, lists, 2, y), (projected, table))


@needs_c
def test_the_gradient_of_a_relation_that_no_pair_has_is_zero() -> None:
    rng = torch.Generator().manual_seed(4)
    lists = random_lists(2, 4, 6, rng)
    lists = replace(lists, relation=torch.full((len(lists.rows),), 3, dtype=torch.uint8))
    projected, *before = tensors(2, 4, 6, 6, rng, torch.float64)
    table = random_table(2, rng)
    (found,) = gradients(fast(projected, *before, lists, 2, table), 0, table)
    assert not found[:, [0, 1, 2, 4]].any()
    torch.testing.assert_close(found, torch.zeros_like(found))  # the same for all pairs: it changes nothing


@needs_c
@pytest.mark.parametrize("threads", [1, 2])
def test_single_precision_and_threads(threads: int) -> None:
    rng = torch.Generator().manual_seed(2)
    lists = random_lists(5, 20, 30, rng)
    given, table = tensors(5, 20, 30, 64, rng, torch.float32), random_table(4, rng, torch.float32)
    given[0].requires_grad_()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = fast(*given, lists, 4, table)
        ours = gradients(found, 3, given[0], table)
    finally:
        torch.set_num_threads(before)
    exact, biases = [x.detach().double() for x in given], table.detach().double().requires_grad_()
    slow = masked(exact[0].requires_grad_(), *exact[1:], lists, 4, biases)
    torch.testing.assert_close(found.double(), slow, rtol=1e-5, atol=1e-6)
    theirs = gradients(slow, 3, exact[0], biases)
    torch.testing.assert_close([x.double() for x in ours], theirs, rtol=1e-4, atol=1e-5)


@needs_c
def test_large_scores_and_biases_do_not_overflow() -> None:
    rows, which = torch.tensor([0, 1, 1], dtype=torch.int32), torch.tensor([0, 1, 2], dtype=torch.uint8)
    lists = Lists(torch.tensor([0, 2, 3]), rows, which, 2)
    q, k, v = torch.full((2, 4), 60.0), torch.tensor([[60.0] * 4, [-60.0] * 4]), torch.tensor([[1.0] * 4, [2.0] * 4])
    projected = torch.stack([q, k, v], dim=1)[None]
    table = torch.tensor([[500.0, 0, -900]])
    assert attend(projected, k[None], v[None], lists, 1, table).tolist() == [[[1.0] * 4, [2.0] * 4]]


@needs_c
@pytest.mark.parametrize("strange", [torch.nan, torch.inf])
def test_what_is_not_a_number_spoils_those_who_see_it_alone(strange: float) -> None:
    rows = torch.tensor([0, 0, 1, 2], dtype=torch.int32)
    lists = Lists(torch.tensor([0, 1, 3, 4]), rows, torch.zeros(4, dtype=torch.uint8), 3)
    projected = torch.randn(1, 3, 3, 16, generator=torch.Generator().manual_seed(0))
    projected[0, 1, 1] = strange
    mixed = attend(projected, projected[:, :, 1], projected[:, :, 2], lists, 1)
    assert mixed.isfinite().all(dim=2).tolist() == [[True, False, True]]


@needs_c
def test_the_exponential_function_of_the_loops() -> None:
    """Two visible items whose scores differ by x: the share of the second is 1 / (1 + e^-x)."""
    apart = torch.linspace(-100, 0, 4001)
    n = len(apart)
    rows, which = torch.tensor([0, 1] * n, dtype=torch.int32), torch.zeros(2 * n, dtype=torch.uint8)
    lists = Lists(torch.arange(0, 2 * n + 1, 2), rows, which, n)
    projected = torch.zeros(1, n, 3, 16)
    projected[0, :, 0, 0], projected[0, 1, 1, 0] = 4 * apart, 1.0  # a score is the product over √16
    projected[0, 1, 2] = 1.0
    share = attend(projected, projected[:, :, 1], projected[:, :, 2], lists, 1)[0, :, 0].double()
    exact = torch.sigmoid(apart.double())
    is_shown = apart > -87
    assert float(((share - exact) / exact)[is_shown].abs().max()) < 1e-5
    assert float(((share - exact) / exact)[apart > -1].abs().max()) < 5e-7
    assert not share[apart < -87.01].any()


def test_dense_masks_show_the_lists() -> None:
    rows, which = torch.tensor([2, 0, 1, 2], dtype=torch.int32), torch.tensor([0, 1, 2, 3], dtype=torch.uint8)
    lists = Lists(torch.tensor([0, 2, 2, 3, 4]), rows, which, 3)
    never = -torch.inf
    mask = lists.dense(2, 2, torch.float32, torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]))
    assert mask[:, 0].tolist() == [
        [[1.0, never, 0.0], [never, never, 0.0]],  # the second is padding: it sees its own row, so that none is empty
        [[never, 2.0, never], [never, never, 3.0]],
    ]
    assert mask[0, 1].tolist() == [[5.0, never, 4.0], [never, never, 0.0]]
    plain = lists.dense(2, 2, torch.float32)
    assert plain.shape == (2, 1, 2, 3) and torch.equal(plain[:, 0] == 0, mask[:, 0] > never)


@needs_c
@pytest.mark.parametrize("n_relations", [0, RELATIONS])
def test_the_layer_gives_the_same_either_way(n_relations: int) -> None:
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(3)
    attention = Attention(24, 3, n_relations).double()
    for table in [p for p in attention.parameters() if p is attention.relation]:
        torch.nn.init.normal_(table)
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
