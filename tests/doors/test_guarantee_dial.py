"""A model that turns by its delay cost: its promise is about λ and θ both, and tuned data can promise nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.doors.made import FLAGS, TINY

from kvec.decide.deployed import load_deployed
from kvec.decide.halting import first_halts
from kvec.decide.operating import Held, OperatingPoint
from kvec.decide.stream import Stream, resume
from kvec.doors.cli import run
from kvec.doors.promises import promise_lines
from kvec.estimator import load
from kvec.read.synthetic import demo_traffic

Refused = Callable[..., str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with items.parquet, other.parquet, unseen.parquet and a model with knots, trained on the first."""
    folder = tmp_path_factory.mktemp("dialled")
    for name, seed, n in (("items", 5, 40), ("other", 6, 30), ("unseen", 7, 80)):
        demo_traffic(n, seed=seed, keys=4).sort("time", maintain_order=True).write_parquet(folder / f"{name}.parquet")
    lively = (
        "--objective",
        "expected",
        "--set",
        "encoder.knots=5",
        "--set",
        "training.learning_rate=0.02",
        "--seed",
        "1",
        "--epochs",
        "4",
    )
    train = ["train", str(folder / "items.parquet"), *FLAGS, *TINY[:-2], *lively]
    assert run([*train, "-o", str(folder / "model"), "--quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def promised(place: Path) -> Path:
    model = Path(shutil.copytree(place / "model", place / "promised"))
    assert run(["guarantee", str(model), str(place / "unseen.parquet"), "--max-early-error", "0.25"]) == 0
    return model


def test_the_points_are_delay_costs_in_order(place: Path) -> None:
    held = Held.of(load(place / "model").model_.validation)
    points = held.grid()
    late = [float(held.earliness(held.stops(point))) for point in points]
    assert late[0] == 1 and late[-1] == pytest.approx(float(np.mean(1 / held.length)))
    assert all(a > b for a, b in pairwise(late)), "from the latest to the earliest"
    costs = [point.delay_cost for point in points]
    assert None not in costs and costs == sorted(costs)
    assert len(set(costs)) > 5, "between the ends it is λ that turns"
    assert {point.threshold for point in points if 0.02 < point.delay_cost < 50} == {0.5}


def test_scores_turned_are_those_of_the_network(place: Path) -> None:
    model = load(place / "model")
    tangles = model.tangles(place / "unseen.parquet")
    scores = model.scores(tangles)
    for cost in (0.02, 0.3, 3.5, 50.0):
        turned = model.at(delay_cost=cost)
        np.testing.assert_allclose(turned.scores(tangles).halt, scores.turned(cost).halt, atol=1e-6)
    assert scores.turned(None) is scores


def test_the_promise_names_the_delay_cost(place: Path, promised: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployed = load_deployed(promised)
    promise = deployed.promised
    assert promise is not None and set(promise.operating_point) == {"threshold", "delay_cost"}
    assert 0.02 < promise.operating_point["delay_cost"] < 50 and promise.operating_point["threshold"] == 0.5
    assert deployed.operating_point.to_dict() == promise.operating_point
    card = json.loads((promised / "kvec.json").read_text())
    assert card["operating_point"] == promise.operating_point

    model = load(promised)
    tangles = model.tangles(place / "unseen.parquet")
    scores = model.scores(tangles)
    halts = first_halts(scores, model.model_.threshold)
    stops = np.where(halts > 0, halts, tangles.sequences.length)
    decided = scores.classes[0].argmax(axis=1)
    truth = tangles.labels[:, 0]
    is_lost = (stops < tangles.sequences.length) & (decided[scores.offsets[:-1] + stops - 1] != truth)
    is_lost &= decided[scores.offsets[1:] - 1] == truth
    assert is_lost.mean() == pytest.approx(promise.observed), "the network of the folder halts as it was calibrated"
    assert np.mean(stops / tangles.sequences.length) == pytest.approx(promise.earliness)

    assert run(["decide", str(promised), str(place / "other.parquet")]) == 0
    assert "kvec: promised: at most 25%" in capsys.readouterr().err


def test_it_holds_at_that_very_point_alone(place: Path, promised: Path, tmp_path: Path) -> None:
    model = load_deployed(promised)
    assert Stream(model).promised is not None
    cost, theta = model.operating_point.delay_cost, model.threshold
    assert cost is not None
    for moved in (OperatingPoint(theta, cost * 1.01), OperatingPoint(theta / 2, cost), OperatingPoint(theta)):
        assert model.turned(moved).promised is None, moved
        assert Stream(model.turned(moved)).promised is None
        assert (model.turned(moved).hash == model.hash) == (moved.delay_cost is not None), "where it stands is no part"
    assert model.turned(OperatingPoint(0.1, 1.0)).turned(model.operating_point).promised is not None, "there and back"
    assert Stream(model, threshold=0.4).promised is None
    (void,) = promise_lines(load_deployed(promised, {"delay_cost": 0.5}))
    assert f"was made for θ = 0.5, λ = {cost:.5g}" in void
    assert load(promised).at(delay_cost=cost).deployed().promised is not None
    assert load(promised).at(delay_cost=1.0).deployed().promised is None

    card = promised / "kvec.json"
    edited = Path(shutil.copytree(promised, tmp_path / "edited"))
    plain = json.loads(card.read_text())
    plain["operating_point"]["delay_cost"] = cost * 2
    (edited / "kvec.json").write_text(json.dumps(plain))
    assert load_deployed(edited).promised is None
    expected = model.turned(OperatingPoint(theta, cost * 2))
    np.testing.assert_array_equal(load_deployed(edited).weights["dial"], expected.weights["dial"])
    np.testing.assert_array_equal(load(edited).model_.network.dial.numpy(), expected.weights["dial"])

    load(promised).save(tmp_path / "again")
    assert load_deployed(tmp_path / "again").promised is not None
    stream = Stream(model)
    stream.save(tmp_path / "state")
    assert resume(tmp_path / "state").promised is not None


def test_a_stream_watches_it_and_keeps_its_point(
    place: Path, promised: Path, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    items = tmp_path / "items.ndjson"
    demo_traffic(30, seed=8, keys=4).sort("time", maintain_order=True).write_ndjson(items)
    given = [str(promised), str(items), "-o", str(tmp_path / "decisions.ndjson")]
    assert run(["stream", *given, "--state", str(tmp_path / "state")]) == 0
    assert "nothing speaks against the promise so far: 120 decisions in 30 whole units" in capsys.readouterr().err
    line = refused("stream", *given, "--state", tmp_path / "state", "--at", "delay_cost=0.4")
    assert "stands at θ = 0.5, λ = 0.4 now, but at θ = 0.5, λ = " in line and "give the same --at" in line
    assert run(["stream", *given, "--at", "delay_cost=0.4"]) == 0
    err = capsys.readouterr().err
    assert "is void" in err and "speaks against" not in err


def test_a_model_that_halts_by_induction_promises_a_delay_cost(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = str(tmp_path / "tuned")
    assert run(["tune", str(place / "model"), str(place / "other.parquet"), "--trigger", "induction", "-o", tuned]) == 0
    held = Held.of(load(tuned).model_.validation)
    costs = [point.delay_cost for point in held.grid()]
    assert None not in costs and costs == sorted(costs) and len(set(costs)) > 5
    assert run(["guarantee", tuned, str(place / "unseen.parquet"), "--max-early-error", "0.25"]) == 0
    deployed = load_deployed(tuned)
    promise = deployed.promised
    assert promise is not None and deployed.operating_point.to_dict() == promise.operating_point
    cost = promise.operating_point["delay_cost"]
    assert f"λ = {cost:.5g}" in capsys.readouterr().out
    decided = load(tuned).decision_frame(place / "unseen.parquet")
    assert (decided["n_observed"] / decided["length"]).mean() == pytest.approx(promise.earliness), "as calibrated"
    assert deployed.turned(OperatingPoint(deployed.threshold, cost * 1.01)).promised is None
    assert deployed.turned(OperatingPoint(deployed.threshold, cost * 1.01)).hash == deployed.hash
    assert Stream(deployed).promised is not None


def test_what_was_tuned_on_can_promise_nothing(
    place: Path, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tuned, other = str(place / "model"), str(tmp_path / "tuned"), str(place / "other.parquet")
    wish = ("--max-early-error", "0.3")
    untouched = Path(shutil.copytree(model, tmp_path / "untouched"))
    assert run(["guarantee", str(untouched), other, *wish]) == 0, "before it is tuned on, it is unseen"
    assert run(["tune", model, other, "--trigger", "calibrated", "-o", tuned]) == 0
    line = refused("guarantee", tuned, other, *wish)
    assert "120 sequences" in line and "were used in training, validation or tuning" in line
    assert line.endswith("; leave them out"), "it is not the file of the split"
    line = refused("guarantee", tuned, place / "items.parquet", *wish)
    assert "were used in training" in line and line.endswith("--split test")
    twice, third = str(tmp_path / "twice"), str(tmp_path / "third.parquet")
    demo_traffic(30, seed=8, keys=4).write_parquet(third)
    assert run(["tune", tuned, third, "--trigger", "hazard", "-o", twice]) == 0
    assert "were used" in refused("guarantee", twice, other, *wish), "tuned again, it still knows"
    assert "were used" in refused("guarantee", twice, third, *wish)
    capsys.readouterr()
    assert run(["guarantee", tuned, str(place / "unseen.parquet"), *wish, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["operating_point"]) == {"threshold"}, "a trigger that takes no delay cost turns by θ"
    assert load_deployed(tuned).promised is not None
    before, after = load(model).model_, load(tuned).model_
    assert np.array_equal(before.seen, after.seen) and len(after.tuned) == 120  # type: ignore[arg-type]
