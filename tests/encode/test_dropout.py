"""Dropout onto a residual: its share, its mean, its seed, and the same in C and without."""

from __future__ import annotations

import pytest
import torch
from tests.properties.strategies import dense_attention
from torch import Tensor

from kvec.encode.dropout import Dropout


def test_it_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    y, x = torch.ones(1000, 257), torch.full((1000, 257), 2.0)
    dropped = Dropout(0.1).train()(y, onto=x) - x
    share = (dropped == 0).double().mean()
    assert share == pytest.approx(26 / 256, abs=2e-3)
    assert dropped.mean() == pytest.approx(1, abs=2e-3)
    assert dropped.unique().numel() == 2
    assert torch.equal(Dropout(0.1).eval()(y, onto=x), x + y)
    assert torch.equal(Dropout(0.0).train()(y, onto=x), x + y)


def test_it_is_even_and_the_gradient_follows_it() -> None:
    torch.manual_seed(0)
    y, x = torch.ones(4000, 8, requires_grad=True), torch.zeros(4000, 8, requires_grad=True)
    dropped = Dropout(0.5).train()(y, onto=x)
    dropped.sum().backward()
    assert y.grad is not None and torch.equal(y.grad, dropped.detach())
    assert x.grad is not None and torch.equal(x.grad, torch.ones_like(x))
    by_place = (dropped.detach() == 0).double().mean(dim=0)
    assert by_place.tolist() == pytest.approx([0.5] * 8, abs=0.04)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_it_repeats_with_the_seed_in_c_and_without(kind: torch.dtype) -> None:
    rng = torch.Generator().manual_seed(4)
    dropout = Dropout(0.3).train()
    y, x = torch.randn(50, 7, dtype=kind, generator=rng), torch.randn(50, 7, dtype=kind, generator=rng)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropout(y, onto=x)

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
    with dense_attention():
        slow = drawn(1)
    torch.testing.assert_close(drawn(1), slow)


def test_what_is_not_a_number_stays_so_where_it_is_kept() -> None:
    torch.manual_seed(0)
    dropped = Dropout(0.5).train()(torch.full((64,), torch.nan), onto=torch.zeros(64))
    assert 0 < int(dropped.isnan().sum()) < 64
