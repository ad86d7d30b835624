"""Layouts, sampling, gradients, and sequences that are not labelled. (The formulas stand in tests/paper.)"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kvec.decide.model import Outputs
from kvec.learn.losses import (
    Episodes,
    Layout,
    Terms,
    expected_terms,
    expected_total,
    paper_terms,
    paper_total,
    sample_episodes,
    stopping_probabilities,
)

LENGTHS = [3, 1, 4, 2]


def random_outputs(lengths: list[int], seed: int = 0, classes: tuple[int, ...] = (3, 2)) -> Outputs:
    rng = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64).requires_grad_()

    n = sum(lengths)
    return Outputs(leaf(n), tuple(leaf(n, c) for c in classes), leaf(n))


@given(st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_a_layout_numbers_and_sums_by_sequence(lengths: list[int]) -> None:
    layout = Layout.of(torch.tensor(lengths))
    values = torch.arange(1.0, sum(lengths) + 1)
    pieces = [piece.tolist() for piece in values.split(lengths)]
    assert layout.rows.tolist() == [s for s, piece in enumerate(pieces) for _ in piece]
    assert layout.columns.tolist() == [i for piece in pieces for i in range(len(piece))]
    assert layout.sum(values).tolist() == [sum(piece) for piece in pieces]
    assert values[layout.is_last].tolist() == [piece[-1] for piece in pieces]


def test_one_long_sequence_beside_many_short_ones_takes_no_more_room() -> None:
    """Padded to the longest, these would need forty gigabytes and more."""
    layout = Layout.of(torch.tensor([100_000] + [1] * 100_000))
    halt = torch.full((200_000,), -9.0, dtype=torch.float64)
    stop = stopping_probabilities(halt, layout)
    assert layout.sum(stop).tolist() == pytest.approx([1.0] * 100_001)
    episodes = sample_episodes(halt + 18, layout, torch.Generator().manual_seed(0))
    assert episodes.n_observed[0] < 10 and bool(episodes.chose[0])
    assert episodes.n_observed.max() < 10


@given(st.integers(0, 500))
def test_stopping_probabilities_sum_to_one(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 60, (8,), generator=rng)
    layout = Layout.of(lengths)
    halt = torch.randn(int(lengths.sum()), generator=rng, dtype=torch.float64) * 20
    stop = stopping_probabilities(halt, layout)
    assert ((stop >= 0) & (stop <= 1)).all()
    torch.testing.assert_close(layout.sum(stop), torch.ones(8, dtype=torch.float64))


def test_sampled_stops_come_as_often_as_the_policy_says() -> None:
    n = 40_000
    layout = Layout.of(torch.full((n,), 3))
    halt = torch.tensor([-1.0, 0.5, 0.0], dtype=torch.float64).repeat(n)
    episodes = sample_episodes(halt, layout, torch.Generator().manual_seed(0))
    expected = stopping_probabilities(halt[:3], Layout.of(torch.tensor([3])))
    for place in range(3):
        share = (episodes.n_observed == place + 1).double().mean()
        assert share == pytest.approx(float(expected[place]), abs=0.01)
    h = halt[:3].sigmoid()
    assert (~episodes.chose).double().mean() == pytest.approx(float((1 - h).prod()), abs=0.01)
    assert (episodes.n_observed[~episodes.chose] == 3).all()


def test_exploration_mixes_in_even_chances() -> None:
    n = 40_000
    layout = Layout.of(torch.full((n,), 2))
    for logit, share, expected in ((-30, 0.0, 0.0), (-30, 0.4, 0.2), (-30, 1.0, 0.5), (30, 0.4, 0.8), (30, 1.0, 0.5)):
        halt = torch.full((2 * n,), float(logit), dtype=torch.float64)
        episodes = sample_episodes(halt, layout, torch.Generator().manual_seed(1), share)
        first = ((episodes.n_observed == 1) & episodes.chose).double().mean()
        assert first == pytest.approx(expected, abs=0.01)


def test_sampling_follows_its_generator_alone() -> None:
    layout = Layout.of(torch.full((50,), 4))
    halt = torch.zeros(200)

    def draw(seed: int) -> list[int]:
        torch.manual_seed(seed + 100)  # the generator of everyone has no say
        return sample_episodes(halt, layout, torch.Generator().manual_seed(seed)).n_observed.tolist()

    assert draw(1) == draw(1) != draw(2)
    state = torch.get_rng_state()
    sample_episodes(halt, layout, torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), state)


LABELS = torch.tensor([[2, 1], [0, -1], [-1, -1], [1, 0]])


def both_objectives(outputs: Outputs, labels: Tensor, lengths: list[int], stops: list[int]) -> list[Terms]:
    layout = Layout.of(torch.tensor(lengths))
    delay = layout.columns.double()
    chose = torch.tensor([s < n for s, n in zip(stops, lengths, strict=True)])
    return [
        expected_terms(outputs, labels, layout, delay),
        expected_terms(outputs, labels, layout, delay, policy_cost="error"),
        paper_terms(outputs, labels, layout, Episodes(torch.tensor(stops), chose), 2),
        paper_terms(outputs, labels, layout, Episodes(torch.tensor(stops), chose), 2, "final"),
    ]


def test_a_sequence_without_labels_counts_nothing() -> None:
    """The third sequence has no label: leaving it out changes no term, and it gets no gradient."""
    outputs = random_outputs(LENGTHS)
    kept = torch.tensor([0, 1, 2, 3, 8, 9])
    with_it = both_objectives(outputs, LABELS, LENGTHS, [2, 1, 3, 2])
    without = both_objectives(outputs.taken(kept), LABELS[[0, 1, 3]], [3, 1, 2], [2, 1, 2])
    for a, b in zip(with_it, without, strict=True):
        assert a.to_floats() == pytest.approx(b.to_floats(), rel=1e-12)
    totals = [expected_total(t, 1.0, 0.1) for t in with_it[:2]] + [paper_total(t, 1.0, 0.1) for t in with_it[2:]]
    for total in totals:
        for tensor in outputs.tensors():
            (gradient,) = torch.autograd.grad(total, tensor, retain_graph=True, allow_unused=True)
            if gradient is not None:
                assert not gradient[4:8].any()
                assert gradient.isfinite().all()


def test_no_labels_at_all() -> None:
    outputs = random_outputs(LENGTHS)
    for terms in both_objectives(outputs, torch.full((4, 2), -1), LENGTHS, [1, 1, 1, 1]):
        assert set(terms.to_floats().values()) == {0.0}


def test_reward_needs_every_known_column() -> None:
    """With the return `final` and no baseline, l2 of one item is -r log P: its sign tells the reward."""
    layout, episodes = Layout.of(torch.tensor([1])), Episodes(torch.tensor([1]), torch.tensor([True]))

    def reward(labels: list[int]) -> float:
        outputs = Outputs(torch.zeros(1), (torch.tensor([[0.0, 9.0]]), torch.tensor([[9.0, 0.0]])), torch.zeros(1))
        terms = paper_terms(outputs, torch.tensor([labels]), layout, episodes, 1, "final")
        return float(terms.policy.sign())

    assert reward([1, 0]) == 1
    assert reward([1, 1]) == -1
    assert reward([0, 0]) == -1
    assert reward([1, -1]) == 1
    assert reward([-1, 1]) == -1


def test_the_gradient_is_that_of_finite_differences() -> None:
    labels, layout = LABELS.clone(), Layout.of(torch.tensor(LENGTHS))
    outputs = random_outputs(LENGTHS, seed=4)
    delay = (layout.columns + 1) / layout.lengths[layout.rows].double()

    def loss(halt: Tensor, one: Tensor, two: Tensor) -> Tensor:
        terms = expected_terms(Outputs(halt, (one, two), outputs.baseline), labels, layout, delay)
        return expected_total(terms, 0.8, 0.1)

    assert torch.autograd.gradcheck(loss, (outputs.halt, *outputs.classes))


def test_the_gradient_of_the_policys_error_is_that_of_finite_differences() -> None:
    """With `error`, halting is trained by the error probability and the classifier by cross entropy, each alone."""
    layout, outputs = Layout.of(torch.tensor(LENGTHS)), random_outputs(LENGTHS, seed=4)
    delay = (layout.columns + 1) / layout.lengths[layout.rows].double()

    def terms(halt: Tensor, *classes: Tensor) -> Terms:
        return expected_terms(replace(outputs, halt=halt, classes=classes), LABELS, layout, delay, "error")

    fixed = [c.detach() for c in outputs.classes]
    assert torch.autograd.gradcheck(
        lambda h: terms(h, *fixed).policy + 0.8 * terms(h, *fixed).lateness, (outputs.halt,)
    )
    halt = outputs.halt.detach()
    assert torch.autograd.gradcheck(lambda *c: terms(halt, *c).classification, outputs.classes)
    assert not terms(outputs.halt, *fixed).classification.requires_grad
    assert not terms(halt, *outputs.classes).policy.requires_grad


def test_the_papers_gradients_go_where_they_should() -> None:
    layout, outputs = Layout.of(torch.tensor(LENGTHS)), random_outputs(LENGTHS)
    terms = paper_terms(
        outputs, LABELS, layout, Episodes(torch.tensor([2, 1, 3, 2]), torch.ones(4, dtype=torch.bool)), 1
    )

    def trains(term: Tensor) -> list[bool]:
        found = torch.autograd.grad(term, outputs.tensors(), retain_graph=True, allow_unused=True)
        return [g is not None and bool(g.any()) for g in found]

    assert trains(terms.classification) == [False, True, True, False]
    assert trains(terms.policy) == [True, False, False, False]
    assert trains(terms.lateness) == [True, False, False, False]
    assert trains(terms.baseline) == [False, False, False, True]
