"""Scores of whole tables: probabilities, in the order of the sequences, whatever the batches."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import polars as pl
import pytest
from tests.properties.strategies import TYPES, Arrival, Largest, dense_attention, encode, frame_of, small_network

from kvec.decide.scoring import score
from kvec.tangle.visibility import make_rule
from kvec.words.config import Visibility

NETWORK = small_network().float()
RULE = make_rule(Visibility())


def arrivals(n: int) -> list[Arrival]:
    return [Arrival(i % 3, i % 4, "in", 1.0, 0.1 * i, 0.5, False) for i in range(n)]


def test_scores_are_probabilities() -> None:
    tangles = encode(frame_of(arrivals(9), arrivals(2)))
    scores = score(NETWORK, tangles, RULE)
    assert scores.halt.shape == (11,) and scores.halt.dtype == np.float32
    assert ((scores.halt > 0) & (scores.halt < 1)).all()
    for n, classes in zip((3, 2), scores.classes, strict=True):
        assert classes.shape == (11, n)
        assert classes.sum(axis=1).tolist() == pytest.approx([1] * 11, abs=1e-6)


@pytest.mark.parametrize("is_training", [True, False])
def test_the_network_is_left_in_the_mode_it_was_in(is_training: bool) -> None:
    NETWORK.train(is_training)
    score(NETWORK, encode(frame_of(arrivals(4))), RULE)
    assert NETWORK.training is is_training
    NETWORK.eval()


def test_no_dropout_and_no_gradients() -> None:
    network = small_network(seed=1).train()
    network.blocks[0].dropout.of_256 = 128  # type: ignore[union-attr]
    tangles = encode(frame_of(arrivals(9)))
    one, two = score(network, tangles, RULE), score(network, tangles, RULE)
    assert np.array_equal(one.halt, two.halt)
    assert all(p.grad is None for p in network.parameters())


def test_progress_is_told_in_items() -> None:
    told: list[tuple[int, int]] = []
    tangles = encode(frame_of(arrivals(9), arrivals(2), arrivals(5)))
    score(NETWORK, tangles, RULE, batch=1, block=4, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (16, 16)
    assert {total for _, total in told} == {16}


def test_no_items_no_scores() -> None:
    scores = score(NETWORK, encode(pl.DataFrame(schema=TYPES)), RULE)
    assert len(scores.halt) == 0 and scores.offsets.tolist() == [0]


@pytest.mark.parametrize("is_dense", [False, True])
def test_a_long_tangle_is_scored_in_bounded_memory(is_dense: bool) -> None:
    """A square of 20,000 x 20,000 would hold 400 million numbers; nothing here holds more than a block's mask."""
    rng = np.random.default_rng(0)
    n = 20_000
    frame = frame_of(arrivals(1)).drop("value.direction", "end")
    frame = pl.DataFrame(
        {
            **{c: [frame[c][0]] * n for c in frame.columns},
            "key": rng.integers(0, 40, n),
            "time": np.arange(n, dtype=np.float64),
            "value.direction": rng.choice(["in", "out"], n),
            "value.size": rng.integers(0, 5, n),
        },
        schema_overrides={"label.kind": pl.String},
    )
    tangles = encode(frame)
    with Largest() as largest, dense_attention() if is_dense else nullcontext():
        scores = score(NETWORK, tangles, make_rule(Visibility()), block=512)
    assert len(scores.halt) == n and np.isfinite(scores.halt).all()
    assert 1000 < largest.size <= 2 * 512 * 1535
