"""The gated cell: states of its own for every sequence. (Its gates stand in tests/paper.)"""

from __future__ import annotations

import torch

from kvec.encode.fusion import Fusion


def test_sequences_side_by_side_do_not_mix() -> None:
    torch.manual_seed(0)
    fusion = Fusion(3, 4).double()
    items = torch.randn(5, 2, 3, dtype=torch.float64)
    zeros = torch.zeros(2, 4, dtype=torch.float64)
    both, _ = fusion(items, zeros, zeros)
    alone, _ = fusion(items[:, 1:], zeros[:1], zeros[:1])
    torch.testing.assert_close(both[:, 1:], alone)
    changed = items.clone()
    changed[:, 0] += 1
    torch.testing.assert_close(fusion(changed, zeros, zeros)[0][:, 1], both[:, 1])


def test_it_remembers_at_first() -> None:
    """The forget gate starts open: its bias is 1, all others 0."""
    fusion = Fusion(3, 4)
    total = fusion.cell.bias_ih_l0 + fusion.cell.bias_hh_l0
    assert total.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8


def test_the_state_matters() -> None:
    torch.manual_seed(0)
    fusion = Fusion(3, 4)
    items, zeros, ones = torch.randn(1, 1, 3), torch.zeros(1, 4), torch.ones(1, 4)
    plain, _ = fusion(items, zeros, zeros)
    assert not torch.allclose(fusion(items, ones, zeros)[0], plain)
    assert not torch.allclose(fusion(items, zeros, ones)[0], plain)
