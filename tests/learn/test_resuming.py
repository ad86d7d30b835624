"""Runs kept in a file: found again by their facts, and by nothing that merely looks like them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.learn.made import TINY, TRAINING, VALIDATION, WORDS, fresh, trained, with_training

from kvec.learn.resuming import begin_run, fingerprint, keep_run, resume_run
from kvec.words.errors import ModelError, SettingError

FACTS = {"settings": {"training": {"seed": 0, "epochs": 1}}, "schema": {"key": ["key"]}, "data": "abc"}


def test_a_kept_run_comes_back_as_it_was(tmp_path: Path) -> None:
    run = trained(with_training(epochs=1))
    keep_run(run, tmp_path / "run", FACTS)
    again = fresh(TINY, seed=9)
    resume_run(again, tmp_path / "run", FACTS)
    assert again.history == run.history and again.is_finished
    for name, tensor in run.network.state_dict().items():
        assert torch.equal(again.network.state_dict()[name], tensor), name


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {"training": {"seed": 4, "epochs": 1}}}, "settings: training.seed was 0 and is now 4; repeat"),
        ({"settings": {"training": {"newer": True}}}, "settings: training.newer was not set and is now True; repeat"),
        ({"schema": {"key": ["user"]}}, r"schema: key was \['key'\] and is now \['user'\]; repeat"),
        ({"data": "abd"}, "other data; repeat"),
    ],
)
def test_a_run_with_other_facts_is_refused(changes: dict[str, object], words: str, tmp_path: Path) -> None:
    keep_run(fresh(), tmp_path / "run", FACTS)
    with pytest.raises(ModelError, match=words):
        resume_run(fresh(), tmp_path / "run", FACTS | changes)


def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="resume needs progress"):
        resume_run(fresh(), None, FACTS)
    keep_run(fresh(), tmp_path / "run", FACTS)
    wider = fresh(replace(TINY, encoder=replace(TINY.encoder, width=32)))
    with pytest.raises(ModelError, match="does not fit this network"):
        resume_run(wider, tmp_path / "run", FACTS)


def test_a_run_that_is_begun_anew_leaves_nothing_of_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_run(trained(with_training(epochs=1)), tmp_path / "run", FACTS)
    begin_run(fresh(), tmp_path / "run", FACTS | {"data": "other"}, resume=False)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # a worker died in the first epoch
    again = fresh()
    begin_run(again, tmp_path / "run", FACTS | {"data": "other"}, resume=False)
    assert again.history == [] and not (tmp_path / "run").exists()
    keep_run(trained(with_training(epochs=1)), tmp_path / "run", FACTS)
    begin_run(again, tmp_path / "run", FACTS, resume=False)  # in a later one
    assert len(again.history) == 1 and (tmp_path / "run").exists()


def test_a_fingerprint_tells_any_other_data() -> None:
    same = fingerprint(WORDS, TRAINING, VALIDATION)
    assert fingerprint(WORDS, TRAINING, VALIDATION) == same
    others = [fingerprint(WORDS, VALIDATION, TRAINING), fingerprint(WORDS, TRAINING)]
    for name in ("codes", "labels", "session"):
        changed = np.array(getattr(TRAINING, name))
        changed.flat[-1] += 1
        others.append(fingerprint(WORDS, replace(TRAINING, **{name: changed}), VALIDATION))  # type: ignore[arg-type]
    assert len({same, *others}) == len(others) + 1
