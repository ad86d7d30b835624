"""The C loops in vectors of every width that this processor can reckon in: all say the same."""

from __future__ import annotations

import pytest
import torch
from tests.encode.test_fusion import everything, steps_of
from tests.encode.test_sparse import fast, gradients, random_lists, random_table, tensors
from torch import Tensor

from kvec.encode import loops
from kvec.encode.dropout import Dropout
from kvec.encode.fusion import Fusion

pytestmark = pytest.mark.skipif(not loops.is_built, reason="the C extension is not built here")
WIDTHS = (16, 32, 64)
TOLERANCES = {torch.float32: (1e-4, 1e-5), torch.float64: (1e-10, 1e-12)}


def all_of(kind: torch.dtype, size: int) -> list[Tensor]:
    """What attention, fusion, dropout and the gradient of the look-up make of the same numbers."""
    rng = torch.Generator().manual_seed(5)
    lists, table = random_lists(3, 17, 23, rng), random_table(2, rng, kind)
    given = tensors(3, 17, 23, 2 * size, rng, kind)
    given[0].requires_grad_()
    mixed = fast(*given, lists, 2, table)
    fusion = Fusion(6, 48).to(kind)
    for parameter in fusion.parameters():
        parameter.data = torch.randn(parameter.shape, generator=rng, dtype=torch.float64).to(kind) / 7
    states = [torch.randn(shape, generator=rng, dtype=torch.float64).to(kind) for shape in ((40, 6), (7, 48), (7, 48))]
    fused = everything(fusion, [x.requires_grad_() for x in states], steps_of([9, 7, 7, 3, 1, 1, 1], 40, rng))
    torch.manual_seed(3)
    dropped = Dropout(0.3).train()(states[0].detach(), onto=states[0].detach())
    rows, where = torch.zeros(5, 21, dtype=kind), torch.tensor([[0, 4], [4, 4], [2, 0]])
    loops.call("kvec_add_rows", torch.randn(3, 21, generator=rng, dtype=torch.float64).to(kind), where, 3, 2, 21, rows)
    return [mixed, *gradients(mixed, 3, given[0], table), *fused, dropped, rows]


@pytest.mark.parametrize("kind", TOLERANCES, ids=str)
@pytest.mark.parametrize("size", [8, 16, 19, 32])
def test_all_widths_say_the_same(kind: torch.dtype, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    here = loops.width
    assert here in WIDTHS
    widest = all_of(kind, size)
    rtol, atol = TOLERANCES[kind]
    for width in WIDTHS[: WIDTHS.index(here)]:
        monkeypatch.setattr(loops, "width", width)
        torch.testing.assert_close(all_of(kind, size), widest, rtol=rtol, atol=atol)
