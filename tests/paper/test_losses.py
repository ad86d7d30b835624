"""All objectives against loops over sequences, items and actions (§IV-E)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.paper.slow import (
    SlowEpisode,
    enumerated_stops,
    slow_cross_entropy,
    slow_every,
    slow_expected,
    slow_paper,
    slow_stopping,
)
from torch import Tensor

from kvec.decide.model import Outputs
from kvec.learn.losses import (
    Episodes,
    Layout,
    cross_entropy,
    error_probability,
    every_terms,
    expected_terms,
    expected_total,
    paper_terms,
    paper_total,
    stopping_probabilities,
)

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=5)
SEEDS = st.integers(0, 10_000)


def random_outputs(lengths: list[int], seed: int, classes: tuple[int, ...] = (3,)) -> tuple[Outputs, Tensor, Layout]:
    """Outputs of every item, labels of every sequence, and their layout."""
    rng = torch.Generator().manual_seed(seed)
    n = sum(lengths)
    outputs = Outputs(
        torch.randn(n, generator=rng, dtype=torch.float64) * 2,
        tuple(torch.randn(n, c, generator=rng, dtype=torch.float64) * 2 for c in classes),
        torch.randn(n, generator=rng, dtype=torch.float64),
    )
    labels = torch.stack([torch.randint(0, c, (len(lengths),), generator=rng) for c in classes], dim=1)
    return outputs, labels, Layout.of(torch.tensor(lengths))


def pieces(values: Tensor, lengths: list[int]) -> list[list[float]]:
    return [part.tolist() for part in values.split(lengths)]


@given(LENGTHS, SEEDS)
def test_stopping_probabilities(lengths: list[int], seed: int) -> None:
    outputs, _, layout = random_outputs(lengths, seed)
    stop = pieces(stopping_probabilities(outputs.halt, layout), lengths)
    for fast, halt in zip(stop, pieces(outputs.halt.sigmoid(), lengths), strict=True):
        assert fast == pytest.approx(slow_stopping(halt), rel=1e-12)
        assert sum(fast) == pytest.approx(1, rel=1e-12)
        listed = [0.0] * len(halt)
        for probability, place in enumerated_stops(halt):
            listed[place] += probability
        assert fast == pytest.approx(listed, rel=1e-12)


def test_stopping_probabilities_of_certain_policies() -> None:
    layout = Layout.of(torch.tensor([3, 2, 1]))
    sure, never = 800.0, -800.0
    halt = torch.tensor([never, sure, never, never, never, never], dtype=torch.float64, requires_grad=True)
    stop = stopping_probabilities(halt, layout)
    assert stop.tolist() == [0, 1, 0, 0, 1, 1]
    (stop * torch.arange(6)).sum().backward()
    assert halt.grad is not None and halt.grad.isfinite().all()


@given(LENGTHS, SEEDS, st.booleans(), st.booleans(), st.sampled_from([0.0, 0.2, 1.0]))
def test_the_objective_at_every_length_is_the_mean_over_lengths(
    lengths: list[int], seed: int, is_weighted: bool, is_early: bool, ends: float
) -> None:
    lengths = [*lengths, 2]
    outputs, labels, layout = random_outputs(lengths, seed, classes=(3, 2))
    labels[0, 1] = labels[-1] = -1  # one column of the first sequence is not known, and nothing of the last
    weights = [torch.tensor([0.5, 2.0, 1.0]), torch.tensor([1.5, 0.25])] if is_weighted else None
    slow = 0.0
    for s in range(len(lengths) - 1):
        for column, logits in enumerate(outputs.classes):
            truth = int(labels[s, column])
            weight = float(weights[column][truth]) if weights else 1.0
            losses = [slow_cross_entropy(row, truth, weight) for row in pieces(logits, lengths)[s]]  # type: ignore[arg-type]
            slow += ((1 - ends) * slow_every(losses, is_early) + ends * losses[-1]) / (len(lengths) - 1)
    terms = every_terms(outputs, labels, layout, weights, "early" if is_early else "even", ends)
    assert float(terms.every) == pytest.approx(slow, rel=1e-10)
    assert [float(term) for term in (terms.classification, terms.policy, terms.lateness, terms.baseline)] == [0] * 4


@given(LENGTHS, SEEDS, st.floats(0, 3), st.floats(0, 1), st.booleans(), st.booleans())
def test_the_expected_objective_is_the_mean_over_all_actions(
    lengths: list[int], seed: int, delay_cost: float, floor: float, is_weighted: bool, is_early: bool
) -> None:
    outputs, labels, layout = random_outputs(lengths, seed, classes=(3, 2))
    labels[0, 1] = -1  # one column of the first sequence is not known
    weights = [torch.tensor([0.5, 2.0, 1.0]), torch.tensor([1.5, 0.25])] if is_weighted else None
    delay = torch.rand(len(outputs.halt), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    sequences = []
    for s, (halt, late) in enumerate(zip(pieces(outputs.halt.sigmoid(), lengths), pieces(delay, lengths), strict=True)):
        costs = [0.0] * lengths[s]
        for column, logits in enumerate(outputs.classes):
            truth = int(labels[s, column])
            weight = float(weights[column][truth]) if weights else 1.0
            for i, row in enumerate(pieces(logits, lengths)[s]):
                costs[i] += slow_cross_entropy(row, truth, weight)  # type: ignore[arg-type]
        sequences.append((halt, costs, late))
    counted = "early" if is_early else "even"
    terms = expected_terms(outputs, labels, layout, delay, weights=weights, lengths=counted)
    assert float(expected_total(terms, delay_cost, floor)) == pytest.approx(
        slow_expected(sequences, delay_cost, floor, is_early), rel=1e-10
    )


@given(LENGTHS, SEEDS, st.floats(0, 3))
def test_the_expected_error_is_the_mean_over_all_actions(lengths: list[int], seed: int, delay_cost: float) -> None:
    outputs, labels, layout = random_outputs(lengths, seed)
    delay = torch.rand(len(outputs.halt), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    chances = pieces(outputs.classes[0].softmax(dim=1), lengths)
    errors = [[1 - row[int(labels[s, 0])] for row in rows] for s, rows in enumerate(chances)]  # type: ignore[index]
    assert pieces(error_probability(outputs, labels, layout), lengths) == [
        pytest.approx(row, rel=1e-10, abs=1e-14) for row in errors
    ]
    halts, late = pieces(outputs.halt.sigmoid(), lengths), pieces(delay, lengths)
    terms = expected_terms(outputs, labels, layout, delay, policy_cost="error")
    slow = slow_expected(list(zip(halts, errors, late, strict=True)), delay_cost, 0.0)
    assert float(terms.policy + delay_cost * terms.lateness) == pytest.approx(slow, rel=1e-10)
    plain = expected_terms(outputs, labels, layout, delay)
    assert float(terms.classification) == pytest.approx(float(plain.classification))


@given(LENGTHS, SEEDS, st.sampled_from(["sum", "final"]), st.booleans(), st.integers(1, 4))
def test_the_papers_terms(lengths: list[int], seed: int, returns: str, is_weighted: bool, n_tangles: int) -> None:
    outputs, labels, layout = random_outputs(lengths, seed)
    rng = torch.Generator().manual_seed(seed)
    length = torch.tensor(lengths)
    n_observed = (torch.rand(len(lengths), generator=rng) * length).long() + 1
    chose = (n_observed < length) | (torch.rand(len(lengths), generator=rng) < 0.5)  # a forced end is at the end
    weights = [torch.tensor([0.5, 2.0, 1.0])] if is_weighted else None
    terms = paper_terms(outputs, labels, layout, Episodes(n_observed, chose), n_tangles, returns, weights)
    episodes = [
        SlowEpisode(halt, logits, baseline, int(y), int(n), bool(c), float(weights[0][y]) if weights else 1.0)  # type: ignore[arg-type]
        for halt, logits, baseline, y, n, c in zip(
            pieces(outputs.halt.sigmoid(), lengths), pieces(outputs.classes[0], lengths),
            pieces(outputs.baseline, lengths), labels[:, 0], n_observed, chose, strict=True,
        )
    ]  # fmt: skip
    slow = slow_paper(episodes, n_tangles, returns)
    for name, value in slow.items():
        assert float(getattr(terms, name)) == pytest.approx(value, rel=1e-9, abs=1e-12), name
    total = slow["classification"] + 0.7 * slow["policy"] + 0.2 * slow["lateness"] + slow["baseline"]
    assert float(paper_total(terms, 0.7, 0.2)) == pytest.approx(total, rel=1e-9)


def test_a_forced_end_counts_its_last_wait() -> None:
    """One sequence of two items, right at the end; by hand."""
    h = [0.25, 0.4]
    outputs = Outputs(
        torch.tensor([math.log(p / (1 - p)) for p in h], dtype=torch.float64),
        (torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64),),
        torch.tensor([0.1, 0.2], dtype=torch.float64),
    )
    labels, layout = torch.tensor([[1]]), Layout.of(torch.tensor([2]))
    forced = Episodes(torch.tensor([2]), torch.tensor([False]))
    chosen = Episodes(torch.tensor([2]), torch.tensor([True]))
    by_sum = -((1 - 0.1) * math.log(0.75) + (0 - 0.2) * math.log(0.6))
    assert float(paper_terms(outputs, labels, layout, forced, 1, "sum").policy) == pytest.approx(by_sum)
    final = -((1 - 0.1) * math.log(0.75) + (1 - 0.2) * math.log(0.4))
    assert float(paper_terms(outputs, labels, layout, chosen, 1, "final").policy) == pytest.approx(final)


@given(LENGTHS, SEEDS)
def test_cross_entropy_after_each_item(lengths: list[int], seed: int) -> None:
    outputs, labels, layout = random_outputs(lengths, seed, classes=(3, 2))
    labels[-1, 0] = -1
    fast = cross_entropy(outputs, labels, layout).tolist()
    owners = [s for s, length in enumerate(lengths) for _ in range(length)]
    for i, s in enumerate(owners):
        slow = sum(
            slow_cross_entropy(logits[i].tolist(), int(labels[s, column]))
            for column, logits in enumerate(outputs.classes)
        )
        assert fast[i] == pytest.approx(slow, rel=1e-10)
