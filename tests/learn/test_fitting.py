"""What a network begins with, and what it has when it is trained or read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kvec.estimator import KVEC, load
from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic
from kvec.tangle.relations import BIASES

SMALL: dict[str, Any] = {
    "schema": DEMO_SCHEMA, "width": 16, "heads": 2, "feed_forward": 16, "fusion": 16, "epochs": 1, "device": "cpu",
}  # fmt: skip


def biases(model: KVEC) -> list[torch.Tensor]:
    found = [layer.attention.relation for layer in model.model_.network.layers()]
    return [each.detach() for each in found if each is not None]


def test_training_begins_near_the_papers_mask_and_a_model_keeps_what_it_learned(tmp_path: Path) -> None:
    still = KVEC(**SMALL, learning_rate=0.0).fit(demo_traffic(20))
    assert len(biases(still)) == 2
    for each in biases(still):
        assert each.tolist() == [pytest.approx(BIASES)] * 2
    learned = KVEC(**SMALL).fit(demo_traffic(20))
    learned.save(tmp_path / "model")
    for before, after in zip(biases(learned), biases(load(tmp_path / "model")), strict=True):
        assert not torch.equal(after, torch.tensor([BIASES] * 2)) and torch.equal(before, after)
    assert not biases(KVEC(**SMALL, visibility="paper").fit(demo_traffic(20)))
