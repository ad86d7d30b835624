"""The training loop: able to learn, repeatable, resumable, and true to its schedule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.learn.made import OBJECTIVES, RULE, TELLING, TINY, fresh, trained, with_training
from tests.properties.strategies import VOCABULARY, Arrival, encode, frame_of, small_network
from torch import Tensor

from kvec.decide.halting import decision_table
from kvec.decide.scoring import score
from kvec.learn import supply, trainer
from kvec.learn.run import Run, best_of, patient_from, restore_run, run_state
from kvec.learn.supply import class_weights, count_classes, delay
from kvec.learn.trainer import Step, delay_cost_at, learning_rate
from kvec.learn.validating import traces, validate
from kvec.tangle.batch import plan_batches
from kvec.words.config import Deciding, Training


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


@pytest.mark.parametrize("objective", ["every", "expected"])
def test_history_has_every_term_and_measure(objective: str) -> None:
    run = trained(with_training(epochs=2, **OBJECTIVES[objective]))
    assert [record["epoch"] for record in run.history] == [1, 2]
    for record in run.history:
        assert set(record) == {
            "epoch", "loss", "classification", "policy", "lateness", "every", "baseline", "rate", "threshold",
            "accuracy", "earliness", "hm", "end_accuracy", "word_earliness", "word_hm", "seconds",
            *(["unseen"] if objective == "every" else []),
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


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_same_seed_same_result(objective: str) -> None:
    config = with_training(FULL, epochs=2, **OBJECTIVES[objective])
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

    monkeypatch.setattr(supply, "plan_batches", noted)
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


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_killed_run_ends_where_the_unbroken_one_ends(objective: str) -> None:
    config = with_training(FULL, epochs=3, **OBJECTIVES[objective])
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


def test_where_only_the_classifier_learns_the_epoch_of_least_loss_is_kept() -> None:
    run = trained(with_training(epochs=30, patience=2, learning_rate=0.0, **TELLING))
    assert run.epoch == 3, "patience does not wait for λ, which is not there"
    records = [{"epoch": i, "hm": hm, "accuracy": hm} for i, hm in enumerate((0.9, 0.2, 0.5))]
    assert best_of(records)["epoch"] == 0
    assert best_of([r | {"unseen": loss} for r, loss in zip(records, (3.0, 1.0, 1.0), strict=True)])["epoch"] == 2
    settings = Training(settle=0.3, epochs=10)
    assert patient_from(settings) == 0 and patient_from(replace(settings, objective="expected")) == 3


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
    kinds, sides = class_weights(count_classes(tangles, small_network().n_classes), small_network())
    assert kinds.tolist()[:2] == pytest.approx([5 / (4 * 2), 5 / 2])  # class c never occurs
    assert sides.tolist() == pytest.approx([5 / 2, 5 / (4 * 2)])
    for column, weights in enumerate((kinds, sides)):
        known = labels[:, column][labels[:, column] >= 0]
        assert weights[torch.from_numpy(known).long()].mean() == pytest.approx(1)
        totals = [float(weights[c]) * (known == c).sum() for c in set(known.tolist())]
        assert totals == pytest.approx([totals[0]] * len(totals))


def test_balanced_weights_reach_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of which all are two make every cross entropy twice as large, and only where they are asked for."""
    monkeypatch.setattr(trainer, "class_weights", lambda counts, network: [torch.full((2,), 2.0)])
    still = with_training(replace(TINY, encoder=replace(TINY.encoder, dropout=0.0)), epochs=1, learning_rate=0.0)
    plain, doubled = (trained(with_training(still, class_weights=chosen)).history[0] for chosen in ("none", "balanced"))
    for name in ("every", "classification"):
        assert doubled[name] == pytest.approx(2 * plain[name], rel=1e-5)
    assert doubled["lateness"] == pytest.approx(plain["lateness"], rel=1e-5)


# -- validation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_tuned", [True, False])
def test_validation_measures_the_decisions(is_tuned: bool) -> None:
    rng = np.random.default_rng(2)
    arrivals = [
        [Arrival(int(rng.integers(3)), int(rng.integers(5)), "in", 0.0, 0.5, 1.0, False) for _ in range(12)]
        for _ in range(6)
    ]
    tangles, network = encode(frame_of(*arrivals)), small_network()
    config = replace(TINY, deciding=Deciding(threshold=None if is_tuned else 0.55))
    record = validate(network, tangles, config)
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
        fixed = validate(network, tangles, replace(config, deciding=Deciding(threshold=0.5)))
        first = traces(tangles, score(network, tangles, RULE))
        assert len(first.truth) == int((tangles.labels[:, 0] >= 0).sum())
        assert fixed["end_accuracy"] == record["end_accuracy"]
