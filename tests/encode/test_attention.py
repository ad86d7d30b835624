"""Attention and its block: caches, biases and dropout. (The weights themselves stand in tests/paper.)"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvec.encode.attention import Attention, AttentionBlock, Cache, Dropout


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def causal(n: int) -> Tensor:
    return torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)[None, None]


def test_a_cache_stands_for_the_items_before() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(8, 2, 16, 0.1).double().eval()
    x, bias = random(3, 10, 8), causal(10)
    whole, full = block(x, bias)
    first, cache = block(x[:, :6], bias[:, :, :6, :6])
    rest, cache = block(x[:, 6:], bias[:, :, 6:], cache)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), whole)
    torch.testing.assert_close(cache.k, full.k)
    torch.testing.assert_close(cache.v, full.v)


def test_the_newest_of_a_cache_are_cut_off_from_the_graph() -> None:
    k = random(1, 2, 5, 4).requires_grad_()
    newest = Cache(k, k * 2).last(3)
    assert torch.equal(newest.k, k[:, :, 2:])
    assert torch.equal(newest.v, 2 * k[:, :, 2:])
    assert not newest.k.requires_grad and not newest.v.requires_grad
    assert Cache(k, k).last(0).k.shape[2] == 0


def test_a_bias_is_added_to_the_score() -> None:
    """A bias of log 3 gives an item three times the share it had beside another."""
    attention = Attention(4, 1).double()
    x = random(1, 3, 4)
    bias = causal(3)
    with torch.no_grad():
        plain = attention.weights(x, bias)[0, 2]
        bias[0, 0, 2, 0] = torch.log(torch.tensor(3.0))
        raised = attention.weights(x, bias)[0, 2]
    assert raised[0] / raised[1] == pytest.approx(float(3 * plain[0] / plain[1]))
    mixed, cache = attention(x, bias)
    torch.testing.assert_close(mixed[0, 2], attention.out(raised @ cache.v[0, 0]))


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 257)
    dropped = Dropout(0.1).train()(x)
    share = (dropped == 0).double().mean()
    assert share == pytest.approx(26 / 256, abs=2e-3)
    assert dropped.mean() == pytest.approx(1, abs=2e-3)
    assert dropped.unique().numel() == 2
    assert torch.equal(Dropout(0.1).eval()(x), x)
    assert torch.equal(Dropout(0.0).train()(x), x)


def test_dropout_is_even_and_the_gradient_follows_it() -> None:
    torch.manual_seed(0)
    x = torch.ones(4000, 8, requires_grad=True)
    dropped = Dropout(0.5).train()(x)
    dropped.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, dropped.detach())
    by_place = (dropped.detach() == 0).double().mean(dim=0)
    assert by_place.tolist() == pytest.approx([0.5] * 8, abs=0.04)


def test_dropout_repeats_with_the_seed() -> None:
    dropout, x = Dropout(0.3).train(), torch.ones(50, 7)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropout(x)

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_a_block_drops_in_training_only() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(8, 2, 16, 0.5).double()
    x, bias = random(1, 5, 8), causal(5)
    assert torch.equal(block.eval()(x, bias)[0], block.eval()(x, bias)[0])
    assert not torch.equal(block.train()(x, bias)[0], block.train()(x, bias)[0])
