"""Attention and its block: caches and biases. (The weights themselves stand in tests/paper.)"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvec.encode.attention import Attention, AttentionBlock, Cache
from kvec.encode.sparse import Lists


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def causal(b: int, first: int, last: int) -> Lists:
    """Items first to last - 1 of b tangles, each seeing all up to itself."""
    lists = [list(range(i + 1)) for _ in range(b) for i in range(first, last)]
    starts = torch.tensor([0, *(len(seen) for seen in lists)]).cumsum(0)
    rows = torch.tensor([j for seen in lists for j in seen], dtype=torch.int32)
    return Lists(starts, rows, torch.zeros(len(rows), dtype=torch.uint8), last)


def test_a_cache_stands_for_the_items_before() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(8, 2, 16, 0.1).double().eval()
    x = random(3, 10, 8)
    whole, full = block(x, causal(3, 0, 10))
    first, cache = block(x[:, :6], causal(3, 0, 6))
    rest, cache = block(x[:, 6:], causal(3, 6, 10), cache)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), whole)
    torch.testing.assert_close(cache.k, full.k)
    torch.testing.assert_close(cache.v, full.v)


def test_the_newest_of_a_cache_are_cut_off_from_the_graph() -> None:
    k = random(1, 5, 4).requires_grad_()
    newest = Cache(k, k * 2).last(3)
    assert torch.equal(newest.k, k[:, 2:])
    assert torch.equal(newest.v, 2 * k[:, 2:])
    assert not newest.k.requires_grad and not newest.v.requires_grad
    assert Cache(k, k).last(0).k.shape[1] == 0


def test_a_bias_is_added_to_the_score() -> None:
    """A bias of log 3 gives an item three times the share it had beside another."""
    attention = Attention(4, 1, n_relations=2).double()
    assert attention.relation is not None
    x, lists = random(1, 3, 4), causal(1, 0, 3)
    with torch.no_grad():
        plain = attention.weights(x, lists)[0, 2]
        lists.relation[3] = 1  # of the third item, its look at the first
        assert torch.equal(attention.weights(x, lists)[0, 2], plain)  # all are alike at first
        attention.relation[0, 1] = torch.log(torch.tensor(3.0))
        raised = attention.weights(x, lists)[0, 2]
        assert raised[0] / raised[1] == pytest.approx(float(3 * plain[0] / plain[1]))
        mixed, cache = attention(x, lists)
        torch.testing.assert_close(mixed[0, 2], attention.out(raised @ cache.v[0]))


def test_a_block_drops_in_training_only() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(8, 2, 16, 0.5).double()
    x, lists = random(1, 5, 8), causal(1, 0, 5)
    assert torch.equal(block.eval()(x, lists)[0], block.eval()(x, lists)[0])
    assert not torch.equal(block.train()(x, lists)[0], block.train()(x, lists)[0])
