"""Laws of the network of every training: the future never edits the past, and alone no other key is heard of."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from kvec.decide.model import build_network
from kvec.decide.scores import Scores
from kvec.decide.scoring import score
from kvec.read.rows import read_table
from kvec.read.synthetic import SYNTHETIC_SCHEMA, planted_tangles
from kvec.reproduce.datasets import Parts
from kvec.reproduce.plan import start
from kvec.reproduce.trainings import TRAININGS
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import Vocabulary

TABLE = read_table(planted_tangles(4, keys=3, seed=1), SYNTHETIC_SCHEMA)
NETWORKS = [name for name, training in TRAININGS.items() if not training.classifier]
TINY = ("encoder.width=16", "encoder.heads=2", "encoder.feed_forward=32", "encoder.fusion=16")


def scored(name: str, frame: pl.DataFrame) -> tuple[pl.DataFrame, Scores]:
    """Keys in the order of the scores, and what an untrained network of this training says."""
    training = TRAININGS[name]
    config = start().override([*TINY, *training.settings])
    whole, _, part = Parts(TABLE.frame, TABLE.frame, frame, TABLE.schema).arranged(0, training.is_alone)
    vocabulary = Vocabulary.fit(whole, TABLE.schema)
    torch.manual_seed(0)
    network = build_network(vocabulary, config.encoder, False, training.network).double().eval()
    tangles = encode_tangles(part, TABLE.schema, vocabulary)
    names = tangles.names().select(pl.col("key").cast(pl.String).str.split("/").list.last())
    return names, score(network, tangles, make_rule(config.visibility))


def by_key(name: str, frame: pl.DataFrame) -> dict[str, np.ndarray]:
    """Halting score and class probabilities after each item, by key."""
    names, said = scored(name, frame)
    rows = np.column_stack([said.halt, *said.classes])
    return {key: rows[a:b] for key, a, b in zip(names["key"], said.offsets[:-1], said.offsets[1:], strict=True)}


@pytest.mark.parametrize("name", NETWORKS)
def test_scores_are_probabilities_after_every_item(name: str) -> None:
    _, said = scored(name, TABLE.frame)
    assert said.offsets[-1] == TABLE.frame.height
    assert ((said.halt >= 0) & (said.halt <= 1)).all()
    np.testing.assert_allclose(said.classes[0].sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_future_never_edits_the_past(name: str) -> None:
    whole = by_key(name, TABLE.frame)
    seen = TABLE.frame.filter(pl.int_range(pl.len()).over("tangle") < 20)
    for key, rows in by_key(name, seen).items():
        np.testing.assert_allclose(rows, whole[key][: len(rows)], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", NETWORKS)
def test_other_keys_are_heard_of_unless_alone(name: str) -> None:
    whole = by_key(name, TABLE.frame)
    first = TABLE.frame.filter(pl.col("key") == pl.col("key").first().over("tangle"))
    alike = [np.allclose(rows, whole[key], rtol=1e-5) for key, rows in by_key(name, first).items()]
    assert all(alike) if TRAININGS[name].is_alone else not all(alike)
