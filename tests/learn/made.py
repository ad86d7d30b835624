"""What the tests of training share: planted tangles, a tiny network, and ways to train it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from kvec.decide.model import build_network
from kvec.learn.run import Run, new_run
from kvec.learn.supply import delay
from kvec.learn.trainer import train, train_batch
from kvec.tangle.batch import Batch
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.visibility import Rule, make_rule
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config, Encoder, Training, Visibility
from kvec.words.schema import Field, Schema

RULE = make_rule(Visibility("paper"))
SCHEMA = Schema(values=(Field("sign", kind="categorical"),), labels=("app",))
TINY = Config(
    visibility=Visibility("paper"),
    encoder=Encoder(
        width=16,
        blocks=1,
        heads=2,
        feed_forward=32,
        fusion=16,
        slots=8,
        positions=16,
        time="auto",
        use_membership=True,
        dropout=0.1,
        hide=0.0,
    ),
    training=Training(
        objective="expected",
        epochs=4,
        learning_rate=0.01,
        warmup=5,
        delay_cost=1.0,
        floor=0.1,
        settle=0.3,
        patience=6,
        batch_items=32768,
        block=512,
    ),
)


TELLING: dict[str, Any] = {  # nothing learns from what waiting costs
    "objective": "every", "delay_cost": Training.delay_cost, "floor": Training.floor, "settle": Training.settle,
}  # fmt: skip
OBJECTIVES: dict[str, dict[str, Any]] = {"every": TELLING, "expected": {}, "paper": {"objective": "paper"}}


def planted(n_tangles: int, seed: int, length: int = 8, marked: int = 2) -> pl.DataFrame:
    """Two keys side by side; an item at `marked` names the class of its key, all others are noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for tangle in range(n_tangles):
        classes = rng.integers(0, 2, 2)
        for position in range(length):
            for key in (0, 1):
                noise = f"noise {rng.integers(4)}"
                sign = ("left", "right")[classes[key]] if position == marked else noise
                rows.append((tangle, key, sign, "ab"[classes[key]]))
    return pl.DataFrame(rows, schema=["tangle", "key", "value.sign", "label.app"], orient="row")


def planted_tangles(n_tangles: int, seed: int, vocabulary: Vocabulary | None = None) -> tuple[Tangles, Vocabulary]:
    frame = planted(n_tangles, seed)
    vocabulary = vocabulary or Vocabulary.fit(frame, SCHEMA)
    return encode_tangles(frame, SCHEMA, vocabulary), vocabulary


TRAINING, WORDS = planted_tangles(64, seed=1)
VALIDATION, _ = planted_tangles(40, seed=2, vocabulary=WORDS)


def fresh(config: Config = TINY, seed: int = 0) -> Run:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        relations = len(make_rule(config.visibility).relations)
        return new_run(build_network(WORDS, config.encoder, False, n_relations=relations), config.training)


def trained(config: Config, run: Run | None = None, **listeners: Any) -> Run:
    return train(run or fresh(config), TRAINING, VALIDATION, make_rule(config.visibility), config, **listeners)


def with_training(config: Config = TINY, **changes: Any) -> Config:
    return replace(config, training=replace(config.training, **changes))


def one_batch(
    run: Run, tangles: Tangles, rule: Rule, settings: Training, weights: list[Tensor] | None = None, seed: int = 3
) -> dict[str, float]:
    """Train on all tangles as one batch."""
    batch = Batch.of(tangles, np.arange(tangles.n_tangles))
    rng = np.random.default_rng(seed)
    return train_batch(run, batch, rule, settings, delay(tangles, settings), weights, rng, settings.delay_cost)
