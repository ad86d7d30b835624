"""From labelled items to a trained model: vocabulary, network, training, and the operating point on validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch

from kvec.decide.checkpoint import Trained
from kvec.decide.held import held_out
from kvec.decide.model import Network
from kvec.decide.readiness import Readiness
from kvec.decide.replaying import score_table
from kvec.learn.memory import build_in_memory, refused_by, way_out_of_batches
from kvec.learn.resuming import fingerprint, keep_run, resume_run
from kvec.learn.retuning import temperatures
from kvec.learn.trainer import Run, Step, new_run, operating_point, traces, train
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.tangling import Split
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import FIRST_KNOWN, Vocabulary
from kvec.words.config import Config
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Schema

Pretrained = Mapping[str, Mapping[Any, Sequence[float]]]
Pace = Callable[[Network, Tangles, Config], int]  # how many epochs fit into the time that is given


@dataclass(frozen=True)
class Progress:
    """Where a run is kept after every epoch, whether it goes on from there, and who hears of it."""

    path: Path | None = None
    resume: bool = False
    on_step: Callable[[Step], None] | None = None
    on_epoch: Callable[[Run], None] | None = None


def fit_model(
    training: pl.DataFrame, validation: pl.DataFrame, schema: Schema, config: Config, device: torch.device,
    pretrained: Pretrained, split: Split | None, progress: Progress, kind: type[Network] = Network,
    pace: Pace | None = None,
) -> Trained:  # fmt: skip
    """Train on arranged items; all that is learned comes from `training`, all that is chosen from `validation`.

    With `pace`, for as many epochs as it says.
    """
    vocabulary = Vocabulary.fit(training, schema)
    learned, validated = (encode_tangles(frame, schema, vocabulary) for frame in (training, validation))
    _check_trainable(config, learned, validated, schema.label_names)
    has_time, rule = learned.time is not None, make_rule(config.visibility)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        network = build_in_memory(vocabulary, config.encoder, has_time, kind, len(rule.relations))
    _start_from(pretrained, network, vocabulary)
    network.to(device).turn(config.training.delay_cost)
    if pace is not None:
        config = config.override([f"training.epochs={pace(network, learned, config)}"])
    run = new_run(network, config.training)
    about = _about(learned, validated)
    facts = {
        "settings": config.to_dict(), "schema": schema.to_dict(), "about": about,
        "data": fingerprint(vocabulary, learned, validated),
    }  # fmt: skip
    if progress.resume:
        resume_run(run, progress.path, facts)

    def after_epoch(run: Run) -> None:
        if progress.path is not None:
            keep_run(run, progress.path, facts)
        if progress.on_epoch is not None:
            progress.on_epoch(run)

    with refused_by(lambda: way_out_of_batches(config.training) + _kept(run, progress.path)):
        train(run, learned, validated, rule, config, progress.on_step, after_epoch)
        scores = score_table(network, validated, config)
    arrays = held_out(validated, scores)
    theta = operating_point(traces(validated, scores), config.deciding.fixed)
    return Trained(
        network, vocabulary, schema, config, has_time, theta, run.history, split.to_dict() if split else None,
        arrays, about, Readiness(temperatures(arrays)),
        config.training.delay_cost if config.encoder.knots > 1 else None,
    )  # fmt: skip


def _kept(run: Run, path: Path | None) -> str:
    if path is None or not run.history:
        return ""
    return f"; what was trained is kept in {path}, to go on with the same settings where there is more memory"


def _start_from(pretrained: Pretrained, network: Network, vocabulary: Vocabulary) -> None:
    names = [field.name for field in vocabulary.coded]
    for name, vectors in pretrained.items():
        if name not in names:
            raise SettingError(f"pretrained names {name!r}, which is no embedded field; fields: {', '.join(names)}")
        known = vocabulary.coded[names.index(name)].values
        codes = {value: code + FIRST_KNOWN for code, value in enumerate(known)}
        width = network.embedding.table.shape[1]
        if wrong := {len(v) for v in vectors.values()} - {width}:
            raise SettingError(f"pretrained vectors of {name!r} have {min(wrong)} numbers; the width is {width}")
        network.embedding.start_from(
            vocabulary.first_code(name), {codes[value]: v for value, v in vectors.items() if value in codes}
        )


def _about(training: Tangles, validation: Tangles) -> dict[str, int]:
    parts = {"train": training, "validation": validation}
    return {
        f"{name}_{what}": count
        for name, part in parts.items()
        for what, count in (("tangles", part.n_tangles), ("sequences", part.n_sequences), ("items", part.n_items))
    }


def _check_trainable(config: Config, training: Tangles, validation: Tangles, label_names: tuple[str, ...]) -> None:
    needs_time = {"training.delay": ("seconds",), "encoder.time": ("gaps", "both")}
    for name, values in needs_time.items():
        if (value := config.get(name)) in values and training.time is None:
            raise SettingError(f"{name} is {value!r}, but the data has no time column; name one, or change the setting")
    for name, labels in zip(label_names, validation.labels.T, strict=True):
        if not (labels >= 0).any():
            raise DataError(
                f"label column {name!r}: no validation sequence has a class that the training data has; "
                "give other validation data"
            )
