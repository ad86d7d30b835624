"""The search for settings: gone on with after any stop, as long for every rival, and blind to the test part."""

from __future__ import annotations

import csv
import math
import os
import signal
import sys
import time
from copy import copy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from tests.processes import side_by_side
from tests.reproduce.fake_tuning import WORK

from kvec.doors import reproducing
from kvec.doors.cli import run
from kvec.reproduce import paces, tuning
from kvec.reproduce.datasets import Parts, read_parts
from kvec.reproduce.paces import PLACE
from kvec.reproduce.plan import Sizes, start
from kvec.reproduce.trainings import TRAININGS, read_tuned, settings_of
from kvec.reproduce.tuning import SPACES, Trial, tune, tune_all, write_tuning
from kvec.words.config import Config
from kvec.words.errors import DataError, MissingExtra, SettingError

pytest.importorskip("optuna")

LENGTHS = ("kvec", "srn")  # trained at every length
SIZES = Sizes(train=12, validation=8, test=8, epochs=1)
SECOND = Sizes(train=12, validation=8, test=8, train_seconds=1.0)


class Tried(list[dict[str, str]]):
    """Stands in for training: keeps the settings of each trial, and rates them by the learning rate."""

    def __init__(self) -> None:
        self.sizes: list[Sizes] = []

    def __call__(self, name: str, dataset: str, data: Any, sizes: Sizes, settings: tuple[str, ...]) -> dict[str, float]:
        self.append(dict(setting.split("=") for setting in settings))
        self.sizes.append(sizes)
        return {"hm": float(self[-1]["training.learning_rate"]), "accuracy": 0.5, "earliness": 0.5, "epochs": 2.0}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Tried:
    made = Tried()
    monkeypatch.setattr(tuning, "_validate", made)
    return made


def standing(name: str) -> dict[str, str]:
    config = start().override(TRAININGS[name].settings)
    return {setting: str(config.get(setting)) for setting in SPACES[name]}


# -- one training ---------------------------------------------------------------------------------------------------


def test_what_was_tried_is_not_tried_again(tmp_path: Path, tried: Tried) -> None:
    first = tune("srn", "planted", {}, SIZES, 3, tmp_path / "journal")
    assert len(tried) == 3 and [trial.number for trial in first] == [0, 1, 2]
    assert tune("srn", "planted", {}, SIZES, 3, tmp_path / "journal") == first and len(tried) == 3
    more = tune("srn", "planted", {}, SIZES, 5, tmp_path / "journal")
    assert len(tried) == 5 and more[:3] == first and len(more) == 5
    assert tune("srn", "planted", {}, SIZES, 2, tmp_path / "journal") == first[:2], "no more than the others get"


def test_a_search_that_was_stopped_draws_as_one_that_was_not(tmp_path: Path, tried: Tried) -> None:
    for trials in (2, 3, 5):
        tune("kvec", "planted", {}, SIZES, trials, tmp_path / "stopped")
    tune("kvec", "planted", {}, SIZES, 5, tmp_path / "whole")
    assert tried[:5] == tried[5:] and len({str(each) for each in tried[:5]}) == 5


def test_other_sizes_make_another_study(tmp_path: Path, tried: Tried) -> None:
    tune("srn", "planted", {}, SIZES, 2, tmp_path / "journal")
    tune("srn", "planted", {}, replace(SIZES, train=SIZES.train // 2), 2, tmp_path / "journal")
    assert len(tried) == 4, "what was tried with more data says nothing of less"


def test_trials_of_one_cost_share_a_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = iter(range(1, 100))
    monkeypatch.setattr(paces, "seconds_per_epoch", lambda *given: 1 / next(measured))
    found = tune("earliest", "planted", {PLACE: str(tmp_path)}, SECOND, 7, tmp_path / "journal")
    assert [trial.settings["training.batch"] for trial in found][:3] == [64, 16, 32]
    assert len((tmp_path / "paces.csv").read_text().splitlines()) == 1 + 6, "the last differs in numbers alone"
    assert {trial.epochs for trial in found} == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("name", [name for name in SPACES if TRAININGS[name].is_sampled])
def test_the_weight_of_lateness_keeps_its_ratio_to_the_policys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    seen: list[Config] = []

    def fitted(*given: Any) -> Any:
        seen.append(given[3])
        raise ValueError("scores that are no numbers")

    monkeypatch.setattr(tuning, "fit_model", fitted)
    tune(name, "planted", {}, SIZES, 10, tmp_path / "journal")
    assert len({config.training.alpha for config in seen}) > 1
    for config in seen:
        assert config.training.beta == pytest.approx(tuning.RATIO * config.training.alpha)
    per_tangle = 4 if TRAININGS[name].is_alone else 1  # planted tangles hold four sequences each
    assert [config.training.batch for config in seen][:3] == [64 * per_tangle, 16 * per_tangle, 32 * per_tangle]


def test_another_space_is_another_search(tmp_path: Path, tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    tune("srn", "planted", {}, SIZES, 2, tmp_path / "journal")
    monkeypatch.setitem(SPACES, "srn", SPACES["srn"] | {"training.clip": (0.5, 2.0, False)})
    tune("srn", "planted", {}, SIZES, 2, tmp_path / "journal")
    assert ["training.clip" in each for each in tried] == [False, False, True, True]


@pytest.mark.parametrize("name", SPACES)
def test_the_first_trial_is_the_settings_as_they_stand(tmp_path: Path, tried: Tried, name: str) -> None:
    tune(name, "planted", {}, SIZES, 10, tmp_path / "journal")
    assert tried[0] == standing(name)
    choices = {s: tuple(map(str, space)) for s, space in SPACES[name].items() if not isinstance(space[-1], bool)}
    assert choices["training.batch"] == ("16", "32", "64") and ("training.lengths" in choices) == (name in LENGTHS)
    others = [(s, c) for s, space in choices.items() for c in space if c != tried[0][s]]
    assert [tried[0] | {setting: choice} for setting, choice in others] == tried[1 : 1 + len(others)]
    for each in tried[1 + len(others) :]:  # all were as good, so the search keeps to the choices of the first
        assert all(each[setting] == tried[0][setting] for setting in choices)
    for each in tried:
        for setting, space in SPACES[name].items():
            value = each[setting]
            assert value in choices[setting] if setting in choices else space[0] <= float(value) <= space[1]


def test_choices_are_added_to_the_best_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[dict[str, str]] = []

    def rated(name: str, dataset: str, data: Any, sizes: Sizes, settings: tuple[str, ...]) -> dict[str, float]:
        tried.append(dict(setting.split("=") for setting in settings))
        good = (tried[-1]["training.batch"] == "16") + (tried[-1]["encoder.feed_forward"] == "128")
        return {"hm": good / 10, "accuracy": 0.5, "earliness": 0.5, "epochs": 2.0}

    monkeypatch.setattr(tuning, "_validate", rated)
    tune("kvec", "planted", {}, SIZES, 8, tmp_path / "journal")
    assert [each["training.batch"] for each in tried[:4]] == ["64", "16", "32", "16"]
    assert [each["encoder.feed_forward"] for each in tried[3:]] == ["256", "128", "128", "128", "128"]
    assert [each["encoder.blocks"] for each in tried[2:6]] == ["2", "1", "2", "2"]
    assert {each["training.batch"] for each in tried[3:]} == {"16"}


def test_a_trial_that_was_stopped_is_made_up_for(tmp_path: Path, tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*given: Any) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "_validate", stopped)
    with pytest.raises(KeyboardInterrupt):
        tune("earliest", "planted", {}, SIZES, 6, tmp_path / "journal")
    monkeypatch.setattr(tuning, "_validate", tried)
    found = tune("earliest", "planted", {}, SIZES, 6, tmp_path / "journal")
    assert len(found) == len(tried) == 6
    assert sum(each == standing("earliest") for each in tried) == 1
    assert not list(tmp_path.glob("*.lock*"))


def test_the_journal_of_a_killed_process_can_be_gone_on_with_from_any_folder(
    tmp_path: Path, tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    tune("srn", "planted", {}, SIZES, 1, Path("out/journal"))
    from optuna.storages.journal import JournalFileSymlinkLock

    taken: list[str] = []
    monkeypatch.setattr(JournalFileSymlinkLock, "acquire", lambda self: taken.append(self._lock_target_file) or True)
    monkeypatch.setattr(JournalFileSymlinkLock, "release", lambda self: None)
    tune("srn", "planted", {}, SIZES, 2, Path("out/journal"))
    assert set(taken) == {str(tmp_path / "out" / "journal")}, "a lock that was left behind can be looked at"


def test_settings_by_which_training_diverges_are_the_worst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverges(*given: Any) -> Any:
        raise ValueError("halting scores must lie between 0 and 1")

    monkeypatch.setattr(tuning, "fit_model", diverges)
    (trial,) = tune("srn", "planted", {}, SIZES, 1, tmp_path / "journal")
    assert (trial.hm, trial.epochs) == (0.0, 0)


def test_data_that_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no data for sepsis"):
        tune("srn", "sepsis", {}, SIZES, 3, tmp_path / "journal")


# -- on the real road -----------------------------------------------------------------------------------------------


def test_a_second_of_training_is_rated_by_validation(tmp_path: Path) -> None:
    (trial,) = tune("srn", "planted", {}, SECOND, 1, tmp_path / "journal")
    assert trial.epochs >= 1 and trial.train_seconds == 1.0
    saved = 1 - trial.earliness
    assert trial.hm == pytest.approx(2 * saved * trial.accuracy / (saved + trial.accuracy))


def test_no_test_sequence_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    untouched = tune("srn", "planted", {}, SIZES, 1, tmp_path / "untouched")

    def poisoned(*given: Any) -> Parts:
        parts = read_parts(*given)
        values = [pl.lit(7).alias("value.size"), pl.lit("other").alias("label.label")]
        return replace(parts, test=parts.test.with_columns(values).head(1))

    monkeypatch.setattr(tuning, "read_parts", poisoned)
    assert tune("srn", "planted", {}, SIZES, 1, tmp_path / "poisoned") == untouched


# -- all of them ----------------------------------------------------------------------------------------------------


def test_every_training_gets_as_many_trials(tmp_path: Path) -> None:
    said: list[str] = []
    found = tune_all("planted", {}, SIZES, 3, tmp_path / "journal", 2, said.append, WORK)
    assert [(trial.training, trial.number) for trial in found] == [(name, n) for name in SPACES for n in range(3)]
    assert sorted(line.partition(":")[0] for line in said) == sorted(SPACES)
    assert said[0].endswith("HM 0.2000 on validation by training.learning_rate=0.002")


def test_a_training_that_fails_harms_no_other(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(DataError) as refusal:
        tune_all("planted", {"srn": "refuses", "earliest": "dies"}, SIZES, 1, tmp_path / "j", 2, said.append, WORK)
    assert "srn: there is no such file" in str(refusal.value) and "earliest: its process was" in str(refusal.value)
    assert "\n" not in str(refusal.value) and len(said) == len(SPACES) - 2


def test_the_command_is_stopped_by_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"planted": "", "folder": str(tmp_path), **dict.fromkeys(list(SPACES)[1:], "lasts")}

    def stop(told: str) -> None:
        end = time.monotonic() + 30
        while not list(tmp_path.glob("*.pid")) and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    def stopping(*given: Any) -> list[Trial]:
        return tune_all(*given[:-1], stop, WORK)

    monkeypatch.setattr(reproducing, "tune_all", stopping)
    monkeypatch.setattr(reproducing, "find_datasets", lambda given: data)
    out = tmp_path / "out"
    assert run(["reproduce", "tune", "--jobs", "2", "--out", str(out)]) == 130
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == f"kvec: stopped; what was tried is kept in {out}; repeat the command to go on"
    (file,) = tmp_path.glob("*.pid")
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.stem), 0)


def test_the_command_writes_what_was_tried_and_what_was_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproducing, "tune_all", lambda *given: tune_all(*given, WORK))
    assert run(["reproduce", "tune", "--trials", "2", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().err
    assert "kvec: tuning on the validation part of planted, 2 settings of each of kvec, kvec-paper" in told
    with (tmp_path / "tuning.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * len(SPACES) and {row["train_seconds"] for row in rows} == {"0.25"}
    assert rows[1]["settings"] == "training.learning_rate=0.002" and rows[1]["validation_hm"] == "0.1000"
    assert read_tuned(tmp_path / "tuned.toml") == {name: {"training.learning_rate": 0.002} for name in SPACES}


@pytest.mark.parametrize(
    "words", [["--list"], ["--report-only"], ["--only", "kvec"], ["--seeds", "0"], ["--minutes", "1"]]
)
def test_what_tuning_has_not_is_refused(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "tune", "--out", str(tmp_path), *words]) != 0
    told = f"kvec: {words[0]} is for experiments; kvec reproduce tune takes --trials\n"
    assert capsys.readouterr().err == told and not list(tmp_path.iterdir())


# -- on several machines -----------------------------------------------------------------------------------------------


def _machine(
    number: int, folder: Path, storage: str, name: str, trials: int
) -> tuple[list[Trial], list[dict[str, str]]]:
    """Tune as another machine would, with something that takes a moment in place of training."""
    tried = Tried()

    def slow(*given: Any) -> dict[str, float]:
        time.sleep(0.2)
        return tried(*given)

    tuning._validate = slow
    (folder / f"{number}.there").touch()
    while len(list(folder.glob("*.there"))) < 2:  # none begins before the other can
        time.sleep(0.01)
    return tune(name, "planted", {}, SECOND, trials, storage), list(tried)


def test_machines_share_a_study(tmp_path: Path) -> None:
    storage = str(tmp_path / "shared")
    (one, tried_by_one), (two, tried_by_two) = side_by_side(
        _machine, [(number, tmp_path, storage, "earliest", 7) for number in range(2)]
    )
    assert one == two and len(one) == 7, "both know all of them"
    tried = [str(each) for each in tried_by_one + tried_by_two]
    assert len(tried) == len(set(tried)) == 7, "none was tried twice"
    assert tried_by_one and tried_by_two


def test_a_trial_whose_process_is_lost_is_made_up_for(
    tmp_path: Path, tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: Any) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "_validate", stopped)
    with pytest.raises(KeyboardInterrupt):
        tune("srn", "planted", {}, SIZES, 2, str(tmp_path / "shared"))
    monkeypatch.setattr(tuning, "_validate", tried)
    monkeypatch.setattr(tuning, "LATE", 0.0)
    assert len(tune("srn", "planted", {}, SIZES, 2, str(tmp_path / "shared"))) == len(tried) == 2


def test_a_trial_of_a_machine_in_another_zone_is_under_way(
    tmp_path: Path, tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optuna.study import Study

    class Waits(Exception):
        pass

    def waits(seconds: float) -> None:
        raise Waits

    get_trials = Study.get_trials

    def eastern(*given: Any, **more: Any) -> list[Any]:
        """What a storage that keeps local times tells a machine twelve hours to the east."""
        found = [copy(trial) for trial in get_trials(*given, **more)]
        for trial in found:
            trial.datetime_start = trial.datetime_start and trial.datetime_start - timedelta(hours=12)
        return found

    def looked_at(*given: Any) -> dict[str, float]:
        with monkeypatch.context() as patch:
            patch.setattr(Study, "get_trials", eastern)
            patch.setattr(tuning, "time", SimpleNamespace(time=time.time, sleep=waits))
            patch.setattr(tuning, "_validate", tried)
            with pytest.raises(Waits):
                tune("srn", "planted", {}, SECOND, 1, str(tmp_path / "shared"))
        return tried(*given)

    monkeypatch.setattr(tuning, "_validate", looked_at)
    assert len(tune("srn", "planted", {}, SECOND, 1, str(tmp_path / "shared"))) == len(tried) == 1


def test_a_data_base_that_is_not_there_is_told_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="nowhere:1/x cannot be opened") as refusal:
        tune("srn", "planted", {}, SIZES, 1, "nosuch://me:secret@nowhere:1/x")
    assert "secret" not in str(refusal.value)


def test_a_study_may_lie_in_a_data_base(tmp_path: Path, tried: Tried) -> None:
    storage = f"sqlite:///{tmp_path / 'shared.db'}"
    first = tune("srn", "planted", {}, SIZES, 2, storage)
    assert tune("srn", "planted", {}, SIZES, 3, storage)[:2] == first and len(tried) == 3


def test_machines_cannot_share_sqlite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["reproduce", "tune", "--out", str(tmp_path / "out"), "--storage", f"sqlite:///{tmp_path / 'x.db'}"]) == 2
    )
    assert "give a file, which becomes a journal" in capsys.readouterr().err


def test_storage_is_for_tuning(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["reproduce", "curves", "--out", str(tmp_path), "--storage", "x"]) == 2
    assert "--storage is for kvec reproduce tune" in capsys.readouterr().err


def test_optuna_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"tune needs optuna; pip install 'kvec\[reproduce\]'"):
        tune_all("planted", {}, SIZES, 1, tmp_path / "journal", 1, print, WORK)


# -- what is written ------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_as_the_settings_of_a_training(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"training.learning_rate": 0.000512, "training.weight_decay": 1e-05}
    sampled = {"training.alpha": 3.0, "training.returns": "sum", "training.policy_gradient": "all"}
    worse = Trial("srn", 0, {"training.learning_rate": 0.1}, "planted", 1.0, 2, 0.3, 0.9, 0.5)
    best = Trial("srn", 1, settings, "planted", 1.0, 2, 0.4, 0.5, 0.5)
    other = Trial("earliest", 0, sampled, "planted", 1.0, 2, math.pi / 10, 0.5, 0.5)
    write_tuning([other, worse, best], tmp_path)
    tuned = read_tuned(tmp_path / "tuned.toml")
    assert tuned == {"earliest": sampled, "srn": settings}
    for name in ("srn", "srn-all"):
        changed = set(settings_of(name, tuned)) - set(settings_of(name, {}))
        assert changed == {"training.learning_rate=0.000512", "training.weight_decay=1e-05"}
        assert start().override(settings_of(name, tuned)).training.weight_decay == 1e-5
    assert {"training.returns=sum", "training.policy_gradient=all"} <= set(settings_of("earliest", tuned))
    assert settings_of("kvec", tuned) == settings_of("kvec", {})
