"""Training with `after_halt = "drop"`: halts are sampled, and what comes after them is hidden from others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.learn.made import RULE, TINY, planted_tangles

import kvec
from kvec.decide.model import build_network
from kvec.learn.losses import Layout
from kvec.learn.trainer import _sample_dropped
from kvec.tangle.batch import Batch
from kvec.words.config import Deciding


@pytest.mark.parametrize(("bias", "dropped_from"), [(-40.0, 8), (40.0, 1)])
def test_what_comes_after_a_sampled_halt_is_dropped(bias: float, dropped_from: int) -> None:
    """A policy that never halts drops nothing; one that halts at once drops all but the first items."""
    tangles, vocabulary = planted_tangles(6, seed=0)
    torch.manual_seed(0)
    network = build_network(vocabulary, TINY.encoder, has_time=False)
    with torch.no_grad():
        network.policy.weight.zero_()
        network.policy.bias.fill_(bias)
    batch = Batch.of(tangles, np.array([1, 3]))
    layout = Layout.of(torch.from_numpy(np.diff(batch.offsets)))
    draw = batch.draw(np.random.default_rng(0), 8, 16)
    sampling = torch.Generator().manual_seed(0)
    dropped = _sample_dropped(network, batch, RULE, 512, draw, layout, sampling, 0)
    is_member = np.zeros(tangles.n_items, bool)
    is_member[batch.items] = True
    np.testing.assert_array_equal(dropped, is_member & (tangles.sequences.position >= dropped_from))


def test_a_model_that_drops_decides_as_its_stream_does() -> None:
    items = kvec.synthetic.demo_traffic(60, seed=0)
    schema = {"key": "key", "tangle": "tangle", "time": "time", "session": "direction", "label": "label"}
    config = replace(
        TINY, deciding=Deciding(threshold=0.1, after_halt="drop"), training=replace(TINY.training, delay_cost=3.0)
    )
    model = kvec.KVEC.from_config(config, schema=schema, device="cpu").fit(items)
    assert model.model_.threshold == 0.1
    unseen = kvec.synthetic.demo_traffic(5, seed=1)
    decided = {d.id: d for d in model.decide(unseen)}
    assert any(d.n_observed < d.length for d in decided.values() if d.length)
    stream = model.stream()
    rows = unseen.sort("time", maintain_order=True).iter_rows(named=True)
    values = model.model_.schema.value_names
    fed = stream.feed_many(
        kvec.Item(row["tangle"], row["key"], {name: row[name] for name in values}, row["time"]) for row in rows
    )
    fed += stream.close()
    assert {d.id for d in fed} == decided.keys()
    for one in fed:
        other = decided[one.id]
        assert (one.label, one.n_observed) == (other.label, other.n_observed)
        assert one.probability == pytest.approx(other.probability, abs=1e-4)
    key = next(iter(decided.values()))
    explained = model.explain(unseen, key.key, key.tangle)
    assert max(explained.steps[key.n_observed - 1].probabilities) == pytest.approx(key.probability, abs=1e-4)


def test_without_a_threshold_one_half_is_settled_before_training() -> None:
    assert (Deciding(after_halt="drop").fixed, Deciding().fixed) == (0.5, None)
    assert Deciding(threshold=0.2, after_halt="drop").fixed == 0.2
