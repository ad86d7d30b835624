"""Learning from one batch: the gradient of its objective in one block or many, clipped, in bounded memory."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.learn.made import RULE, SCHEMA, TINY, WORDS, fresh, one_batch
from tests.properties.strategies import (
    SMALL,
    VOCABULARY,
    Arrival,
    Largest,
    dense_attention,
    encode,
    frame_of,
    outputs_of,
    small_network,
)
from torch import Tensor

from kvec.decide.model import Network, build_network
from kvec.encode import loops
from kvec.learn.losses import Layout, expected_terms, expected_total
from kvec.learn.run import new_run
from kvec.learn.supply import delay
from kvec.learn.trainer import train_batch
from kvec.tangle.batch import Batch
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.visibility import Rule, make_rule
from kvec.words.config import Training, Visibility


def gradients_of(
    network: Network, tangles: Tangles, rule: Rule, settings: Training, weights: list[Tensor] | None = None
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """All gradients of one batch, summed over its updates, which move nothing; and the terms of its loss."""
    still = replace(settings, learning_rate=0.0, baseline_rate=0.0, weight_decay=0.0)
    run = new_run(network, still)
    sums: dict[str, Tensor] = {}

    def collect(*_: Any) -> None:
        for name, p in network.named_parameters():
            if p.grad is not None:
                sums[name] = sums.get(name, torch.zeros_like(p)) + p.grad
                p.grad = None  # the other optimiser comes next

    # the baseline's gradients are collected with the network's, before either moves
    next(iter(run.optimizers.values())).register_step_pre_hook(collect)
    terms = one_batch(run, tangles, rule, still, weights)
    return sums, terms


def long_tangles(is_cut_at_six: bool) -> Tangles:
    """Tangles of 12, 6 and 9 items; when cut, no sequence goes on from the first six items to the others."""
    rng = np.random.default_rng(5)

    def arrivals(n: int) -> list[Arrival]:
        keys = [int(rng.integers(2)) + (2 if is_cut_at_six and i >= 6 else 0) for i in range(n)]
        return [
            Arrival(
                k, int(rng.integers(5)), "in" if rng.random() < 0.6 else "out", float(rng.integers(3)), 0.3, 0.5, False
            )
            for k in keys
        ]

    return encode(frame_of(arrivals(12), arrivals(6), arrivals(9)))


STILL = Training(objective="expected", clip=0.0, block=1000)
OBJECTIVES = [
    replace(STILL, objective="every"),
    STILL,
    replace(STILL, policy_cost="error", delay="items"),
    replace(STILL, objective="paper", beta=0.1),
    replace(STILL, objective="paper", returns="final", policy_gradient="all", exploration=0.2),
]


@pytest.mark.parametrize("settings", OBJECTIVES, ids=["every", "expected", "error", "paper", "paper-all"])
@pytest.mark.parametrize(
    "visibility", [Visibility("paper", use_value_correlation=False), Visibility(window=1)], ids=["own", "itself"]
)
def test_blocks_pass_back_the_whole_gradient_where_nothing_crosses(settings: Training, visibility: Visibility) -> None:
    network, tangles, rule = small_network(), long_tangles(is_cut_at_six=True), make_rule(visibility)
    whole, terms = gradients_of(network, tangles, rule, settings)
    parts, terms_of_parts = gradients_of(network, tangles, rule, replace(settings, block=6))
    assert terms == pytest.approx(terms_of_parts, rel=1e-12)
    assert whole.keys() == parts.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-10, atol=1e-13, msg=name)


@pytest.mark.parametrize("settings", OBJECTIVES, ids=["every", "expected", "error", "paper", "paper-all"])
@pytest.mark.parametrize("block", [1, 4, 7])
def test_blocks_have_the_same_loss_whatever_crosses(settings: Training, block: int) -> None:
    network, tangles, rule = small_network(), long_tangles(is_cut_at_six=False), make_rule(Visibility(window=5))
    whole, terms = gradients_of(network, tangles, rule, settings)
    parts, terms_of_parts = gradients_of(network, tangles, rule, replace(settings, block=block))
    assert terms == pytest.approx(terms_of_parts, rel=1e-12)
    heads = [name for name in whole if name.startswith(("policy", "classifiers"))]
    assert heads
    for name in heads:  # what stands on the representation alone gets its whole gradient anyhow
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-10, atol=1e-13, msg=name)


@pytest.mark.parametrize("visibility", ["paper", "typed"])
def test_the_gradient_of_the_network_is_that_of_finite_differences(visibility: str) -> None:
    network, tangles = small_network(), long_tangles(is_cut_at_six=False)
    rule = make_rule(Visibility(visibility, window=5))
    settings = replace(STILL, delay_cost=0.7, floor=0.2)
    gradients, terms = gradients_of(network, tangles, rule, settings)
    batch = Batch.of(tangles, np.arange(3))
    draw = batch.draw(np.random.default_rng(3), SMALL.slots, SMALL.time_modulus)
    layout = Layout.of(torch.from_numpy(np.diff(batch.offsets)))
    labels = torch.from_numpy(tangles.labels.astype(np.int64))
    late = delay(tangles, settings)[torch.from_numpy(batch.items)]

    @torch.no_grad()
    def loss() -> float:
        outputs = outputs_of(network, tangles, rule, draw=draw)
        return float(expected_total(expected_terms(outputs, labels, layout, late, lengths=settings.lengths), 0.7, 0.2))

    assert loss() == pytest.approx(terms["loss"], rel=1e-12)
    rng = torch.Generator().manual_seed(0)
    step = 1e-6
    for name, p in network.named_parameters():
        if name.startswith("baseline"):
            assert name not in gradients
            continue
        direction = torch.randn(p.shape, generator=rng, dtype=p.dtype)
        with torch.no_grad():
            p += step * direction
            above = loss()
            p -= 2 * step * direction
            below = loss()
            p += step * direction
        slope = float((gradients[name] * direction).sum())
        assert slope == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-8), name


BODY = ("embedding", "blocks", "norm", "fusion")


@pytest.mark.parametrize("block", [1000, 5])
@pytest.mark.parametrize(("policy_gradient", "is_moved"), [("head", False), ("all", True)])
def test_the_policys_loss_trains_the_representation_only_if_asked(
    block: int, policy_gradient: str, is_moved: bool
) -> None:
    network, tangles = small_network(), long_tangles(is_cut_at_six=False)
    rule, found = make_rule(Visibility("typed")), []
    for alpha, beta in ((0.0, 0.0), (5.0, 3.0)):
        settings = replace(
            STILL, objective="paper", policy_gradient=policy_gradient, alpha=alpha, beta=beta, block=block
        )
        found.append(gradients_of(network, tangles, rule, settings)[0])
    for name, gradient in found[0].items():
        is_same = torch.allclose(gradient, found[1][name], rtol=1e-9, atol=1e-12)
        if name.startswith(BODY):
            assert is_same is not is_moved, name
        elif name.startswith("policy"):
            assert not is_same, name
        else:
            assert is_same, name


def test_one_update_for_each_block() -> None:
    tangles, steps = long_tangles(is_cut_at_six=False), []
    for block in (1000, 4, 1):
        settings = replace(STILL, block=block)
        run = new_run(small_network(), settings)
        run.optimizers["network"].register_step_pre_hook(lambda *_, block=block: steps.append(block))
        one_batch(run, tangles, RULE, settings)
    assert [steps.count(block) for block in (1000, 4, 1)] == [1, 3, 12]


@pytest.mark.parametrize("block", [1000, 4])
def test_without_a_delay_cost_the_policy_learns_nothing(block: int) -> None:
    settings, tangles = replace(STILL, block=block, learning_rate=0.01), long_tangles(is_cut_at_six=False)
    for cost in (None, 0.0):
        run = new_run(small_network(), settings)
        before = copy.deepcopy(run.network)
        batch, rng = Batch.of(tangles, np.arange(3)), np.random.default_rng(3)
        train_batch(run, batch, RULE, settings, delay(tangles, settings), None, rng, cost)
        assert torch.equal(run.network.policy.weight, before.policy.weight) == (cost is None)
        assert not torch.equal(run.network.fusion.cell.weight_ih_l0, before.fusion.cell.weight_ih_l0)


def test_no_gradient_is_left_over_for_the_next_batch() -> None:
    for block in (1000, 5):
        settings = replace(STILL, block=block, learning_rate=0.0, weight_decay=0.0)
        run = new_run(small_network(), settings)
        tangles = long_tangles(is_cut_at_six=False)
        one_batch(run, tangles, RULE, settings)
        assert all(p.grad is None or not p.grad.any() for p in run.network.parameters())


def test_both_passes_over_blocks_drop_the_same() -> None:
    network = build_network(VOCABULARY, replace(SMALL, dropout=0.5), True).double().train()
    said: list[Tensor] = []
    network.register_forward_hook(lambda module, inputs, outputs: said.append(outputs.halt.detach()))
    gradients_of(network, long_tangles(is_cut_at_six=False), make_rule(Visibility(window=5)), replace(STILL, block=4))
    half = len(said) // 2
    assert half == 3
    for first, second in zip(said[:half], said[half:], strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(said[0], said[1])


def norm(optimizer: torch.optim.Optimizer) -> float:
    """The norm of all gradients that an optimiser is about to use."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    return float(torch.stack([p.grad.square().sum() for p in parameters]).sum().sqrt())


def test_gradients_are_clipped_and_the_baseline_apart() -> None:
    """A baseline far off has a huge error; the network's step must not shrink because of it."""
    tangles = long_tangles(is_cut_at_six=False)
    moved = []
    for offset in (0.0, 1e6):
        network = small_network()
        with torch.no_grad():
            network.baseline[2].bias += offset  # type: ignore[operator]
        settings = Training(objective="paper", clip=0.01, alpha=0.0, beta=0.0, weight_decay=0.0)
        run = new_run(network, settings)
        norms: list[float] = []
        run.optimizers["network"].register_step_pre_hook(
            lambda optimizer, *_, norms=norms: norms.append(norm(optimizer))
        )
        one_batch(run, tangles, RULE, settings)
        assert norms == [pytest.approx(0.01, rel=1e-3)]
        moved.append(network.classifiers[0].weight.detach().clone())
    torch.testing.assert_close(moved[0], moved[1])


@pytest.mark.parametrize("is_dense", [False, True])
def test_twenty_thousand_items_in_one_tangle_train_in_bounded_memory(is_dense: bool) -> None:
    if not (is_dense or loops.is_built):
        pytest.skip("the C extension is not built here")
    n = 20_000
    rng = np.random.default_rng(0)
    key = rng.integers(0, 50, n)
    frame = pl.DataFrame(
        {
            "tangle": np.zeros(n, np.int64),
            "key": key,
            "value.sign": rng.choice(["left", "right", "noise 1", "noise 2"], n),
            "label.app": np.where(key % 2, "a", "b"),
        }
    )
    tangles = encode_tangles(frame, SCHEMA, WORDS)
    run = fresh()
    before = run.network.classifiers[0].weight.detach().clone()
    settings = TINY.training
    run.network.train()
    with Largest() as largest, dense_attention() if is_dense else nullcontext():
        terms = one_batch(run, tangles, RULE, settings)
    assert np.isfinite(terms["loss"])
    assert not torch.equal(run.network.classifiers[0].weight, before)
    # a square of all items would hold 400 million; the mask of a block holds 512 x (1023 + 512), for two heads twice
    assert n <= largest.size <= (2 * 512 * 1535 if is_dense else 512 * (1 + 128 + 64) * 2)
