"""The objectives: telling at every length, the exact expected cost of stopping, and the paper's three terms (§IV-E).

Letters: N items laid out sequence by sequence, S sequences. Scores per item are (N,); nothing is padded, since one long
sequence beside many short ones would take room for as many long ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from kvec.decide.model import Outputs

Count = Callable[[Tensor], Tensor]  # of what is counted here, the number in the whole batch


def as_counted(here: Tensor) -> Tensor:
    """All of the batch is here."""
    return here


@dataclass(frozen=True)
class Layout:
    """Which of S sequences each of N items belongs to, and where in it."""

    rows: Tensor  # (N,) the sequence of each item
    columns: Tensor  # (N,) its index in it
    lengths: Tensor  # (S,)

    @classmethod
    def of(cls, lengths: Tensor) -> Layout:
        """The layout of sequences with these lengths."""
        rows = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        starts = torch.cumsum(lengths, 0) - lengths
        return cls(rows, torch.arange(len(rows), device=lengths.device) - starts[rows], lengths)

    def sum(self, values: Tensor) -> Tensor:
        """(N,) summed per sequence, (S,)."""
        return values.new_zeros(len(self.lengths)).index_add(0, self.rows, values)

    @property
    def is_last(self) -> Tensor:
        """(N,) whether an item is its sequence's last."""
        return self.columns == self.lengths[self.rows] - 1


@dataclass(frozen=True)
class Terms:
    """The terms of a loss, kept apart until the end; means over the batch, or this process's summands of them."""

    classification: Tensor  # l1, or the expected cross entropy
    policy: Tensor  # l2, REINFORCE with baseline, or the expected error probability
    lateness: Tensor  # l3, or the expected delay
    every: Tensor  # cross entropy at every length; all of `every`, unused in `paper`
    baseline: Tensor  # mean squared error of the baseline; its own optimiser

    def to_floats(self) -> dict[str, float]:
        """The terms as numbers, for the log."""
        return {name: float(value.detach()) for name, value in vars(self).items()}


def cross_entropy(outputs: Outputs, labels: Tensor, layout: Layout, weights: list[Tensor] | None = None) -> Tensor:
    """Cross entropy after each item, (N,), summed over label columns; unlabelled sequences count nothing."""
    total = outputs.halt.new_zeros(len(outputs.halt))
    for column, logits in enumerate(outputs.classes):
        weight = None if weights is None else weights[column].to(logits.dtype)
        truth = labels[layout.rows, column]
        total = total + functional.cross_entropy(logits, truth, weight=weight, ignore_index=-1, reduction="none")
    return total


def stopping_probabilities(halt: Tensor, layout: Layout) -> Tensor:
    """P_i = h_i Π_{j<i} (1 - h_j); the last item takes the rest. (N,) logits in, (N,) probabilities out."""
    waiting = functional.logsigmoid(-halt)
    waited = torch.cumsum(waiting.double(), 0) - waiting  # over all sequences: exact enough in double precision
    first = torch.cumsum(layout.lengths, 0) - layout.lengths
    before = (waited - waited[first][layout.rows]).to(halt.dtype)  # log Π_{j<i} (1 - h_j)
    here = torch.where(layout.is_last, torch.zeros_like(halt), functional.logsigmoid(halt))
    return torch.exp(before + here)


def every_terms(
    outputs: Outputs, labels: Tensor, layout: Layout, weights: list[Tensor] | None = None, lengths: str = "even",
    ends: float = 0.0, count: Count = as_counted,
) -> Terms:  # fmt: skip
    """The cross entropy at every length of labelled sequences; nothing is learned about halting.

    `lengths` says how the lengths of a sequence count, the n-th by 1/n where they are to count early; the share `ends`
    goes to its last item.
    """
    losses = cross_entropy(outputs, labels, layout, weights)
    every = _mean(losses * length_weights(layout, lengths, losses.dtype, ends), labels, layout, count)
    zero = losses.new_zeros(())
    return Terms(classification=zero, policy=zero, lateness=zero, every=every, baseline=zero)


def expected_terms(
    outputs: Outputs, labels: Tensor, layout: Layout, delay: Tensor, policy_cost: str = "cross_entropy",
    weights: list[Tensor] | None = None, share: Tensor | None = None, lengths: str = "even",
    count: Count = as_counted,
) -> Terms:  # fmt: skip
    """The expected cost of stopping, in closed form, and the cross entropy at every length; of labelled sequences.

    `share` is how much the stopping of each sequence counts, all the same without it.
    """
    losses = cross_entropy(outputs, labels, layout, weights)
    stop = stopping_probabilities(outputs.halt, layout)
    zero = losses.new_zeros(())
    is_apart = policy_cost == "error"

    def mean(values: Tensor, share: Tensor | None = None) -> Tensor:
        return _mean(values, labels, layout, count, share)

    return Terms(
        classification=mean((stop.detach() if is_apart else stop) * losses, share),
        policy=mean(stop * error_probability(outputs, labels, layout), share) if is_apart else zero,
        lateness=mean(stop * delay, share),
        every=mean(losses * length_weights(layout, lengths, losses.dtype)),
        baseline=zero,
    )


def _mean(values: Tensor, labels: Tensor, layout: Layout, count: Count, share: Tensor | None = None) -> Tensor:
    """(N,) values summed per sequence, as a mean over labelled ones."""
    known = (labels >= 0).any(dim=1)
    counted = known if share is None else known * share
    return (layout.sum(values) * counted).sum() / count(known.sum()).clamp(min=1)


def length_weights(layout: Layout, lengths: str, dtype: torch.dtype, ends: float = 0.0) -> Tensor:
    """(N,) how much each length of a sequence counts, 1 in sum: all alike, or the n-th by 1/n where `early`.

    The share `ends` of it goes to the last.
    """
    weight = torch.ones_like(layout.rows, dtype=dtype)
    if lengths == "early":
        weight /= layout.columns + 1
    return (1 - ends) * weight / layout.sum(weight)[layout.rows] + ends * layout.is_last.to(dtype)


def error_probability(outputs: Outputs, labels: Tensor, layout: Layout) -> Tensor:
    """The probability that the classifier gives to wrong classes after each item, (N,), no gradient."""
    total = outputs.halt.new_zeros(len(outputs.halt))
    for column, logits in enumerate(outputs.classes):
        truth = labels[layout.rows, column]
        right = functional.softmax(logits.detach(), dim=-1).gather(1, truth.clamp(min=0)[:, None])[:, 0]
        total = total + torch.where(truth >= 0, 1 - right, torch.zeros_like(right))
    return total


def expected_total(terms: Terms, delay_cost: float, floor: float) -> Tensor:
    """(1 - ε) (classification + policy + λ lateness) + ε every."""
    return (1 - floor) * (terms.classification + terms.policy + delay_cost * terms.lateness) + floor * terms.every


@dataclass(frozen=True)
class Episodes:
    """Sampled halts: where each sequence stopped, and whether it chose to."""

    n_observed: Tensor  # (S,)
    chose: Tensor  # (S,) False where the sequence ended first


def sample_episodes(
    halt: Tensor, layout: Layout, generator: torch.Generator, exploration: float = 0.0,
    among: tuple[int, Tensor] | None = None,
) -> Episodes:  # fmt: skip
    """Sample an action after each item from the policy, mixed with uniform actions; stop at the first Halt.

    `among` is how many items the whole batch has and which of them are here, so that all processes draw alike.
    """
    probability = (1 - exploration) * halt.detach().sigmoid() + exploration * 0.5
    draws = torch.rand(len(halt) if among is None else among[0], generator=generator, dtype=torch.float64)
    draws = (draws if among is None else draws[among[1]]).to(halt.device)
    never = layout.lengths[layout.rows] + 1
    stops = torch.where(draws < probability, layout.columns + 1, never)
    first = (layout.lengths + 1).scatter_reduce(0, layout.rows, stops, "amin")
    return Episodes(torch.minimum(first, layout.lengths), first <= layout.lengths)


def paper_terms(
    outputs: Outputs, labels: Tensor, layout: Layout, episodes: Episodes, n_tangles: int, returns: str = "sum",
    weights: list[Tensor] | None = None, count: Count = as_counted,
) -> Terms:  # fmt: skip
    """The paper's l1, l2, l3 and the baseline's error, summed over labelled sequences, averaged over tangles."""
    losses = cross_entropy(outputs, labels, layout, weights)
    n = episodes.n_observed[layout.rows]
    is_stop = layout.columns == n - 1
    is_seen = (layout.columns < n) & (labels >= 0).any(dim=1)[layout.rows]
    truth = labels[layout.rows]
    right = torch.stack([
        (logits.argmax(dim=1) == truth[:, i]) | (truth[:, i] < 0) for i, logits in enumerate(outputs.classes)
    ]).all(dim=0)  # fmt: skip
    reward = layout.sum((right & is_stop).to(losses.dtype))[layout.rows] * 2 - 1
    value = reward * (n - 1 - layout.columns) if returns == "sum" else reward
    is_halt = is_stop & episodes.chose[layout.rows]
    log_action = torch.where(is_halt, functional.logsigmoid(outputs.halt), functional.logsigmoid(-outputs.halt))
    advantage = value - outputs.baseline.detach()
    seen = is_seen.to(losses.dtype)
    return Terms(
        classification=(losses * is_stop).sum() / n_tangles,
        policy=-(advantage * log_action * seen).sum() / n_tangles,
        lateness=-(functional.logsigmoid(outputs.halt) * seen).sum() / n_tangles,
        every=losses.new_zeros(()),
        baseline=((outputs.baseline - value) ** 2 * seen).sum() / count(seen.sum()).clamp(min=1),
    )


def paper_total(terms: Terms, alpha: float, beta: float) -> Tensor:
    """l1 + α l2 + β l3; the baseline has its own optimiser and shares no parameter, so it is added as it is."""
    return terms.classification + alpha * terms.policy + beta * terms.lateness + terms.baseline
