"""Scores of every item of every sequence in one causal pass: what deciding, tuning and evaluating read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from kvec.decide.model import Network, run_blocks
from kvec.decide.scores import Scores
from kvec.tangle.batch import Batch, plan_batches
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import Rule


@torch.no_grad()
def score(
    network: Network, tangles: Tangles, rule: Rule, batch: int = 64, batch_items: int = 8192, block: int = 4096,
    progress: Callable[[int, int], None] | None = None, share: tuple[int, int] = (0, 1),
) -> Scores:  # fmt: skip
    """Run the network over whole tangles, without dropout; `progress` hears items done and items in all.

    The share (1, 3) is the second of three: other items' scores are 0.
    """
    was_training = network.training
    network.eval()
    halt = np.zeros(tangles.n_items, np.float32)
    classes = tuple(np.zeros((tangles.n_items, n), np.float32) for n in network.n_classes)
    n_knots = network.settings.knots
    knots = np.zeros((tangles.n_items, n_knots), np.float32) if n_knots > 1 else None
    place = np.empty(tangles.n_items, np.int64)
    place[tangles.sequences.by_sequence] = np.arange(tangles.n_items)
    done = 0
    for members in plan_batches(tangles.sizes, batch, batch_items, block)[share[0] :: share[1]]:
        for part, outputs in run_blocks(network, Batch.of(tangles, members), rule, block):
            rows = place[part.items]
            halt[rows] = outputs.halt.sigmoid().cpu().numpy()
            if knots is not None and outputs.knots is not None:
                knots[rows] = outputs.knots.cpu().numpy()
            for kept, logits in zip(classes, outputs.classes, strict=True):
                kept[rows] = logits.softmax(dim=-1).cpu().numpy()
            done += len(rows)
            if progress is not None:
                progress(done, tangles.n_items)
    network.train(was_training)
    return Scores(tangles.offsets, halt, classes, knots)
