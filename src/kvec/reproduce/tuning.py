"""A search, by Optuna and on validation alone, for the settings that the paper leaves open; as long for every rival."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from kvec.learn.fitting import Progress, fit_model
from kvec.learn.trainer import kept_of
from kvec.reproduce.cell import cell_config
from kvec.reproduce.datasets import read_parts
from kvec.reproduce.plan import Cell, Sizes
from kvec.reproduce.trainings import TRAININGS
from kvec.words.config import Config
from kvec.words.errors import SettingError

Space = dict[str, tuple[float, float, bool] | tuple[str, ...]]  # least, most, whether on a log scale; or choices
GRADIENT = "training.policy_gradient"
_RATE: Space = {"training.learning_rate": (5e-4, 6e-3, True)}
_SAMPLED: Space = _RATE | {
    "training.alpha": (0.03, 3.0, True),
    "training.returns": ("final", "sum"),
    GRADIENT: ("head", "all"),
}
SPACES: dict[str, Space] = {
    "kvec": _RATE | {"training.delay_cost": (1.0, 8.0, True), "training.floor": (0.05, 0.5, False),
                     "encoder.hide": (0.0, 0.2, False)},
    "kvec-paper": _SAMPLED,
    "earliest": _SAMPLED,
    "srn-earliest": _SAMPLED,
    "srn": _RATE | {"encoder.dropout": (0.0, 0.3, False), "encoder.hide": (0.0, 0.2, False),
                    "training.weight_decay": (1e-5, 1e-2, True)},
}  # fmt: skip
SWEPT = "training.beta=0.02"  # the middle of the sweep of methods that are swept


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and what validation says of them."""

    training: str
    number: int
    settings: dict[str, Any]
    dataset: str
    train_seconds: float
    epochs: int
    hm: float
    accuracy: float
    earliness: float


def tune_all(
    dataset: str, data: Mapping[str, str], sizes: Sizes, trials: int, storage: Path, jobs: int,
    tell: Callable[[str], object],
) -> list[Trial]:  # fmt: skip
    """Tune every training in processes of its own; what was tried before, and is in `storage`, is not tried again."""
    _optuna()
    found = []
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = [pool.submit(tune, name, dataset, dict(data), sizes, trials, storage) for name in SPACES]
        for done in as_completed(waiting):
            found += done.result()
            best = max(done.result(), key=lambda trial: trial.hm)
            tell(f"{best.training}: HM {best.hm:.4f} on validation by {' '.join(_written(best.settings))}")
    return sorted(found, key=lambda trial: (list(SPACES).index(trial.training), trial.number))


def tune(name: str, dataset: str, data: Mapping[str, str], sizes: Sizes, trials: int, storage: Path) -> list[Trial]:
    """Try so many settings of a training, first as they stand, then as Optuna suggests by HM on validation."""
    optuna = _optuna()
    torch.set_num_threads(1)
    study = optuna.create_study(
        study_name=f"{name} on {dataset}, {sizes.train_seconds:g} s", direction="maximize", load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=0),
        storage=optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(storage))),
    )  # fmt: skip
    if not study.get_trials(deepcopy=False):
        stands = _as_it_stands(name, sizes)
        study.enqueue_trial(stands)
        for choice in SPACES[name].get(GRADIENT, ())[1:]:  # what matters most to sampled policies
            study.enqueue_trial(stands | {GRADIENT: choice})

    def objective(trial: Any) -> float:
        chosen = {setting: _suggested(trial, setting, space) for setting, space in SPACES[name].items()}
        record = _validate(name, dataset, data, sizes, tuple(_written(chosen)))
        for measure in ("hm", "accuracy", "earliness", "epochs"):
            trial.set_user_attr(measure, record[measure])
        trial.set_user_attr("settings", chosen)
        return float(record["hm"])

    def over() -> list[Any]:
        return [t for t in study.get_trials(deepcopy=False) if t.state == optuna.trial.TrialState.COMPLETE]

    study.optimize(objective, n_trials=max(trials - len(over()), 0))
    return [
        Trial(name, number, t.user_attrs["settings"], dataset, sizes.train_seconds, int(t.user_attrs["epochs"]),
              *(float(t.user_attrs[measure]) for measure in ("hm", "accuracy", "earliness")))
        for number, t in enumerate(over())
    ]  # fmt: skip


def write_tuning(tried: Sequence[Trial], folder: Path) -> None:
    """Write tuning.csv, all that was tried, and tuned.toml, what was best."""
    with (folder / "tuning.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["training", "trial", "settings", "dataset", "train_seconds", "epochs", "validation_hm",
                         "validation_accuracy", "validation_earliness"])  # fmt: skip
        for t in tried:
            measures = (f"{value:.4f}" for value in (t.hm, t.accuracy, t.earliness))
            writer.writerow([t.training, t.number, " ".join(_written(t.settings)), t.dataset, f"{t.train_seconds:g}",
                             t.epochs, *measures])  # fmt: skip
    lines = ["# The best by HM on validation of the settings that kvec reproduce tune has tried; see tuning.csv."]
    for name in dict.fromkeys(t.training for t in tried):
        best = max((t for t in tried if t.training == name), key=lambda t: t.hm)
        lines += ["", f"[{name}]", *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in best.settings.items())]
    (folder / "tuned.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _written(settings: Mapping[str, Any]) -> list[str]:
    return [f"{setting}={value}" for setting, value in settings.items()]


def _validate(
    name: str, dataset: str, data: Mapping[str, str], sizes: Sizes, settings: tuple[str, ...]
) -> dict[str, float]:
    training = TRAININGS[name]
    swept = (SWEPT,) if training.is_sampled else ()
    cell = Cell(dataset, name, "", None, 0, "tuning", (*swept, *settings))
    parts = read_parts(dataset, data, sizes, cell.seed)
    frames = parts.arranged(cell.seed, training.is_alone)
    config = cell_config(cell, sizes, training, parts)
    model = fit_model(
        frames[0], frames[1], parts.schema, config, torch.device("cpu"), {}, None, Progress(), training.network,
        sizes.train_seconds,
    )  # fmt: skip
    return kept_of(model.history, model.config.training) | {"epochs": float(len(model.history))}


def _as_it_stands(name: str, sizes: Sizes) -> dict[str, Any]:
    config = Config.preset(sizes.preset).override(TRAININGS[name].settings)
    return {setting: config.get(setting) for setting in SPACES[name]}


def _suggested(trial: Any, setting: str, space: tuple[Any, ...]) -> Any:
    if isinstance(space[0], str):
        return trial.suggest_categorical(setting, space)
    least, most, is_log = space
    return float(f"{trial.suggest_float(setting, least, most, log=is_log):.3g}")


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise SettingError("tuning needs Optuna; install it with: pip install 'kvec[reproduce]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
