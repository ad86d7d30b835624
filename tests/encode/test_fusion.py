"""The gated cell: a state for every sequence; the C steps against nn.LSTM. (Its gates stand in tests/paper.)"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import dense_attention
from torch import Tensor

from kvec.encode import loops
from kvec.encode.fusion import Fusion, Steps

needs_c = pytest.mark.skipif(not loops.is_built, reason="the C extension is not built here")


def steps_of(lengths: list[int], n_rows: int, rng: torch.Generator) -> Steps:
    """Sequences of these falling lengths, their items anywhere among the rows, their outputs in any order."""
    sizes = torch.tensor([sum(n > step for n in lengths) for step in range(lengths[0])])
    n = sum(lengths)
    return Steps(torch.randperm(n_rows, generator=rng)[:n], torch.randperm(n, generator=rng), sizes)


def everything(fusion: Fusion, given: list[Tensor], steps: Steps) -> list[Tensor]:
    """All that comes out, and the gradients of some sum of it towards all that went in."""
    found = list(fusion(given[0], steps, *given[1:]))
    rng = torch.Generator().manual_seed(9)
    total = sum((x * torch.randn(x.shape, generator=rng, dtype=torch.float64).to(x)).sum() for x in found)
    assert isinstance(total, Tensor)
    return [*found, *torch.autograd.grad(total, [*given, *fusion.parameters()])]


@needs_c
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 5), st.integers(1, 7), st.integers(0, 3),
    st.sampled_from([1, 2]), st.integers(0, 99),
)  # fmt: skip
def test_the_steps_in_c_equal_the_lstm_with_all_gradients(
    lengths: list[int], width: int, vectors: int, padding: int, threads: int, seed: int
) -> None:
    lengths = sorted(lengths, reverse=True)
    rng = torch.Generator().manual_seed(seed)
    size = 8 * vectors
    fusion = Fusion(width, size).double()
    for parameter in fusion.parameters():
        parameter.data = torch.randn(parameter.shape, generator=rng, dtype=torch.float64) / size**0.5
    steps = steps_of(lengths, sum(lengths) + padding, rng)
    shapes = [(sum(lengths) + padding, width), (len(lengths), size), (len(lengths), size)]
    given = [torch.randn(shape, generator=rng, dtype=torch.float64).requires_grad_() for shape in shapes]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        fast = everything(fusion, given, steps)
    finally:
        torch.set_num_threads(before)
    with dense_attention():
        slow = everything(fusion, given, steps)
    for a, e in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-9, atol=1e-11)


@needs_c
def test_single_precision_even_with_large_gates() -> None:
    rng = torch.Generator().manual_seed(2)
    fusion = Fusion(6, 32)
    for parameter in fusion.parameters():
        parameter.data = torch.randn(parameter.shape, generator=rng)
    steps = steps_of([9, 7, 7, 3, 1], 30, rng)
    given = [torch.randn(shape, generator=rng) for shape in ((30, 6), (5, 32), (5, 32))]
    given[0][:10] *= 100  # gates far beyond where they saturate
    fast = everything(fusion, [x.requires_grad_() for x in given], steps)
    with dense_attention():
        slow = everything(fusion.double(), [x.detach().double().requires_grad_() for x in given], steps)
    for a, e in zip(fast, slow, strict=True):
        torch.testing.assert_close(a.double(), e, rtol=1e-4, atol=1e-4)


@needs_c
def test_what_is_not_a_number_spoils_its_own_sequence_alone() -> None:
    torch.manual_seed(0)
    fusion = Fusion(3, 16)
    items, rows = torch.randn(6, 3), torch.arange(6)
    items[2] = torch.nan  # the second step of the first of two sequences
    fused, _, memory = fusion(items, Steps(rows, rows, torch.tensor([2, 2, 2])), *torch.zeros(2, 2, 16))
    assert fused.isnan().all(dim=1).tolist() == [False, False, True, False, True, False]
    assert memory.isnan().all(dim=1).tolist() == [True, False]


def test_sequences_side_by_side_do_not_mix() -> None:
    torch.manual_seed(0)
    fusion = Fusion(3, 8).double()
    items, rows = torch.randn(10, 3, dtype=torch.float64), torch.arange(10)
    zeros = torch.zeros(2, 8, dtype=torch.float64)
    both, _, _ = fusion(items, Steps(rows, rows, torch.full((5,), 2)), zeros, zeros)
    alone, _, _ = fusion(items, Steps(rows[1::2], rows[:5], torch.full((5,), 1)), zeros[:1], zeros[:1])
    torch.testing.assert_close(both[1::2], alone)


def test_it_remembers_at_first() -> None:
    """The forget gate starts open: its bias is 1, all others 0."""
    fusion = Fusion(3, 4)
    total = fusion.cell.bias_ih_l0 + fusion.cell.bias_hh_l0
    assert total.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8


def test_the_state_matters() -> None:
    torch.manual_seed(0)
    fusion = Fusion(3, 16)
    one = torch.zeros(1, dtype=torch.int64)
    items, zeros, ones, steps = torch.randn(1, 3), torch.zeros(1, 16), torch.ones(1, 16), Steps(one, one, one + 1)
    plain, _, _ = fusion(items, steps, zeros, zeros)
    assert not torch.allclose(fusion(items, steps, ones, zeros)[0], plain)
    assert not torch.allclose(fusion(items, steps, zeros, ones)[0], plain)
