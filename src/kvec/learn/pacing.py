"""What an epoch costs on one core: so that rivals of unlike speed can be trained equally long."""

from __future__ import annotations

import copy
import time

import numpy as np
import torch

from kvec.decide.model import Network
from kvec.learn.run import new_run
from kvec.learn.supply import class_weights, count_classes, delay, plan_epoch
from kvec.learn.trainer import train_batch
from kvec.tangle.batch import Batch, Ints
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import make_rule
from kvec.words.config import Config

WARM_UP = 2  # batches that pay for compiling and for first allocations
ROUNDS = 4  # in which the same batches are tried: other work on the machine only ever adds to what one takes
FEWEST = 8  # batches at the least, if an epoch has as many
GOLDEN = (5**0.5 - 1) / 2
TICK = 1e-3  # a clock may stand still for as long as this


def seconds_per_epoch(network: Network, training: Tangles, config: Config, budget: float) -> float:
    """Processor time of an epoch of training, by trying some batches on a copy for about `budget` seconds.

    Each batch counts with the least that it took in any round, so that a busy machine makes little difference.
    """
    run = new_run(copy.deepcopy(network), config.training)
    rule, settings = make_rule(config.visibility), config.training
    weights = (
        class_weights(count_classes(training, network.n_classes), network)
        if settings.class_weights == "balanced"
        else None
    )
    rng = np.random.default_rng(settings.seed)
    run.network.train()
    training, plan = plan_epoch(training, settings, rng)
    delays = delay(training, settings)
    by_size = sorted(plan, key=lambda members: int(training.sizes[members].sum()))
    batches = [by_size[i] for i in np.argsort(np.arange(len(by_size)) * GOLDEN % 1)]  # the first few are of all sizes

    def took(members: Ints) -> float:
        started = time.process_time()
        train_batch(run, Batch.of(training, members), rule, settings, delays, weights, rng, settings.delay_cost)
        return time.process_time() - started

    with torch.random.fork_rng(devices=[]):
        for members in batches[:WARM_UP]:
            took(members)
        least: list[float] = []
        for members in batches:
            if len(least) >= FEWEST and sum(least) >= budget / ROUNDS:
                break
            least.append(took(members))
        tried = batches[: len(least)]
        for _ in range(ROUNDS - 1):
            least = [min(before, took(members)) for before, members in zip(least, tried, strict=True)]
    n_items = sum(int(training.sizes[members].sum()) for members in tried)
    return max(sum(least), TICK) * training.n_items / n_items
