"""A trained model without PyTorch: what a stream reads of a folder, and of a state."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.properties.stories import MODEL, OTHER, changed

from kvec.decide.deployed import Deployed, load_deployed
from kvec.decide.stream import Stream
from kvec.words.errors import ModelError


def test_plain_data_and_back() -> None:
    for model in (MODEL, OTHER):
        again = Deployed.from_plain(json.loads(json.dumps(model.to_plain())), model.weights)
        assert replace(again, weights={}) == replace(model, weights={})
        assert again.hash == model.hash


def test_the_hash_changes_with_all_that_scores_depend_on() -> None:
    name = "policy.bias"
    others = [
        replace(MODEL, weights={**MODEL.weights, name: MODEL.weights[name] + 1e-9}),
        replace(MODEL, weights={f"{k}.": v for k, v in MODEL.weights.items()}),
        replace(MODEL, has_time=False),
        replace(MODEL, schema=replace(MODEL.schema, session_gap=5.0)),
        replace(MODEL, vocabulary=replace(MODEL.vocabulary, labels=(("c", "b", "a"), ("no", "yes")))),
        changed(MODEL, "visibility.window=7"),
        changed(MODEL, "encoder.positions=3"),
    ]
    assert len({MODEL.hash, *(other.hash for other in others)}) == len(others) + 1
    assert replace(MODEL, threshold=0.9).hash == MODEL.hash
    assert changed(MODEL, "training.epochs=3").hash == MODEL.hash
    fortran = {k: np.asfortranarray(v) for k, v in MODEL.weights.items()}
    assert replace(MODEL, weights=fortran).hash == MODEL.hash


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none: no such model folder; kvec train writes one"):
        load_deployed(tmp_path / "none")
    with pytest.raises(ModelError, match=r"is not a kvec model: it holds no kvec\.json$"):
        load_deployed(tmp_path)
    (tmp_path / "kvec.json").write_text("{")
    with pytest.raises(ModelError, match=r"kvec\.json is damaged: it is not JSON text$"):
        load_deployed(tmp_path)


@pytest.mark.parametrize("name", [name for name in MODEL.weights if not name.startswith("baseline")])
@pytest.mark.parametrize("cut", [0, 1, -1])
def test_weights_of_other_sizes_are_refused(name: str, cut: int) -> None:
    """Before any loop in C can read beyond their end."""
    given = dict(MODEL.weights)
    weight = given.pop(name)
    if cut:  # one row or column more, or less
        axis = weight.ndim - 1
        given[name] = np.concatenate([weight, weight], axis)[..., : weight.shape[axis] + cut]
    with pytest.raises(ModelError):
        Stream(replace(changed(MODEL, "visibility.rule=typed"), weights=given))
    if not cut:
        return
    given[name] = np.concatenate([weight, weight], 0)[: len(weight) + cut]
    with pytest.raises(ModelError):
        Stream(replace(changed(MODEL, "visibility.rule=typed"), weights=given))


def test_streams_do_not_need_pytorch() -> None:
    code = "import sys, kvec.decide.stream, kvec.decide.deployed; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
