"""What a dial can be aimed at, and what it says of anything else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from kvec.decide.operating import NEVER, Held, OperatingPoint
from kvec.decide.targets import require_target, with_classes
from kvec.words.errors import SettingError

CLASSES = ["scan", "web"]


def held(halt: list[list[float]], **changes: Any) -> Held:
    """Sequences of these halting scores; all are decided for class 0, which every second one is of."""
    lengths = np.array([len(each) for each in halt])
    given: dict[str, Any] = {
        "offsets": np.concatenate([[0], np.cumsum(lengths)]), "halt": np.concatenate(halt), "knots": None,
        "predicted": np.zeros(lengths.sum(), np.int64), "truth": np.arange(len(halt)) % 2, "elapsed": None,
    }  # fmt: skip
    return Held(**given | changes)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"earliness": "0.1"}, "earliness is '0.1'; write a number"),
        ({"accuracy": None}, "accuracy is None; write a number"),
        ({"earliness": True}, "earliness is True; write a number"),
        ({"cost_per_item": float("inf")}, "cost_per_item is inf; write a number"),
        ({"cost_per_error": 1, "cost_per_item": float("nan")}, "cost_per_item is nan; write a number"),
        ({"delay_cost": float("inf")}, "delay_cost is inf; write a number between 0.02 and 50"),
        ({"threshold": float("nan")}, "threshold is nan; write a number"),
        ({"cost_per_error": 1.0, "cost_per_item": -1}, "costs must be numbers from 0 on"),
        ({"cost_per_error": np.zeros((2, 2))}, "one of them above 0"),
        ({"cost_per_error": np.array([[0, -1], [1, 0]])}, "costs must be numbers from 0 on"),
        ({"cost_per_error": 1.0, "threshold": 0.5}, "one target at a time, or costs together"),
        ({"earliness": 0.0}, "it must lie above 0 and be at most 1"),
    ],
)
def test_what_is_no_target(target: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        require_target(target)


@pytest.mark.parametrize(
    ("costs", "says"),
    [
        ([[0, 1], [1, 0]], "cost_per_error is a list; give a number, or {true class"),
        (np.eye(3), r"array of shape \(3, 3\); a row of numbers for each of the 2 true classes is needed"),
        (np.array([[0, np.inf], [1, 0]]), "a row of numbers for each of the 2 true classes"),
        ("dear", "cost_per_error is a str; give a number"),
        ({"web": {"scan": "x"}}, r"cost_per_error\['web'\]\['scan'\] is 'x'; write a number"),
        ({"web": {"mail": 1}}, "unknown class 'mail' in cost_per_error; known: scan, web"),
    ],
)
def test_what_is_no_cost_by_class(costs: Any, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        with_classes({"cost_per_error": costs}, CLASSES)


def test_costs_by_class_may_be_whole_numbers_of_any_kind() -> None:
    target = with_classes({"cost_per_error": {"web": {"scan": np.int64(3)}}, "cost_per_item": 1}, CLASSES)
    require_target(target)
    assert with_classes(target, CLASSES)["cost_per_error"].tolist() == target["cost_per_error"].tolist(), "again"
    assert target["cost_per_error"].tolist() == [[0, 0], [3, 0]]
    seen = held([[0.1, 0.9], [0.2, 0.8]])
    assert float(seen.cost(np.array([2, 1]), target)) == pytest.approx(3 / 2 + 3 / 2), "web for scan, and the items"
    for costs in (target, {"cost_per_error": 0.7, "cost_per_item": 1}):
        each = seen.cost(np.array([2, 1]), costs, each=True)
        assert each.shape == (2,) and each.mean() == pytest.approx(float(seen.cost(np.array([2, 1]), costs)))


def test_delay_is_counted_in_items_or_in_seconds() -> None:
    seen = held([[0.1, 0.5, 0.9], [0.2, 0.8]], elapsed=np.array([0.0, 4.0, 10.0, 0.0, 6.0]))
    assert float(seen.cost(np.array([3, 1]), {"cost_per_item": 2.0})) == pytest.approx(4.0)
    assert float(seen.cost(np.array([3, 1]), {"cost_per_second": 2.0})) == pytest.approx(10.0)
    assert seen.cost(np.array([3, 1]), {"cost_per_second": 2.0}, each=True).tolist() == [20.0, 0.0]
    longer = held([[0.1, 0.5, 0.9, 0.0], [0.2, 0.8, 0.0]], elapsed=np.array([0.0, 4, 10, 99, 0, 6, 99]))
    for costs in ({"cost_per_item": 2.0}, {"cost_per_second": 2.0}):
        assert float(seen.cost(np.array([2, 1]), costs)) == float(longer.cost(np.array([2, 1]), costs)), (
            "what comes after a decision does not count"
        )
    with pytest.raises(SettingError, match="use cost_per_item"):
        held([[0.5]]).cost(np.array([1]), {"cost_per_second": 1.0})


def test_an_earliness_between_two_points_is_told() -> None:
    seen = held([[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]] * 4)
    with pytest.raises(SettingError, match=r"cannot be reached: on validation the nearest are 0\.200 and 1\.000"):
        seen.choose({"earliness": 0.5}, OperatingPoint(0.5))
    assert seen.choose({"earliness": 0.21}, OperatingPoint(0.5)).threshold <= 1
    assert seen.choose({"earliness": 1.0}, OperatingPoint(0.5)) == OperatingPoint(NEVER)


def test_scores_of_one_are_told_from_the_end_of_the_sequence() -> None:
    seen = held([[1.0, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])
    points = seen.grid()
    assert points[0] == OperatingPoint(NEVER) and seen.stops(points[0]).tolist() == [4, 4]
    late = [float(seen.earliness(seen.stops(point))) for point in points]
    assert late == sorted(late, reverse=True) and late[-1] == 0.25
    assert OperatingPoint.from_dict(points[1].to_dict()) == points[1]
    assert str(OperatingPoint(0.5, 2.0)) == "θ = 0.5, λ = 2"


def test_a_grid_goes_from_low_to_high_delay_costs() -> None:
    rng = np.random.default_rng(0)
    slope = np.linspace(-6, 6, 5)  # the dearer waiting, the sooner it halts
    knots = (slope + np.tile(np.linspace(-3, 3, 20), 50)[:, None] + rng.normal(size=(1000, 1))).astype(np.float32)
    seen = held([[0.0] * 20] * 50, knots=knots)
    points = seen.grid()
    costs = [point.delay_cost for point in points]
    late = [float(seen.earliness(seen.stops(point))) for point in points]
    assert costs == sorted(costs) and all(a > b for a, b in pairwise(late))
    assert late[0] == 1 and late[-1] == pytest.approx(0.05) and max(np.diff(late[::-1])) < 0.03
