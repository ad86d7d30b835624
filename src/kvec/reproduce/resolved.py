"""The settings of a cell, all of them, and short digests that tell cells and their costs apart."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kvec.reproduce.plan import Cell, Sizes, short, start
from kvec.reproduce.trainings import TRAININGS, Training
from kvec.words.config import Config

# what an epoch costs does not depend on them: one pace holds for all of their values
FREE = (
    "alpha", "beta", "delay_cost", "delay", "delay_unit", "floor", "lengths", "settle", "policy_cost", "returns",
    "exploration", "epochs", "keep", "patience", "minutes", "learning_rate", "baseline_rate", "weight_decay", "warmup",
    "class_weights", "seed",
)  # fmt: skip
FREE_OF_ENCODER = ("dropout", "hide")


def cell_config(cell: Cell, sizes: Sizes, training: Training, keys_per_tangle: float = 1.0) -> Config:
    """The settings of a cell; a batch of sequences alone holds as many of them as one of tangles."""
    config = start(sizes.preset).override([
        *training.settings, *cell.overrides, f"training.seed={cell.seed}", f"training.epochs={sizes.epochs}",
        f"training.patience={sizes.epochs}",
    ])  # fmt: skip
    if not training.is_alone:
        return config
    return config.override([f"training.batch={max(round(config.training.batch * keys_per_tangle), 1)}"])


def digest(cell: Cell, sizes: Sizes) -> str:
    """All that a cell is made of, in a few letters: a changed default or profile changes them.

    Batches are counted in tangles here, so that no data need be read.
    """
    training = TRAININGS[cell.training]
    return short([
        cell.dataset, cell.training, cell.seed, asdict(sizes), _made(training),
        {} if training.classifier else _read(cell_config(cell, sizes, training)),
    ])  # fmt: skip


def pace_of(cell: Cell, sizes: Sizes) -> str:
    """What an epoch of a cell costs depends on this much of it, in a few letters."""
    training = TRAININGS[cell.training]
    costly = _read(cell_config(cell, sizes, training))
    costly["training"] = {name: value for name, value in costly["training"].items() if name not in FREE}
    costly["encoder"] = {name: value for name, value in costly["encoder"].items() if name not in FREE_OF_ENCODER}
    length = [sizes.length] if sizes.length else []
    return short([cell.dataset, cell.training, sizes.train, *length, sizes.folds, _made(training), costly])


def _read(config: Config) -> dict[str, Any]:
    """The settings without those that are not read, so that a new one changes no digest of older cells."""
    plain = config.to_dict()
    if config.visibility.rule != "typed":
        del plain["visibility"]["recent"]
    for name in ("ends", "deal"):
        if not plain["training"][name]:
            del plain["training"][name]
    return plain


def _made(training: Training) -> dict[str, Any]:
    return asdict(training) | {"network": training.network.__name__}
