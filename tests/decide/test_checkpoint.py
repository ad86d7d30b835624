"""The model folder: what is saved comes back, and what does not fit is refused in one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from tests.properties.strategies import SMALL, VOCABULARY, small_network

from kvec.decide.checkpoint import (
    Trained,
    load_model,
    load_progress,
    require_model_place,
    save_model,
    save_progress,
)
from kvec.decide.held import held_out
from kvec.decide.scores import Scores
from kvec.words.config import Config
from kvec.words.errors import ModelError
from kvec.words.schema import Field, Schema

SCHEMA = Schema(
    values=tuple(Field(f.name, kind=f.kind) for f in VOCABULARY.fields), labels=VOCABULARY.label_names, expiry=3.0,
    time="time",
)  # fmt: skip
HISTORY = [{"epoch": 1.0, "hm": 0.1 + 0.2}, {"epoch": 2.0, "hm": 1 / 3}]


def model(threshold: float = 0.3, *settings: str) -> Trained:
    classes = [np.full((3, len(names)), 1 / len(names), np.float32) for names in VOCABULARY.labels]
    labels = np.zeros((2, len(classes)), np.int32)
    scores = Scores(np.array([0, 2, 3]), np.array([0.1, 0.2, 0.3], np.float32), tuple(classes))
    part = SimpleNamespace(labels=labels, tangle_of=np.zeros(2, np.int32), given=np.zeros(1, np.int64), time=None)
    kept = held_out(part, scores)
    config = Config(encoder=SMALL).override(settings)
    network = small_network(is_typed=config.visibility.rule == "typed").float()
    return Trained(network, VOCABULARY, SCHEMA, config, True, threshold, HISTORY, None, kept, {"n": 1})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(model(), tmp_path / "model")
    return tmp_path / "model"


def test_a_model_comes_back_as_it_was(folder: Path) -> None:
    before, after = model(), load_model(folder)
    for name, tensor in before.network.state_dict().items():
        assert torch.equal(after.network.state_dict()[name], tensor), name
    assert (after.vocabulary, after.schema, after.config) == (before.vocabulary, before.schema, before.config)
    assert (after.threshold, after.history, after.about) == (0.3, HISTORY, {"n": 1})
    assert all(np.array_equal(after.validation[name], kept) for name, kept in before.validation.items())
    assert not after.network.training


def test_a_typed_model_has_the_newer_format_and_others_the_older(tmp_path: Path) -> None:
    typed = model(0.3, "visibility.rule=typed")
    save_model(typed, tmp_path / "typed")
    after = load_model(tmp_path / "typed")
    assert (after.config.visibility.rule, after.network.state_dict().keys()) == (
        "typed", typed.network.state_dict().keys()
    )  # fmt: skip
    assert all(torch.equal(w, typed.network.state_dict()[name]) for name, w in after.network.state_dict().items())
    formats = {}
    for rule in ("paper", "window", "typed"):
        save_model(model(0.3, f"visibility.rule={rule}"), tmp_path / rule)
        formats[rule] = json.loads((tmp_path / rule / "kvec.json").read_text())["format"]
    assert formats == {"paper": 1, "window": 1, "typed": 2}
    edit("kvec.json", lambda card: card["settings"]["visibility"].update(rule="window"))(tmp_path / "typed")
    with pytest.raises(ModelError, match=r"is damaged: .*attention\.relation"):
        load_model(tmp_path / "typed")


def test_a_model_takes_the_place_of_a_model_only(folder: Path) -> None:
    save_model(model(0.7), folder)
    assert load_model(folder).threshold == 0.7
    assert os.listdir(folder.parent) == ["model"]  # nothing is left beside it
    (folder.parent / "mine").mkdir()
    (folder.parent / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelError, match="exists and is not a kvec model"):
        save_model(model(), folder.parent / "mine")
    with pytest.raises(ModelError, match="name a folder"):
        require_model_place(Path("."))


def test_a_failed_save_leaves_the_old_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if target == folder and not self.name.endswith(".old"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(ModelError, match="cannot write the model: No space left on device"):
        save_model(model(0.7), folder)
    assert load_model(folder).threshold == 0.3
    assert os.listdir(folder.parent) == ["model"]


def edit(name: str, change: Callable[[dict], object]) -> Callable[[Path], None]:  # type: ignore[type-arg]
    def damage(folder: Path) -> None:
        plain = json.loads((folder / name).read_text())
        change(plain)
        (folder / name).write_text(json.dumps(plain))

    return damage


def without_classes(folder: Path) -> None:
    arrays = load((folder / "validation.safetensors").read_bytes())
    del arrays["classes.1"]
    (folder / "validation.safetensors").write_bytes(save(arrays))


def flip_a_bit(folder: Path) -> None:
    content = bytearray((folder / "weights.safetensors").read_bytes())
    content[-3] ^= 1
    (folder / "weights.safetensors").write_bytes(content)


DAMAGES = {
    "newer": (edit("kvec.json", lambda card: card.update(format=4)), "reads up to format 3: upgrade kvec"),
    "inputs": (edit("kvec.json", lambda card: card.update(policy_inputs=["delay"])), "upgrade kvec"),
    "foreign": (lambda f: (f / "kvec.json").write_text("[]"), "is not the card of a kvec model"),
    "no json": (lambda f: (f / "kvec.json").write_text("{"), "is not JSON text"),
    "setting": (edit("kvec.json", lambda c: c["settings"].update(x={})), "is damaged: unknown group 'x'"),
    "no split": (edit("kvec.json", lambda card: card.pop("split")), "is damaged: 'split'"),
    "width": (
        edit("kvec.json", lambda c: c["settings"]["encoder"].update(feed_forward=999)),
        "is damaged: .*size mismatch",
    ),
    "missing": (lambda f: (f / "history.csv").unlink(), "is damaged: history.csv is missing"),
    "history": (lambda f: (f / "history.csv").write_text("epoch\none\n"), "history.csv is damaged: its hash is not"),
    "weights": (flip_a_bit, "its hash is not the one in kvec.json"),
    "fields": (
        edit("vocabulary.json", lambda v: v["fields"][0].update(name="other")),
        "vocabulary.json is damaged: its hash",
    ),
    "validation": (without_classes, "validation.safetensors is damaged: its hash"),
    "cut": (lambda f: (f / "validation.safetensors").write_bytes(b"\x00" * 5), "is damaged"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_does_not_fit_is_refused(folder: Path, name: str) -> None:
    damage, message = DAMAGES[name]
    damage(folder)
    with pytest.raises(ModelError, match=message) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such model folder"):
        load_model(tmp_path / "none")
    with pytest.raises(ModelError, match=r"holds no kvec\.json"):
        load_model(tmp_path)


def test_progress_comes_back_and_damage_is_told(tmp_path: Path) -> None:
    file = tmp_path / "new" / "run"
    save_progress(file, {"a": torch.arange(3)}, {"history": [{"hm": 0.1}]})
    tensors, facts = load_progress(file)
    assert tensors["a"].tolist() == [0, 1, 2] and facts == {"history": [{"hm": 0.1}]}
    assert os.listdir(file.parent) == ["run"]
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(ModelError, match="is damaged; train again without --resume"):
        load_progress(file)
