"""A search, by Optuna and on validation alone, for the settings that the paper leaves open; as long for every rival."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
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
COLUMNS = ("training", "trial", "settings", "validation_hm", "validation_accuracy", "validation_earliness", "epochs",
           "dataset", "train_seconds")  # fmt: skip


def tune(
    name: str, dataset: str, data: Mapping[str, str], sizes: Sizes, trials: int, storage: Path,
    on_trial: Callable[[dict[str, Any]], None],
) -> dict[str, str]:  # fmt: skip
    """Try `trials` settings of a training, first as they stand; the best, by HM on validation. Resumable."""
    optuna = _optuna()
    study = optuna.create_study(
        study_name=f"{name} on {dataset}", direction="maximize", load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=0),
        storage=optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(storage))),
    )  # fmt: skip
    done = [t for t in study.get_trials(deepcopy=False) if t.state.is_finished() and t.value is not None]
    if not study.get_trials(deepcopy=False):
        stands = _as_it_stands(name, sizes)
        study.enqueue_trial(stands)
        for choice in SPACES[name].get(GRADIENT, ())[1:]:  # what matters most to sampled policies
            study.enqueue_trial(stands | {GRADIENT: choice})

    def objective(trial: Any) -> float:
        chosen = {setting: _suggested(trial, setting, space) for setting, space in SPACES[name].items()}
        settings = tuple(f"{setting}={value}" for setting, value in chosen.items())
        record = _validate(name, dataset, data, sizes, settings)
        on_trial(
            {"training": name, "trial": trial.number, "settings": " ".join(settings), "dataset": dataset,
             "train_seconds": sizes.train_seconds, "epochs": int(record["epochs"]),
             **{f"validation_{m}": f"{record[m]:.4f}" for m in ("hm", "accuracy", "earliness")}}
        )  # fmt: skip
        return float(record["hm"])

    torch.set_num_threads(1)
    study.optimize(objective, n_trials=max(trials - len(done), 0))
    return {setting: _text(value) for setting, value in study.best_params.items()}


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
    return float(np.format_float_positional(trial.suggest_float(setting, least, most, log=is_log), 3, fractional=False))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else np.format_float_positional(value, 3, fractional=False, trim="-")


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise SettingError("tuning needs Optuna; install it with: pip install 'kvec[reproduce]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
