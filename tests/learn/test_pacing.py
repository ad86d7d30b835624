import time

import numpy as np
import pytest
import torch

from kvec.decide.model import build_network
from kvec.learn.fitting import Progress, fit_model
from kvec.learn.pacing import seconds_per_epoch
from kvec.read.rows import read_table
from kvec.read.synthetic import SYNTHETIC_SCHEMA, planted_tangles
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config

CONFIG = Config().override([
    "encoder.width=16", "encoder.heads=2", "encoder.feed_forward=16", "encoder.fusion=16", "training.batch=4",
    "training.epochs=50", "training.deal=false",
])  # fmt: skip


def learned(n: int) -> tuple[Tangles, Vocabulary]:
    frame = read_table(planted_tangles(n), SYNTHETIC_SCHEMA).frame
    vocabulary = Vocabulary.fit(frame, SYNTHETIC_SCHEMA)
    return encode_tangles(frame, SYNTHETIC_SCHEMA, vocabulary), vocabulary


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor on which every look at the clock takes half a second, so that a batch takes half a second."""
    now = iter(np.arange(0.0, 10_000.0, 0.5))
    monkeypatch.setattr(time, "process_time", lambda: float(next(now)))


@pytest.mark.parametrize("budget", [0.1, 10.0, 40.0, 1000.0])
def test_an_epoch_costs_what_its_batches_cost(ticking: None, budget: float) -> None:
    tangles, vocabulary = learned(128)  # 32 batches, half a second each
    network = build_network(vocabulary, CONFIG.encoder, False)
    assert seconds_per_epoch(network, tangles, CONFIG, budget) == pytest.approx(16, rel=0.1)


@pytest.mark.parametrize("n", [2, 3])
def test_few_large_tangles_are_tried_again_and_again(ticking: None, n: int) -> None:
    tangles, vocabulary = learned(n)  # half a second each
    network = build_network(vocabulary, CONFIG.encoder, False)
    assert seconds_per_epoch(network, tangles, CONFIG, 100.0) == pytest.approx(0.5 * n)


def test_other_work_on_the_machine_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thirds of all batches take up to three times as long as they should, at random."""
    rng = np.random.default_rng(0)
    now = [0.0, False]

    def clock() -> float:
        now[1] = not now[1]
        if not now[1]:  # a batch is over
            now[0] += 0.5 * (1 + 2 * rng.random() * (rng.random() < 2 / 3))
        return now[0]

    monkeypatch.setattr(time, "process_time", clock)
    tangles, vocabulary = learned(128)
    network = build_network(vocabulary, CONFIG.encoder, False)
    assert seconds_per_epoch(network, tangles, CONFIG, 40.0) == pytest.approx(16, rel=0.2)


def test_a_clock_may_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "process_time", lambda: 1.0)
    tangles, vocabulary = learned(4)
    assert 0 < seconds_per_epoch(build_network(vocabulary, CONFIG.encoder, False), tangles, CONFIG, 5.0) < 0.01


def test_trying_leaves_the_network_as_it_was(ticking: None) -> None:
    tangles, vocabulary = learned(8)
    network = build_network(vocabulary, CONFIG.encoder, False)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    seconds_per_epoch(network, tangles, CONFIG, 5.0)
    torch.testing.assert_close(torch.rand(2), expected)
    torch.testing.assert_close(dict(network.state_dict()), before)


def test_a_model_is_trained_for_the_epochs_that_fit() -> None:
    frame = read_table(planted_tangles(12), SYNTHETIC_SCHEMA).frame
    model = fit_model(
        frame, frame, SYNTHETIC_SCHEMA, CONFIG, torch.device("cpu"), {}, None, Progress(), pace=lambda *given: 2
    )
    assert len(model.history) == model.config.training.epochs == 2
