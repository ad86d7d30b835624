"""A search, by Optuna and on validation alone, for the settings that the paper leaves open; as long for every rival."""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from kvec.learn.fitting import Progress, fit_model
from kvec.learn.run import kept_of
from kvec.reproduce.datasets import read_parts
from kvec.reproduce.paces import paced
from kvec.reproduce.plan import Cell, Outcome, Sizes, start
from kvec.reproduce.pool import Finished, run_cells
from kvec.reproduce.resolved import cell_config
from kvec.reproduce.trainings import TRAININGS
from kvec.words.errors import DataError, KvecError, SettingError
from kvec.words.extras import need

# least, most, whether on a log scale; or choices
Space = dict[str, tuple[float, float, bool] | tuple[str, ...] | tuple[int, ...]]
_BATCH: Space = {"training.batch": (16, 32, 64)}  # tangles; of sequences alone, as many as these hold
_RATE: Space = {"training.learning_rate": (5e-4, 6e-3, True)} | _BATCH
_LENGTHS: Space = {"training.lengths": ("even", "early")}
_SIZE: Space = {"encoder.blocks": (1, 2), "encoder.feed_forward": (128, 256)}  # a smaller network learns more epochs
_SAMPLED: Space = _RATE | {
    "training.alpha": (0.03, 3.0, True),
    "training.policy_gradient": ("head", "all"),
}
SPACES: dict[str, Space] = {
    "kvec": _RATE | _SIZE | _LENGTHS | {"training.delay_cost": (1.0, 8.0, True), "training.floor": (0.05, 0.5, False),
                     "encoder.hide": (0.0, 0.2, False)},
    "kvec-paper": _SAMPLED | _SIZE,
    "earliest": _SAMPLED | {"encoder.fusion": (64, 128, 256)},
    "srn-earliest": _SAMPLED | _SIZE,
    "srn": _RATE | _SIZE | _LENGTHS | {"encoder.dropout": (0.0, 0.3, False), "encoder.hide": (0.0, 0.2, False),
                    "training.weight_decay": (1e-5, 1e-2, True)},
}  # fmt: skip
RATIO = 0.1  # of β to α while methods that are swept are tuned: in the middle of their sweep
WORK = "kvec.reproduce.tuning:tune_cell"
# what processes are told beside the paths of data sets
_JOURNAL, _STORAGE, _TRIALS = "tuning.journal", "tuning.storage", "tuning.trials"
_BEGAN = "began"  # what a trial notes of itself
LATE, SLOWEST = 600.0, 50.0  # seconds, and times its training, after which a trial of another process counts as lost
PAUSE = 0.2  # seconds between looks at what others do
TRIES = 5  # of opening a data base
_DIVERGED = {"hm": 0.0, "accuracy": 0.0, "earliness": 1.0, "epochs": 0.0}


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
    dataset: str, data: Mapping[str, str], sizes: Sizes, trials: int, storage: Path | str, jobs: int,
    tell: Callable[[str], object], work: str = WORK,
) -> list[Trial]:  # fmt: skip
    """Tune every training in processes of their own; what was tried before, and is in `storage`, is not tried again.

    Each trial trains for the same time, at the pace of its settings. A storage that is given as text is shared: other
    machines may try settings of the same studies at the same time.
    """
    _optuna()
    told = {**data, _TRIALS: str(trials)}
    told |= {_STORAGE: storage} if isinstance(storage, str) else {_JOURNAL: str(storage.absolute())}
    found: dict[str, list[Trial]] = {}
    failed: list[Finished] = []
    events = run_cells([(Cell(dataset, name, "", None, 0, "tuning"), sizes) for name in SPACES], told, jobs, work=work)
    with closing(events):
        for event in events:
            if not isinstance(event, Finished):
                continue
            if event.outcome is None:
                failed.append(event)
                continue
            tried = found[event.cell.training] = [Trial(**row) for row in event.outcome.points]
            best = _best(tried)
            tell(f"{best.training}: HM {best.hm:.4f} on validation by {' '.join(_written(best.settings))}")
    if failed:
        reasons = "; ".join(f"{each.cell.training}: {each.error}" for each in failed)
        raise DataError(f"tuning failed, and can be gone on with by the same command: {reasons}")
    return [trial for name in SPACES for trial in found[name]]


def tune_cell(cell: Cell, sizes: Sizes, data: Mapping[str, str]) -> Outcome:
    """Tune the training of a cell in this process; its points are what was tried."""
    storage = data[_STORAGE] if _STORAGE in data else Path(data[_JOURNAL])
    tried = tune(cell.training, cell.dataset, data, sizes, int(data[_TRIALS]), storage)
    return Outcome({}, [asdict(trial) for trial in tried])


def tune(
    name: str, dataset: str, data: Mapping[str, str], sizes: Sizes, trials: int, storage: Path | str
) -> list[Trial]:
    """Try so many settings of a training, first as they stand, then as Optuna suggests by HM on validation.

    Choices are tried one at a time before, each with the best of those before it; the search keeps to what was best,
    and looks for numbers. In a shared storage others may try too: trials count from when they are begun, and all wait
    for the last of them.
    """
    optuna = _optuna()
    torch.set_num_threads(1)
    study = optuna.create_study(
        study_name=f"{name} on {dataset}, {sizes.train_seconds:g} s, {_searched(name, sizes)}", direction="maximize",
        load_if_exists=True, storage=_opened(optuna, storage),
    )  # fmt: skip
    states = optuna.trial.TrialState
    is_shared = isinstance(storage, str)
    late = LATE + SLOWEST * sizes.train_seconds

    def those(*wanted: Any) -> list[Any]:
        return [trial for trial in study.get_trials(deepcopy=False) if trial.state in wanted]

    def running() -> list[Any]:
        """Trials of others that are under way; one that takes far too long has lost its process."""
        if not is_shared:
            return []
        return [trial for trial in those(states.RUNNING) if time.time() - _began(trial) < late]

    def best() -> dict[str, Any]:
        done = those(states.COMPLETE)
        return dict(max(done, key=lambda t: t.value).user_attrs["settings"]) if done else {}

    def objective(trial: Any) -> float:
        trial.set_user_attr(_BEGAN, time.time())
        done, fixed = those(states.COMPLETE), _fixed(study.get_trials(deepcopy=False)[trial.number])
        before = [each for each in [*done, *running()] if each.number < trial.number]
        if len(before) >= trials or (fixed and fixed in [_fixed(each) for each in [*done, *before]]):
            raise optuna.TrialPruned  # another process was faster
        # one process draws after a stop as if there was none; of many, no two draw alike
        study.sampler = optuna.samplers.TPESampler(seed=trial.number if is_shared else len(before))
        kept = best()
        chosen = {
            setting: kept[setting]
            if kept and _is_choice(space) and setting not in fixed
            else _suggested(trial, setting, space)
            for setting, space in SPACES[name].items()
        }
        record = _validate(name, dataset, data, sizes, tuple(_written(chosen)))
        for measure in ("hm", "accuracy", "earliness", "epochs"):
            trial.set_user_attr(measure, record[measure])
        trial.set_user_attr("settings", chosen)
        return float(record["hm"])

    first = _first(name, sizes)
    while (n_done := len(those(states.COMPLETE))) < trials:
        n_begun = n_done + len(running())
        if n_begun > n_done and (n_begun >= trials or not n_done):  # others are at the last ones, or at the first
            time.sleep(PAUSE)
            continue
        begun = [_fixed(trial) for trial in [*those(states.COMPLETE, states.WAITING), *running()]]
        if new := next((one for one in first if not any(one.items() <= other.items() for other in begun)), None):
            study.enqueue_trial(best() | new)
        study.optimize(objective, n_trials=1)
    return [
        Trial(name, number, t.user_attrs["settings"], dataset, sizes.train_seconds, int(t.user_attrs["epochs"]),
              *(float(t.user_attrs[measure]) for measure in ("hm", "accuracy", "earliness")))
        for number, t in enumerate(those(states.COMPLETE)[:trials])
    ]  # fmt: skip


def _opened(optuna: Any, storage: Path | str) -> Any:
    """A data base by its address, or else a journal in a file."""
    if isinstance(storage, str) and "://" in storage:
        for tries_left in reversed(range(TRIES)):
            try:
                return optuna.storages.get_storage(storage)
            except Exception as error:  # whatever the driver says; also if another machine makes the tables just now
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                if not tries_left:
                    raise SettingError(f"--storage {storage.split('@')[-1]} cannot be opened: {reason}") from None
                time.sleep(PAUSE)
    # the journal's lock is a link to it, which Optuna can only follow by an absolute path
    file = str(Path(storage).absolute())
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(file))


def _began(trial: Any) -> float:
    """When a trial was begun, in seconds since 1970: local times jump, and may come as another machine wrote them."""
    return float(trial.user_attrs.get(_BEGAN) or trial.datetime_start.timestamp())


def _fixed(trial: Any) -> dict[str, Any]:
    """The settings that a trial was begun with; none where Optuna suggests them."""
    found: dict[str, Any] = trial.system_attrs.get("fixed_params", {})
    return found


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
        best = _best([t for t in tried if t.training == name])
        lines += ["", f"[{name}]", *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in best.settings.items())]
    (folder / "tuned.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _best(tried: Sequence[Trial]) -> Trial:
    return max(tried, key=lambda trial: (trial.hm, trial.accuracy))


def _written(settings: Mapping[str, Any]) -> list[str]:
    return [f"{setting}={value}" for setting, value in settings.items()]


def _validate(
    name: str, dataset: str, data: Mapping[str, str], sizes: Sizes, settings: tuple[str, ...]
) -> dict[str, float]:
    """What validation says of settings, and how many epochs there were; the test part is not looked at."""
    training = TRAININGS[name]
    cell = Cell(dataset, name, "", None, 0, "tuning", settings)
    if training.is_sampled:
        alpha = cell_config(cell, sizes, training).training.alpha
        cell = replace(cell, overrides=(*settings, f"training.beta={RATIO * alpha:.12g}"))
    parts = read_parts(dataset, data, sizes, cell.seed)
    learned, held_out, _ = parts.arranged(cell.seed, training.is_alone)
    config = cell_config(cell, sizes, training, parts.keys_per_tangle)
    pace = paced(cell, sizes, data)
    try:
        model = fit_model(
            learned, held_out, parts.schema, config, torch.device("cpu"), {}, None, Progress(), training.network, pace
        )
    except KvecError:
        raise
    except ValueError:  # scores that are no numbers
        return _DIVERGED
    return kept_of(model.history, model.config.training) | {"epochs": float(len(model.history))}


def _first(name: str, sizes: Sizes) -> list[dict[str, Any]]:
    """What is tried first: all settings as they stand, then every other choice of those that are choices."""
    config = start(sizes.preset).override(TRAININGS[name].settings)
    stands = {setting: config.get(setting) for setting in SPACES[name]}
    choices = [(setting, choice) for setting, space in SPACES[name].items() for choice in space if _is_choice(space)]
    return [stands, *({setting: choice} for setting, choice in choices if stands[setting] != choice)]


def _is_choice(space: tuple[Any, ...]) -> bool:
    return not isinstance(space[-1], bool)


def _searched(name: str, sizes: Sizes) -> str:
    """What is searched for a training, in a few letters: another space, or other sizes, make another study."""
    return hashlib.sha256(repr((SPACES[name], RATIO, sizes)).encode()).hexdigest()[:6]


def _suggested(trial: Any, setting: str, space: tuple[Any, ...]) -> Any:
    if _is_choice(space):
        return trial.suggest_categorical(setting, space)
    least, most, is_log = space
    return float(f"{trial.suggest_float(setting, least, most, log=is_log):.3g}")


def _optuna() -> Any:
    optuna = need("optuna", "kvec reproduce tune needs", "reproduce")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
