"""The network as a whole: what it is built from, what it keeps, and who may train what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.properties.strategies import SMALL, VOCABULARY, Arrival, encode, frame_of, outputs_of, small_network
from torch import Tensor, nn

from kvec.decide.model import Outputs, build_network, in_batch_order, run_blocks
from kvec.tangle.batch import Batch
from kvec.tangle.tangles import GAP_STEPS
from kvec.tangle.visibility import make_rule
from kvec.words.config import Encoder, Visibility

ARRIVALS = [Arrival(i % 3, i % 4, "in" if i % 5 else "out", 1.0 * (i % 3), 0.1 * i, 0.5, i == 7) for i in range(14)]


@pytest.mark.parametrize(
    ("settings", "has_time", "arrivals", "gaps"),
    [
        ({"time": "gaps"}, True, 0, GAP_STEPS + 1),
        ({"time": "gaps"}, False, 0, 0),
        ({"time": "auto"}, True, 5, GAP_STEPS + 1),
        ({"time": "auto"}, False, 5, 0),
        ({"time": "order"}, True, 5, 0),
        ({"time": "both"}, True, 5, GAP_STEPS + 1),
        ({"use_time": False}, True, 0, 0),
    ],
    ids=str,
)
def test_time_embeddings_follow_the_settings(
    settings: dict[str, object], has_time: bool, arrivals: int, gaps: int
) -> None:
    sizes = build_network(VOCABULARY, replace(SMALL, **settings), has_time).embedding.vocabularies  # type: ignore[arg-type]
    assert (sizes.arrivals, sizes.gaps) == (arrivals, gaps)
    assert sizes.fields == (5, 5, 4, 5)  # of size: values and bins
    assert sizes.projected == 2


def test_embeddings_can_be_left_out() -> None:
    sizes = build_network(
        VOCABULARY, replace(SMALL, use_membership=False, use_position=False), False
    ).embedding.vocabularies
    assert (sizes.slots, sizes.positions) == (0, 0)


def test_one_classifier_per_label_column() -> None:
    network = build_network(VOCABULARY, SMALL, True)
    assert network.n_classes == (3, 2)
    assert [head.out_features for head in network.classifiers] == [3, 2]


def test_a_new_network_waits() -> None:
    torch.manual_seed(0)
    network = build_network(VOCABULARY, Encoder(), True).eval()
    with torch.no_grad():
        halt = outputs_of(network, encode(frame_of(ARRIVALS)), make_rule(Visibility())).halt.sigmoid()
    assert 0 < halt.min() and halt.max() < 0.4


def test_the_state_belongs_to_the_caller() -> None:
    """Running a block leaves nothing in the network; a second reader gets the same answers."""
    network, tangles = small_network(), encode(frame_of(ARRIVALS))
    rule, batch = make_rule(Visibility(window=4)), Batch.of(tangles, np.arange(1))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.no_grad():
        one = [outputs.halt for _, outputs in run_blocks(network, batch, rule, 5)]
        two_at_once = zip(run_blocks(network, batch, rule, 5), run_blocks(network, batch, rule, 5), strict=True)
        for expected, ((_, a), (_, b)) in zip(one, two_at_once, strict=True):
            assert torch.equal(a.halt, expected) and torch.equal(b.halt, expected)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_caches_hold_no_more_than_the_window() -> None:
    network, tangles = small_network(), encode(frame_of(ARRIVALS * 4))
    rule, batch = make_rule(Visibility(window=9)), Batch.of(tangles, np.arange(1))
    state = network.new_state(len(batch.sequences))
    for block in batch.blocks(rule, 5, SMALL.slots):
        network(block, state, rule.window - 1)
        for cache in state.caches:
            assert cache is not None
            assert cache.k.shape[1] <= 8
            assert not cache.k.requires_grad and not cache.v.requires_grad
        assert not state.hidden.requires_grad and not state.memory.requires_grad


def test_a_state_that_no_block_follows_is_left_alone() -> None:
    network, tangles = small_network(), encode(frame_of(ARRIVALS))
    batch = Batch.of(tangles, np.arange(1))
    state = network.new_state(len(batch.sequences))
    (block,) = batch.blocks(make_rule(Visibility()), 100, SMALL.slots)
    network(block, state)
    assert not state.hidden.any() and state.caches == [None, None]


def gradients(network: nn.Module, total: Tensor) -> set[str]:
    """The parts of the network that a number trains."""
    network.zero_grad(set_to_none=True)
    total.backward()  # type: ignore[no-untyped-call]
    return {name.split(".")[0] for name, p in network.named_parameters() if p.grad is not None and p.grad.any()}


def test_who_trains_what() -> None:
    network, tangles = small_network(), encode(frame_of(ARRIVALS))
    rule, batch = make_rule(Visibility()), Batch.of(tangles, np.arange(1))
    body = {"embedding", "blocks", "norm", "fusion"}

    def run(detach_policy: bool) -> Outputs:
        return next(run_blocks(network, batch, rule, 100, detach_policy=detach_policy))[1]

    assert gradients(network, run(False).halt.sum()) == body | {"policy"}
    assert gradients(network, run(True).halt.sum()) == {"policy"}
    assert gradients(network, run(False).baseline.sum()) == {"baseline"}
    assert gradients(network, run(True).classes[1].square().sum()) == body | {"classifiers"}


def test_outputs_in_the_order_of_the_batch() -> None:
    network, tangles = small_network(), encode(frame_of(ARRIVALS, ARRIVALS[:4]))
    batch, rule = Batch.of(tangles, np.array([1, 0])), make_rule(Visibility())
    parts = list(run_blocks(network, batch, rule, 3))
    order = in_batch_order([block.items for block, _ in parts], batch)
    items = np.concatenate([block.items for block, _ in parts])
    assert items[order.numpy()].tolist() == batch.items.tolist()
    joined = Outputs.joined([outputs for _, outputs in parts])
    assert torch.equal(joined.taken(order).classes[1], joined.classes[1][order])
    leaves = joined.detached()
    assert all(leaf.is_leaf and leaf.requires_grad for leaf in leaves.tensors())
    assert len(leaves.tensors()) == 4


def test_halting_scores_of_one_item_tangles() -> None:
    network, tangles = small_network(), encode(frame_of(ARRIVALS[:1], ARRIVALS[1:2]))
    outputs = outputs_of(network, tangles, make_rule(Visibility()))
    assert outputs.halt.shape == (2,) and outputs.halt.isfinite().all()
