"""The input embedding: clamps, wraps, and what it takes from whom. (Its sum stands in tests/paper.)"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kvec.encode.embedding import Embedding, look_up
from kvec.words.sizes import Vocabularies

SIZES = Vocabularies(fields=(4, 3), slots=2, positions=3, arrivals=5, gaps=6, projected=2)


def embed(embedding: Embedding, **changed: Tensor) -> Tensor:
    parts = {
        "codes": torch.tensor([[[1, 2]]], dtype=torch.int32),
        "numbers": torch.tensor([[[0.5, 0.0]]]),
        "slot": torch.tensor([[1]]),
        "position": torch.tensor([[2]]),
        "arrival": torch.tensor([[4]]),
        "gaps": torch.tensor([[[3, 5]]]),
    }
    with torch.no_grad():
        return embedding(**(parts | changed))[0, 0]


@pytest.mark.parametrize(
    "changed",
    [
        {"codes": torch.tensor([[[1, 1]]])},
        {"numbers": torch.tensor([[[0.5, 1.0]]])},
        {"slot": torch.tensor([[0]])},
        {"position": torch.tensor([[1]])},
        {"arrival": torch.tensor([[3]])},
        {"gaps": torch.tensor([[[3, 4]]])},
        {"gaps": torch.tensor([[[5, 3]]])},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_every_part_counts(changed: dict[str, Tensor]) -> None:
    torch.manual_seed(0)
    embedding = Embedding(SIZES, 8)
    assert not torch.allclose(embed(embedding), embed(embedding, **changed))


def test_late_positions_share_one_vector_and_arrivals_come_round() -> None:
    embedding = Embedding(SIZES, 8)
    assert torch.equal(embed(embedding), embed(embedding, position=torch.tensor([[700]])))
    assert torch.equal(embed(embedding), embed(embedding, arrival=torch.tensor([[9]])))


@pytest.mark.parametrize(
    ("off", "changed"),
    [
        ({"slots": 0}, {"slot": torch.tensor([[0]])}),
        ({"positions": 0}, {"position": torch.tensor([[0]])}),
        ({"arrivals": 0}, {"arrival": torch.tensor([[0]])}),
        ({"gaps": 0}, {"gaps": torch.tensor([[[0, 0]]])}),
        ({"projected": 0}, {"numbers": torch.tensor([[[9.0, 1.0]]])}),
    ],
    ids=str,
)
def test_a_part_that_is_switched_off_has_no_influence(off: dict[str, int], changed: dict[str, Tensor]) -> None:
    embedding = Embedding(Vocabularies(**(vars(SIZES) | off)), 8)
    assert torch.equal(embed(embedding), embed(embedding, **changed))


def test_numbers_alone() -> None:
    embedding = Embedding(Vocabularies((), 0, 0, 0, 0, projected=2), 8)
    codes = torch.zeros(2, 3, 0, dtype=torch.int32)
    nothing = torch.zeros(2, 3, dtype=torch.int64)
    embedded = embedding(codes, torch.ones(2, 3, 2), nothing, nothing, nothing, None)
    assert embedded.shape == (2, 3, 8)
    assert torch.allclose(embedded[1, 2], embedding.project.weight.sum(dim=1))  # type: ignore[union-attr]


def test_codes_may_start_from_given_vectors() -> None:
    embedding = Embedding(Vocabularies((4, 3), 0, 0, 0, 0, 0), 2)
    before = embedding.table.detach().clone()
    embedding.start_from(1, {2: [7.0, -7.0]})
    assert embedding.table[6].tolist() == [7.0, -7.0]
    assert torch.equal(embedding.table[:6], before[:6])
    embedding.start_from(0, {0: [1.0, 2.0], 3: [3.0, 4.0]})
    assert embedding.table[3].tolist() == [3.0, 4.0]
    assert embedding.table.requires_grad


def test_starts_follow_from_the_sizes_and_are_not_saved() -> None:
    assert set(Embedding(SIZES, 8).state_dict()) == {"table", "project.weight"}


@pytest.mark.parametrize("width", [3, 16, 21])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_look_up_and_its_gradient_are_those_of_an_embedding_bag(width: int, kind: torch.dtype) -> None:
    rng = torch.Generator().manual_seed(width)
    index = torch.randint(0, 5, (40, 3), generator=rng)  # some rows twice in one sum
    table = torch.randn(6, width, generator=rng, dtype=kind).requires_grad_()
    towards = torch.randn(40, width, generator=rng, dtype=kind)
    found, expected = look_up(index, table), functional.embedding_bag(index, table, mode="sum")
    assert torch.equal(found, expected)
    (a,), (e,) = (torch.autograd.grad(x, table, towards) for x in (found, expected))
    torch.testing.assert_close(a, e)
    assert not a[5].any()
