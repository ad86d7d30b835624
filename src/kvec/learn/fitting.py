"""From labelled items to a trained model: vocabulary, network, training, and the operating point on validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch

from kvec.decide.checkpoint import Trained
from kvec.decide.model import Network
from kvec.learn.material import Material, material_of
from kvec.learn.memory import build_in_memory, refused_by, way_out_of_batches
from kvec.learn.resuming import begin_run, keep_run
from kvec.learn.run import Run, new_run
from kvec.learn.settling import settle
from kvec.learn.together import ALONE, Together
from kvec.learn.trainer import Step, train
from kvec.learn.validating import hold_out
from kvec.tangle.tangles import Tangles
from kvec.tangle.tangling import Split
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import FIRST_KNOWN, Vocabulary
from kvec.words.config import Config
from kvec.words.errors import SettingError
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
    together: Together = ALONE  # the processes that train this model


def fit_model(
    training: pl.DataFrame, validation: pl.DataFrame, schema: Schema, config: Config, device: torch.device,
    pretrained: Pretrained, split: Split | None, progress: Progress, kind: type[Network] = Network,
    pace: Pace | None = None,
) -> Trained:  # fmt: skip
    """Train on arranged items; all that is learned comes from `training`, all that is chosen from `validation`.

    With `pace`, for as many epochs as it says.
    """
    material = material_of(training, validation, schema, split)
    return fit_material(material, schema, config, device, pretrained, progress, kind, pace)


def fit_material(
    material: Material, schema: Schema, config: Config, device: torch.device, pretrained: Pretrained,
    progress: Progress, kind: type[Network] = Network, pace: Pace | None = None,
) -> Trained:  # fmt: skip
    """Train on what is encoded already."""
    vocabulary, has_time = material.vocabulary, material.has_time
    _check_settings(config, has_time, device)
    rule = make_rule(config.visibility)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.training.seed)
        network = build_in_memory(vocabulary, config.encoder, has_time, kind, len(rule.relations))
    network.favour(rule.biases)
    _start_from(pretrained, network, vocabulary)
    network.to(device).turn(config.training.delay_cost)
    if pace is not None:
        assert isinstance(material.training, Tangles)
        config = config.override([f"training.epochs={pace(network, material.training, config)}"])
    run = new_run(network, config.training, progress.together)
    facts = {
        "settings": config.to_dict(), "schema": schema.to_dict(), "about": material.about, "data": material.data,
    }  # fmt: skip
    begin_run(run, progress.path, facts, progress.resume)

    def after_epoch(run: Run) -> None:
        if progress.path is not None and run.together.keeps:
            keep_run(run, progress.path, facts)
        if progress.on_epoch is not None:
            progress.on_epoch(run)

    with refused_by(lambda: way_out_of_batches(config.training) + _kept(run, progress.path)):
        train(run, material.training, material.validation, rule, config, progress.on_step, after_epoch)
        settled = settle(hold_out(network, material.validation, config, run.together), config)
    split = material.split
    return Trained(
        network, vocabulary, schema, config, has_time, settled.point.threshold, run.history,
        split.to_dict() if split else None, settled.held, material.about, settled.readiness, settled.point.delay_cost,
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


def _check_settings(config: Config, has_time: bool, device: torch.device) -> None:
    if config.training.precision != "float32" and device.type == "cpu":
        raise SettingError(
            f"training.precision is {config.training.precision!r}, which is for GPUs and slows processors down; leave "
            "it at float32"
        )
    needs_time = {"training.delay": ("seconds",), "encoder.time": ("both",)}
    for name, values in needs_time.items():
        if (value := config.get(name)) in values and not has_time:
            raise SettingError(f"{name} is {value!r}, but the data has no time column; name one, or change the setting")
