"""Where the batches of an epoch come from: tangles in memory, all of them, or the share of this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from kvec.decide.model import Network
from kvec.learn.together import Together
from kvec.tangle.batch import Batch, Ints, plan_batches
from kvec.tangle.dealing import deal, draw_parts
from kvec.tangle.tangles import Tangles
from kvec.words.config import Training

LEAST_STEPS = 64  # an epoch of few tangles takes smaller batches rather than fewer updates


@dataclass(frozen=True)
class Portion:
    """This process's share of a batch, and the delay of every item of the table that it lies in."""

    batch: Batch
    delays: Tensor


class Supply(Protocol):
    """All that training reads, an epoch at a time."""

    def class_counts(self) -> list[Ints]:
        """How many labelled sequences there are of each class, for each label column."""
        ...

    def epoch(
        self, epoch: int, settings: Training, rng: np.random.Generator, together: Together
    ) -> tuple[int, Iterator[Portion]]:
        """The number of batches, the same for all processes, and this process's share of each."""
        ...


class InMemory:
    """Tangles that every process has as a whole."""

    def __init__(self, tangles: Tangles, n_classes: tuple[int, ...]) -> None:
        self._tangles, self._n_classes = tangles, n_classes

    def class_counts(self) -> list[Ints]:
        """How many labelled sequences there are of each class, for each label column."""
        return count_classes(self._tangles, self._n_classes)

    def epoch(
        self, epoch: int, settings: Training, rng: np.random.Generator, together: Together
    ) -> tuple[int, Iterator[Portion]]:
        """The number of batches, the same for all processes, and this process's share of each."""
        tangles, plan = plan_epoch(self._tangles, settings, rng)
        delays = delay(tangles, settings)
        shares = ((members, together.mine(np.arange(len(members)))) for members in plan)
        return len(plan), (
            Portion(Batch.of(tangles, members[here], tangles.sizes[members], here), delays) for members, here in shares
        )


def plan_epoch(tangles: Tangles, settings: Training, rng: np.random.Generator) -> tuple[Tangles, list[Ints]]:
    """The tangles of an epoch, which may be dealt out, and those of each batch."""
    if settings.deal:
        tangles = deal(tangles, draw_parts(tangles.tangle_of.astype(np.int64), rng))
    return tangles, plan_sizes(tangles.sizes, tangles.n_tangles, settings, rng)


def plan_sizes(sizes: Ints, n_tangles: int, settings: Training, rng: np.random.Generator) -> list[Ints]:
    """Batches of tangles of these sizes, which are some of `n_tangles`."""
    most = max(min(settings.batch, n_tangles // LEAST_STEPS), 1)
    return plan_batches(sizes, most, settings.batch_items, settings.block, rng)


def delay(tangles: Tangles, settings: Training) -> Tensor:
    """d_i of every item, in table order: the share of its sequence seen, or items or seconds over their unit."""
    position = tangles.sequences.position + 1.0
    if settings.delay == "fraction":
        return torch.from_numpy(position / tangles.sequences.length[tangles.sequences.sequence])
    if settings.delay == "items":
        return torch.from_numpy(position / settings.delay_unit)
    assert tangles.time is not None
    begun = tangles.time[tangles.sequences.first][tangles.sequences.sequence]
    return torch.from_numpy((tangles.time - begun) / settings.delay_unit)


def count_classes(tangles: Tangles, n_classes: tuple[int, ...]) -> list[Ints]:
    """How many labelled sequences there are of each class, for each label column."""
    columns = (labels[labels >= 0] for labels in tangles.labels.T)
    return [np.bincount(labels, minlength=n) for labels, n in zip(columns, n_classes, strict=True)]


def class_weights(counts: list[Ints], network: Network) -> list[Tensor]:
    """Weights per class that let every class count the same, with mean 1 over the sequences."""
    weights = []
    for column in counts:
        weight = column.sum() / (np.maximum(column, 1) * (column > 0).sum())
        weights.append(torch.tensor(weight, dtype=torch.float32, device=network.policy.weight.device))
    return weights
