from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kvec import KVEC
from kvec.decide.deployed import Deployed, load_deployed
from kvec.decide.dial import LEAST, MOST, draw_costs, mixture
from kvec.decide.operating import NEVER, Held, OperatingPoint
from kvec.decide.stream import Stream
from kvec.estimator import load
from kvec.read.rows import read_table
from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic
from kvec.tangle.tangling import Split
from kvec.words.errors import SettingError

SMALL = {
    "schema": DEMO_SCHEMA, "width": 16, "heads": 2, "feed_forward": 16, "fusion": 16, "blocks": 1, "device": "cpu",
    "epochs": 3, "patience": 3, "objective": "expected", "knots": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def model() -> KVEC:
    return KVEC(**SMALL).fit(demo_traffic(60))


@pytest.fixture(scope="module")
def held(model: KVEC) -> Held:
    return Held.of(model.model_.validation)


def test_between_two_knots_the_heads_are_mixed() -> None:
    costs = np.geomspace(LEAST, MOST, 4)
    np.testing.assert_allclose(mixture(costs, 4), np.eye(4), atol=1e-9)
    middle = np.sqrt(costs[1] * costs[2])
    np.testing.assert_allclose(mixture(middle, 4), [[0, 0.5, 0.5, 0]], atol=1e-9)
    many = mixture(draw_costs(np.random.default_rng(0), 200), 7)
    np.testing.assert_allclose(many.sum(axis=1), 1)
    assert ((many > 0).sum(axis=1) <= 2).all()
    assert mixture([0.1, 3.0], 1).tolist() == [[1.0], [1.0]]


def test_costs_are_drawn_evenly_on_the_log_scale() -> None:
    drawn = np.log(draw_costs(np.random.default_rng(0), 4000))
    counts, _ = np.histogram(drawn, np.linspace(np.log(LEAST), np.log(MOST), 5))
    assert counts.sum() == 4000 and (abs(counts - 1000) < 120).all()


def test_scores_at_a_cost_are_those_of_the_network(model: KVEC, held: Held) -> None:
    data = demo_traffic(60)
    for cost in (LEAST, 0.7, 9.0):
        turned = model.at(delay_cost=cost)
        assert turned.model_.delay_cost == cost and turned.model_.threshold == 0.5
        point = OperatingPoint(0.5, cost)
        split = model.model_.split
        assert split is not None
        table = read_table(data, DEMO_SCHEMA)
        part = replace(table, frame=Split.from_dict(split).part(table.frame, "validation"))
        decided = turned.decision_frame(part)
        np.testing.assert_array_equal(decided["n_observed"].to_numpy(), held.stops(point))
    assert model.model_.delay_cost == 3.5, "the model itself is not turned"


def test_the_path_runs_from_the_end_to_the_first_item(held: Held) -> None:
    late = held.earliness(held.along)
    assert held.path[0] == OperatingPoint(NEVER, LEAST) and late[0] == 1
    assert late[-1] == pytest.approx(np.mean(1 / held.length))
    costs = [point.delay_cost for point in held.path]
    thetas = [point.threshold for point in held.path]
    assert costs == sorted(costs) and all(
        a >= b or c != d for a, b, c, d in zip(thetas, thetas[1:], costs, costs[1:], strict=False)
    )


@pytest.mark.parametrize("wanted", [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 0.9, 1.0])
def test_every_earliness_is_reached(held: Held, wanted: float) -> None:
    point = held.choose({"earliness": wanted}, OperatingPoint(0.5, 3.5))
    assert float(held.earliness(held.stops(point))) == pytest.approx(wanted, abs=0.02)


def test_an_accuracy_is_reached_as_early_as_can_be(held: Held) -> None:
    right, late = held.accuracy(held.along), held.earliness(held.along)
    wanted = float(np.quantile(right, 0.7))
    stops = held.stops(held.choose({"accuracy": wanted}, OperatingPoint(0.5)))
    assert float(held.accuracy(stops)) >= wanted
    assert float(held.earliness(stops)) == late[right >= wanted].min()


def test_costs_choose_the_cheapest_point(held: Held) -> None:
    costs = {"cost_per_error": 1.0, "cost_per_item": 0.02, "cost_per_second": 0.1}
    stops = held.stops(held.choose(costs, OperatingPoint(0.5)))

    def cost(stops: np.ndarray) -> float:
        total = 0.0
        for s, n in enumerate(stops):
            at = held.offsets[s] + n - 1
            total += (held.predicted[at] != held.truth[s]) + 0.02 * n + 0.1 * held.elapsed[at]
        return total / len(stops)

    assert cost(stops) == pytest.approx(min(cost(row) for row in held.along))
    hurried = held.choose({"cost_per_error": 1.0, "cost_per_item": 10.0}, OperatingPoint(0.5))
    assert (held.stops(hurried) == 1).all()


def test_errors_may_cost_by_class(model: KVEC, held: Held) -> None:
    classes = model.model_.vocabulary.labels[0]
    dear = {
        true: {decided: 50.0 if true == "scan" else 0.001 for decided in classes if decided != true} for true in classes
    }
    plain = model.at(cost_per_error=1.0, cost_per_item=0.02).model_
    turned = model.at(cost_per_error=dear, cost_per_item=0.02).model_
    missed = []
    for chosen in (plain, turned):
        stops = held.stops(OperatingPoint(chosen.threshold, chosen.delay_cost))
        is_scan = held.truth == classes.index("scan")
        decided = held.predicted[held.offsets[:-1] + stops - 1]
        missed.append(float((decided != held.truth)[is_scan].mean()))
    assert missed[1] <= missed[0]
    with pytest.raises(SettingError, match="unknown class 'mail' in cost_per_error"):
        model.at(cost_per_error={"mail": {"web": 1.0}})
    with pytest.raises(SettingError, match=r"give a number, or \{true class: \{decided class: cost\}\}"):
        model.at(cost_per_error={"web": 1.0})


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"cost_per_error": 1.0}, "waiting costs nothing here"),
        ({"cost_per_error": {"scan": {"web": 1.0}}, "cost_per_item": 0}, "waiting costs nothing here"),
        ({"cost_per_item": 0.01}, "errors cost nothing here"),
        ({"cost_per_error": {}, "cost_per_item": 0.01}, "errors cost nothing here"),
        ({"cost_per_error": {"scan": {}}, "cost_per_second": 0.01}, "errors cost nothing here"),
        ({"cost_per_error": {"scan": {"web": 0}}, "cost_per_item": 0.01}, "errors cost nothing here"),
    ],
)
def test_costs_that_leave_something_out_are_warned_of(model: KVEC, tmp_path: Path, target: Any, says: str) -> None:
    with pytest.warns(UserWarning, match=says) as told:
        model.at(**target)
    assert [one.filename for one in told] == [__file__]
    model.save(tmp_path / "model")
    with pytest.warns(UserWarning, match=says) as told:
        load(tmp_path / "model", at=target)
    assert [one.filename for one in told] == [__file__]


def test_a_target_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"at is 'threshold=.3'; give targets by name, as in {'threshold': 0.3}"):
        load(tmp_path, at="threshold=.3")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({}, "say what to aim at"),
        ({"speed": 1.0}, "unknown target 'speed'; known: earliness"),
        ({"earliness": 0.001}, "cannot be reached: on validation it lies between"),
        ({"earliness": 1.5}, "must lie above 0"),
        ({"accuracy": 1.0}, "accuracy 1 cannot be reached: on validation the best is"),
        ({"accuracy": 0.9, "earliness": 0.1}, "one target at a time"),
        ({"threshold": 1.2}, "between 0 and 1"),
        ({"delay_cost": 1000.0}, "between 0.02 and 50"),
        ({"cost_per_error": -1.0}, "costs must be numbers from 0 on"),
        ({"cost_per_error": 0.0}, "one of them above 0"),
    ],
)
def test_targets_that_cannot_be_met_say_what_can(held: Held, target: dict[str, float], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        held.choose(target, OperatingPoint(0.5, 3.5))


def test_streams_are_turned_as_tables_are(model: KVEC, tmp_path) -> None:
    turned = model.at(delay_cost=0.3)
    turned.save(tmp_path / "turned")
    model.save(tmp_path / "model")
    data = demo_traffic(6, seed=5)
    expected = turned.decision_frame(data).select("id", "n_observed", "label").sort("id").rows()
    for way in (
        turned.deployed(), load(tmp_path / "turned").deployed(),
        load(tmp_path / "model", at={"delay_cost": 0.3}).deployed(),
        load_deployed(tmp_path / "turned"), load_deployed(tmp_path / "model", {"delay_cost": 0.3}),
    ):  # fmt: skip
        assert isinstance(way, Deployed)
        stream = Stream(way)
        found = [d for item in turned.items(data) for d in stream.feed(item)] + stream.close()
        assert sorted((d.id, d.n_observed, d.label) for d in found) == expected
    assert {row[1] for row in expected} != set(model.decision_frame(data)["n_observed"])


def test_a_model_without_knots_has_its_threshold_as_dial() -> None:
    model = KVEC(**{**SMALL, "knots": 1, "epochs": 1}).fit(demo_traffic(40))
    held = Held.of(model.model_.validation)
    late = held.earliness(held.along)
    assert late[0] == 1 and late[-1] == pytest.approx(np.mean(1 / held.length))
    assert model.at(threshold=0.0).evaluate(demo_traffic(5)).mean_n_observed == 1
    with pytest.raises(SettingError, match="takes no delay cost"):
        model.at(delay_cost=1.0)


def test_models_that_drop_items_cannot_be_turned() -> None:
    model = KVEC(**{**SMALL, "knots": 1, "epochs": 1, "after_halt": "drop"}).fit(demo_traffic(40))
    with pytest.raises(SettingError, match="drops items after a halt"):
        model.at(earliness=0.5)


def test_training_draws_a_cost_for_each_tangle_and_trains_the_heads_beside_it() -> None:
    model = KVEC(**{**SMALL, "epochs": 1}).fit(demo_traffic(40))
    weights = model.model_.network.policy.weight
    assert weights.shape == (5, 16)
    assert (weights.std(dim=1) > 0).all() and not torch.allclose(weights[0], weights[-1])
