"""How many epochs fit into a given time of one core: so that rivals of unlike speed are trained equally long."""

from __future__ import annotations

import copy
import time
from itertools import chain

import numpy as np
import torch

from kvec.decide.model import Network
from kvec.learn.run import new_run
from kvec.learn.supply import class_weights, count_classes, delay, plan_epoch
from kvec.learn.trainer import train_batch
from kvec.tangle.batch import Batch
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import make_rule
from kvec.words.config import Config

WARM_UP = 2  # batches that pay for compiling and for first allocations
SHARE = 0.03  # of the given time, spent on trying
TICK = 1e-3  # a clock may stand still for as long as this


def epochs_within(seconds: float, network: Network, training: Tangles, config: Config) -> int:
    """The epochs that take this much processor time, by trying some batches on a copy.

    At least one, and no more than the settings have.
    """
    run = new_run(copy.deepcopy(network), config.training)
    rule, settings = make_rule(config.visibility), config.training
    weights = (
        class_weights(count_classes(training, network.n_classes), network)
        if settings.class_weights == "balanced"
        else None
    )
    delays = delay(training, settings)
    rng = np.random.default_rng(settings.seed)
    run.network.train()
    batches = chain.from_iterable(plan_epoch(training, settings, rng) for _ in range(WARM_UP + 1))
    spent, n_items = 0.0, 0
    with torch.random.fork_rng(devices=[]):
        for step, members in enumerate(batches):
            batch = Batch.of(training, members)
            started = time.process_time()
            train_batch(run, batch, rule, settings, delays, weights, rng, settings.delay_cost)
            if step >= WARM_UP:
                spent += time.process_time() - started
                n_items += len(batch.items)
            if spent > SHARE * seconds:
                break
    return min(max(round(seconds * n_items / (max(spent, TICK) * training.n_items)), 1), settings.epochs)
