"""The training loop: repeatable, resumable, true to its objective in one block or many, and able to learn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
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

from kvec.decide.halting import decision_table
from kvec.decide.model import Network, build_network
from kvec.decide.scoring import score
from kvec.encode import sparse
from kvec.learn import trainer
from kvec.learn.losses import Layout, expected_terms, expected_total
from kvec.learn.trainer import (
    Run,
    Step,
    class_weights,
    delay,
    delay_cost_at,
    learning_rate,
    new_run,
    restore_run,
    run_state,
    traces,
    train,
    train_batch,
    validate,
)
from kvec.tangle.batch import Batch, plan_batches
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.visibility import Rule, make_rule
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config, Deciding, Encoder, Training, Visibility
from kvec.words.schema import Field, Schema

RULE = make_rule(Visibility())
SCHEMA = Schema(values=(Field("sign", kind="categorical"),), labels=("app",))
TINY = Config(
    encoder=Encoder(
        width=16, blocks=1, heads=2, feed_forward=32, fusion=16, slots=8, positions=16, dropout=0.1, hide=0.0
    ),
    training=Training(
        epochs=4,
        learning_rate=0.01,
        warmup=5,
        delay_cost=1.0,
        floor=0.1,
        settle=0.3,
        patience=6,
        batch_items=32768,
        block=512,
    ),
)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch of these 64 tangles is 32 batches."""
    monkeypatch.setattr(trainer, "LEAST_STEPS", 32)


def planted(n_tangles: int, seed: int, length: int = 8, marked: int = 2) -> pl.DataFrame:
    """Two keys side by side; an item at `marked` names the class of its key, all others are noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for tangle in range(n_tangles):
        classes = rng.integers(0, 2, 2)
        for position in range(length):
            for key in (0, 1):
                noise = f"noise {rng.integers(4)}"
                sign = ("left", "right")[classes[key]] if position == marked else noise
                rows.append((tangle, key, sign, "ab"[classes[key]]))
    return pl.DataFrame(rows, schema=["tangle", "key", "value.sign", "label.app"], orient="row")


def planted_tangles(n_tangles: int, seed: int, vocabulary: Vocabulary | None = None) -> tuple[Tangles, Vocabulary]:
    frame = planted(n_tangles, seed)
    vocabulary = vocabulary or Vocabulary.fit(frame, SCHEMA)
    return encode_tangles(frame, SCHEMA, vocabulary), vocabulary


TRAINING, WORDS = planted_tangles(64, seed=1)
VALIDATION, _ = planted_tangles(40, seed=2, vocabulary=WORDS)


def fresh(config: Config = TINY, seed: int = 0) -> Run:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return new_run(build_network(WORDS, config.encoder, has_time=False), config.training)


def trained(config: Config, run: Run | None = None, **listeners: Any) -> Run:
    return train(run or fresh(config), TRAINING, VALIDATION, make_rule(config.visibility), config, **listeners)


def with_training(config: Config = TINY, **changes: Any) -> Config:
    return replace(config, training=replace(config.training, **changes))


def without_time(history: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


def assert_same_end(one: Run, two: Run) -> None:
    assert without_time(one.history) == without_time(two.history)
    for (name, a), b in zip(one.network.state_dict().items(), two.network.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


# -- learning -------------------------------------------------------------------------------------------------------


def test_a_planted_class_is_learned_and_told_where_it_shows() -> None:
    config = replace(TINY, deciding=Deciding(threshold=0.5))
    run = trained(with_training(config, epochs=16))
    best = run.best_record
    assert best["accuracy"] > 0.95
    assert 3 / 8 - 0.02 < best["earliness"] < 0.75  # the sign stands at 3 of 8, and halting has begun
    assert best["end_accuracy"] > 0.95
    assert not run.network.training


def test_the_papers_objective_learns_too() -> None:
    run = trained(with_training(epochs=10, objective="paper", beta=0.01))
    assert run.best_record["end_accuracy"] > 0.9
    losses = [record["loss"] for record in run.history]
    assert losses[-1] < losses[0]


def test_history_has_every_term_and_measure() -> None:
    run = trained(with_training(epochs=2))
    assert [record["epoch"] for record in run.history] == [1, 2]
    for record in run.history:
        assert set(record) == {
            "epoch", "loss", "classification", "policy", "lateness", "every", "baseline", "rate", "threshold",
            "accuracy", "earliness", "hm", "end_accuracy", "seconds",
        }  # fmt: skip
        assert all(np.isfinite(value) for value in record.values())
        a, e = record["accuracy"], record["earliness"]
        assert record["hm"] == pytest.approx(2 * (1 - e) * a / (1 - e + a))


def test_every_batch_is_told_to_the_listener() -> None:
    told: list[Step] = []
    run = fresh()

    def listener(step: Step) -> None:
        assert run.network.training  # dropout and all
        told.append(step)

    trained(with_training(epochs=2), run, on_step=listener)
    assert {step.epoch for step in told} == {0, 1}
    assert [step.step for step in told if step.epoch == 0] == list(range(1, told[0].n_steps + 1))
    assert set(told[0].terms) >= {"loss", "classification", "lateness"}


# -- the same again -------------------------------------------------------------------------------------------------

FULL = replace(TINY, encoder=replace(TINY.encoder, dropout=0.2, hide=0.1))


@pytest.mark.parametrize("objective", ["expected", "paper"])
def test_same_seed_same_result(objective: str) -> None:
    config = with_training(FULL, epochs=2, objective=objective)
    torch.manual_seed(11)
    one = trained(config)
    torch.manual_seed(22)  # whatever happened before has no say
    assert_same_end(one, trained(config))
    other = trained(with_training(config, seed=1))
    assert without_time(one.history) != without_time(other.history)


def test_every_epoch_draws_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[list[list[int]]] = []

    def noted(*given: Any) -> list[Any]:
        plan = plan_batches(*given)
        plans.append([members.tolist() for members in plan])
        return plan

    monkeypatch.setattr(trainer, "plan_batches", noted)
    trained(with_training(epochs=2))
    trained(with_training(epochs=1))
    assert len(plans) == 3
    assert plans[0] != plans[1]
    assert plans[0] == plans[2]
    assert sorted(t for members in plans[0] for t in members) == list(range(64))


def test_training_leaves_the_random_numbers_of_others_alone() -> None:
    state = torch.get_rng_state()
    trained(with_training(epochs=1))
    assert torch.equal(torch.get_rng_state(), state)


class Killed(Exception):
    """The run is stopped from outside."""


def kill_after(epoch: int, keep: Callable[[Run], None] = lambda run: None) -> Callable[[Run], None]:
    def listener(run: Run) -> None:
        keep(run)
        if run.epoch == epoch:
            raise Killed

    return listener


@pytest.mark.parametrize("objective", ["expected", "paper"])
def test_a_killed_run_ends_where_the_unbroken_one_ends(objective: str) -> None:
    config = with_training(FULL, epochs=3, objective=objective)
    unbroken = trained(config)
    saved: dict[str, Any] = {}

    def save(run: Run) -> None:
        state = {name: tensor.clone() for name, tensor in run_state(run).items()}
        saved.update(state=state, history=copy.deepcopy(run.history), done=run.is_finished)

    killed = fresh(config)
    with pytest.raises(Killed):
        trained(config, killed, on_epoch=kill_after(2, save))
    resumed = fresh(config, seed=99)  # nothing of its beginning may matter
    restore_run(resumed, saved["state"], saved["history"], saved["done"])
    assert resumed.epoch == 2
    assert_same_end(trained(config, resumed), unbroken)
    assert_same_end(trained(config, killed), unbroken)


def test_a_finished_run_is_not_trained_on() -> None:
    config = with_training(epochs=2)
    run = trained(config)
    again = fresh(config, seed=5)
    restore_run(again, run_state(run), copy.deepcopy(run.history), run.is_finished)
    assert_same_end(trained(config, again), run)


# -- when it stops, and what it keeps -------------------------------------------------------------------------------


def test_the_best_epoch_is_kept_and_patience_ends() -> None:
    """A rate that wrecks the network: later epochs are worse, and their weights are not kept."""
    snapshots: list[dict[str, Tensor]] = []

    def keep(run: Run) -> None:
        snapshots.append({k: v.clone() for k, v in run.network.state_dict().items()})

    run = trained(with_training(epochs=30, patience=2, settle=0.0, learning_rate=0.0), on_epoch=keep)
    assert run.epoch == 3  # nothing improves on the first
    run = trained(with_training(epochs=6, patience=6), on_epoch=keep)
    best = snapshots[3:][int(run.best_record["epoch"]) - 1]
    assert all(torch.equal(v, best[k]) for k, v in run.network.state_dict().items())
    assert run.best_record["hm"] == max(record["hm"] for record in run.history)


def test_minutes_end_a_run_after_the_epoch_that_passes_them() -> None:
    assert trained(with_training(epochs=50, minutes=1e-6)).epoch == 1


def test_the_learning_rate_rises_then_falls() -> None:
    settings = Training(learning_rate=1.0, warmup=10)
    rates = [learning_rate(settings, step, 200) for step in range(200)]
    assert rates[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    assert all(a > b for a, b in pairwise(rates[10:]))
    assert rates[10] == pytest.approx(1.0)
    assert rates[105] == pytest.approx(0.505, abs=0.01)
    assert rates[-1] == pytest.approx(0.01, abs=1e-3)
    short = [learning_rate(settings, step, 20) for step in range(20)]
    assert short[:3] == pytest.approx([0.5, 1.0, 1.0], abs=0.02)  # a tenth of all steps at the most
    assert learning_rate(Training(learning_rate=1.0, warmup=0), 0, 5) == 1.0


def test_the_rate_is_the_one_of_the_schedule() -> None:
    config = with_training(epochs=2)
    rates: list[float] = []
    run = fresh(config)
    trained(config, run, on_step=lambda step: rates.append(run.optimizers["network"].param_groups[0]["lr"]))
    assert rates == pytest.approx([learning_rate(config.training, i, len(rates)) for i in range(len(rates))])
    assert run.optimizers["baseline"].param_groups[0]["lr"] == config.training.baseline_rate


def test_waiting_costs_nothing_until_training_settles() -> None:
    settings = Training(delay_cost=2.0, settle=0.2)
    costs = [delay_cost_at(settings, done) for done in (0.1, 0.15, 0.2, 1.0)]
    assert costs == pytest.approx([0, settings.delay_cost / 2, settings.delay_cost, settings.delay_cost])
    assert delay_cost_at(settings, 0.0) is delay_cost_at(settings, 0.09) is None
    assert delay_cost_at(Training(delay_cost=2.0, settle=0.0), 0.0) == 2.0


# -- the parts of the loss ------------------------------------------------------------------------------------------


def test_delay_in_fractions_items_and_seconds() -> None:
    gaps = [0.0, 1.0, 2.0, 4.0, 0.5]
    arrivals = [Arrival(i % 2, 0, "in", 0.0, 0.0, gap, False) for i, gap in enumerate(gaps)]
    tangles = encode(frame_of(arrivals, arrivals[:1]))
    assert delay(tangles, Training()).tolist() == pytest.approx([1 / 3, 1 / 2, 2 / 3, 1, 1, 1])
    assert delay(tangles, Training(delay="items", delay_unit=4.0)).tolist() == [0.25, 0.25, 0.5, 0.5, 0.75, 0.25]
    assert delay(tangles, Training(delay="seconds", delay_unit=2.0)).tolist() == [0, 0, 1.5, 3, 3.75, 0]


def test_balanced_weights_let_every_class_count_the_same() -> None:
    labels = np.array([[0, 1], [0, 1], [0, -1], [1, 1], [-1, 0], [0, 1]], np.int32)
    tangles = replace(encode(frame_of([Arrival(0, 0, "in", 0.0, 0.0, 1.0, True)] * 6)), labels=labels)
    kinds, sides = class_weights(tangles, small_network())
    assert kinds.tolist()[:2] == pytest.approx([5 / (4 * 2), 5 / 2])  # class c never occurs
    assert sides.tolist() == pytest.approx([5 / 2, 5 / (4 * 2)])
    for column, weights in enumerate((kinds, sides)):
        known = labels[:, column][labels[:, column] >= 0]
        assert weights[torch.from_numpy(known).long()].mean() == pytest.approx(1)
        totals = [float(weights[c]) * (known == c).sum() for c in set(known.tolist())]
        assert totals == pytest.approx([totals[0]] * len(totals))


def test_balanced_weights_reach_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of which all are two make every cross entropy twice as large, and only where they are asked for."""
    monkeypatch.setattr(trainer, "class_weights", lambda tangles, network: [torch.full((2,), 2.0)])
    still = with_training(replace(TINY, encoder=replace(TINY.encoder, dropout=0.0)), epochs=1, learning_rate=0.0)
    plain, doubled = (trained(with_training(still, class_weights=chosen)).history[0] for chosen in ("none", "balanced"))
    for name in ("every", "classification"):
        assert doubled[name] == pytest.approx(2 * plain[name], rel=1e-5)
    assert doubled["lateness"] == pytest.approx(plain["lateness"], rel=1e-5)


def one_batch(
    run: Run, tangles: Tangles, rule: Rule, settings: Training, weights: list[Tensor] | None = None, seed: int = 3
) -> dict[str, float]:
    """Train on all tangles as one batch."""
    batch = Batch.of(tangles, np.arange(tangles.n_tangles))
    rng = np.random.default_rng(seed)
    return train_batch(run, batch, rule, settings, delay(tangles, settings), weights, rng, settings.delay_cost)


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


STILL = Training(clip=0.0, block=1000)
OBJECTIVES = [
    STILL,
    replace(STILL, policy_cost="error", delay="items"),
    replace(STILL, objective="paper", beta=0.1),
    replace(STILL, objective="paper", returns="final", policy_gradient="all", exploration=0.2),
]


@pytest.mark.parametrize("settings", OBJECTIVES, ids=["expected", "error", "paper", "paper-all"])
@pytest.mark.parametrize(
    "visibility", [Visibility(use_value_correlation=False), Visibility(window=1)], ids=["own", "itself"]
)
def test_blocks_pass_back_the_whole_gradient_where_nothing_crosses(settings: Training, visibility: Visibility) -> None:
    network, tangles, rule = small_network(), long_tangles(is_cut_at_six=True), make_rule(visibility)
    whole, terms = gradients_of(network, tangles, rule, settings)
    parts, terms_of_parts = gradients_of(network, tangles, rule, replace(settings, block=6))
    assert terms == pytest.approx(terms_of_parts, rel=1e-12)
    assert whole.keys() == parts.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-10, atol=1e-13, msg=name)


@pytest.mark.parametrize("settings", OBJECTIVES, ids=["expected", "error", "paper", "paper-all"])
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


def test_the_gradient_of_the_network_is_that_of_finite_differences() -> None:
    network, tangles, rule = small_network(), long_tangles(is_cut_at_six=False), make_rule(Visibility(window=5))
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
        return float(expected_total(expected_terms(outputs, labels, layout, late), 0.7, 0.2))

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
    found = []
    for alpha, beta in ((0.0, 0.0), (5.0, 3.0)):
        settings = replace(
            STILL, objective="paper", policy_gradient=policy_gradient, alpha=alpha, beta=beta, block=block
        )
        found.append(gradients_of(network, tangles, RULE, settings)[0])
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


# -- validation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_tuned", [True, False])
def test_validation_measures_the_decisions(is_tuned: bool) -> None:
    rng = np.random.default_rng(2)
    arrivals = [
        [Arrival(int(rng.integers(3)), int(rng.integers(5)), "in", 0.0, 0.5, 1.0, False) for _ in range(12)]
        for _ in range(6)
    ]
    tangles, network = encode(frame_of(*arrivals)), small_network()
    config = Config(deciding=Deciding(threshold=None if is_tuned else 0.55))
    record = validate(network, tangles, RULE, config)
    assert is_tuned or record["threshold"] == 0.55
    table = decision_table(tangles, VOCABULARY, score(network, tangles, RULE), record["threshold"])
    results = []
    for suffix in ("", ".side"):
        known = table.filter(pl.col(f"true_label{suffix}").is_not_null())
        right = float((known[f"label{suffix}"] == known[f"true_label{suffix}"]).mean())  # type: ignore[arg-type]
        early = float((known["n_observed"] / known["length"]).mean())  # type: ignore[arg-type]
        results.append((right, early, 2 * (1 - early) * right / (1 - early + right) if right or early < 1 else 0.0))
    means = np.mean(results, axis=0)
    assert [record[name] for name in ("accuracy", "earliness", "hm")] == pytest.approx(means.tolist())
    if is_tuned:
        fixed = validate(network, tangles, RULE, replace(config, deciding=Deciding(threshold=0.5)))
        first = traces(tangles, score(network, tangles, RULE))
        assert len(first.truth) == int((tangles.labels[:, 0] >= 0).sum())
        assert fixed["end_accuracy"] == record["end_accuracy"]


# -- long tangles ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_dense", [False, True])
def test_twenty_thousand_items_in_one_tangle_train_in_bounded_memory(is_dense: bool) -> None:
    if not (is_dense or sparse.is_built):
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
