"""Backward induction as a dial: λ turns a model that halts by it, and nothing else of the model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvec import KVEC
from kvec.decide.deployed import Deployed, load_deployed
from kvec.decide.dial import LEAST, MOST
from kvec.decide.held import Arrays, held_out
from kvec.decide.kernel import is_built
from kvec.decide.operating import Held, OperatingPoint
from kvec.decide.readiness import Readiness
from kvec.decide.ready import Ready
from kvec.decide.replaying import score_table
from kvec.decide.snapshot import read_state
from kvec.decide.stream import Stream, resume
from kvec.decide.triggers.waiting import Waiting
from kvec.estimator import load
from kvec.learn.retuning import retune
from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic
from kvec.words.errors import ModelError, SettingError

SMALL = {
    "schema": DEMO_SCHEMA, "width": 16, "heads": 2, "feed_forward": 16, "fusion": 16, "blocks": 1, "device": "cpu",
    "epochs": 3, "patience": 3, "objective": "expected", "visibility": "paper",
}  # fmt: skip


def held_of(model: KVEC) -> Arrays:
    tangles = model.tangles(demo_traffic(40, seed=7))
    return held_out(tangles, score_table(model.model_.network, tangles, model.model_.config))


def tuned_to(model: KVEC, trigger: str, **target: float) -> KVEC:
    found = KVEC(**SMALL)
    found.model_ = retune(model.model_, held_of(model), trigger, target)
    return found


@pytest.fixture(scope="module")
def plain() -> KVEC:
    return KVEC(**SMALL).fit(demo_traffic(60))


@pytest.fixture(scope="module")
def model(plain: KVEC) -> KVEC:
    """A network without knots that halts by induction."""
    return tuned_to(plain, "induction")


@pytest.fixture(scope="module")
def both() -> KVEC:
    """A network whose policy has knots."""
    return KVEC(**SMALL, knots=3).fit(demo_traffic(60))


@pytest.mark.parametrize("wanted", [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 0.9, 1.0])
def test_every_earliness_is_reached(model: KVEC, wanted: float) -> None:
    turned, held = model.at(earliness=wanted).model_, Held.of(model.model_.validation)
    assert float(held.earliness(held.stops(turned.operating_point))) == pytest.approx(wanted, abs=0.02)
    assert turned.delay_cost is not None and LEAST <= turned.delay_cost <= MOST


def test_dearer_waiting_halts_no_later(model: KVEC) -> None:
    held = Held.of(model.model_.validation)
    costs = np.geomspace(LEAST, MOST, 60)
    late = np.array([float(held.earliness(held.stops(OperatingPoint(0.5, float(cost))))) for cost in costs])
    assert np.diff(late).max() < 0.01 and late[0] - late[-1] > 0.3


def test_it_is_one_dial_for_tables_streams_folders_and_states(model: KVEC, tmp_path: Path) -> None:
    data, turned = demo_traffic(8, seed=11), model.at(delay_cost=0.3)
    assert turned.model_.operating_point == OperatingPoint(0.5, 0.3)
    turned.save(tmp_path / "turned")
    model.save(tmp_path / "model")
    expected = turned.decision_frame(data).select("id", "n_observed", "label").sort("id").rows()
    assert expected != model.at(delay_cost=5.0).decision_frame(data).select("id", "n_observed", "label").rows()
    again = load(tmp_path / "turned")
    assert again.decision_frame(data).select("id", "n_observed", "label").sort("id").rows() == expected
    items = list(turned.items(data))
    for way in (
        turned.deployed(), again.deployed(), load(tmp_path / "model", at={"delay_cost": 0.3}).deployed(),
        load_deployed(tmp_path / "turned"), load_deployed(tmp_path / "model", {"delay_cost": 0.3}),
    ):  # fmt: skip
        assert isinstance(way, Deployed) and way.hash == model.deployed().hash
        stream = Stream(way)
        found = [d for item in items[: len(items) // 2] for d in stream.feed(item)]
        stream.save(tmp_path / "state")
        stream = resume(tmp_path / "state")
        assert stream.model.operating_point == OperatingPoint(0.5, 0.3)
        found += [d for item in items[len(items) // 2 :] for d in stream.feed(item)] + stream.close()
        assert sorted((d.id, d.n_observed, d.label) for d in found) == expected


def test_streams_and_tables_tell_the_same_scores(model: KVEC) -> None:
    turned, data = model.at(delay_cost=0.3), demo_traffic(5, seed=12)
    tangles = turned.tangles(data)
    scores = turned.scores(tangles)
    for use_c in {is_built, False}:
        deployed = turned.deployed()
        deployed.__dict__["ready"] = Ready(deployed.readiness, len(deployed.vocabulary.labels[0]), 0.3, use_c)
        stream, heard = Stream(deployed), {}
        for item in turned.items(data):
            stream.feed(item)
            status = stream.status(item.tangle, item.key)
            heard.setdefault((status.tangle, status.key), []).append(status.halt_probability)
        expected = {}
        for (tangle, key), halts in heard.items():
            explained = turned.explain(data, key, tangle)
            expected[tangle, key] = [step.halt_score for step in explained.steps]
            assert halts == pytest.approx(expected[tangle, key], abs=1e-4)
        assert sum(map(len, heard.values())) == len(scores.halt)


def test_formats_are_as_old_as_can_be(plain: KVEC, model: KVEC, both: KVEC, tmp_path: Path) -> None:
    formats = {}
    for name, one in {
        "plain": plain, "induction": model, "knots": both, "calibrated": tuned_to(plain, "calibrated"),
        "both": tuned_to(both, "induction"), "typed": KVEC(**{**SMALL, "epochs": 1, "visibility": "typed"}).fit(
            demo_traffic(40)
        ),
    }.items():  # fmt: skip
        one.save(tmp_path / name)
        Stream(one).save(tmp_path / "state")
        formats[name] = json.loads((tmp_path / name / "kvec.json").read_text())["format"]
        assert read_state(tmp_path / "state")[0]["format"] == formats[name]
    assert formats == {"plain": 1, "induction": 3, "knots": 1, "calibrated": 1, "both": 3, "typed": 2}


def test_what_an_older_version_kept_of_induction_is_refused(plain: KVEC, tmp_path: Path) -> None:
    plain.save(tmp_path / "old")
    card = json.loads((tmp_path / "old" / "kvec.json").read_text())
    card["readiness"] |= {"trigger": "induction", "gains": {"1": [0.5] * 13, "2": [0.5] * 13}}
    (tmp_path / "old" / "kvec.json").write_text(json.dumps(card))
    for read in (load, load_deployed):
        with pytest.raises(ModelError, match=r"as an older kvec kept it, .*; run kvec tune again on the model that it"):
            read(tmp_path / "old")


@pytest.mark.parametrize("use_c", [True, False])
def test_what_does_not_fit_the_classes_is_refused(model: KVEC, use_c: bool) -> None:
    """Before any loop in C can read beyond its end."""
    readiness = model.model_.readiness
    n_classes, waiting = len(model.classes_), readiness.waiting
    assert waiting is not None and readiness.temperatures
    with pytest.raises(ModelError, match="does not have the sizes that the model's classes give it"):
        Ready(readiness, n_classes + 1, 0.5, use_c)
    narrow = (replace(readiness.temperatures[0], sharpness=np.ones((3, 1))),)
    with pytest.raises(ModelError, match="does not have the sizes"):
        Ready(Readiness(narrow, "calibrated"), n_classes, None, use_c)
    arrays = waiting.to_arrays()
    for name, wrong in (("steps", waiting.steps[1:]), ("steps", waiting.steps - 1), ("weights", waiting.weights[0])):
        with pytest.raises(ValueError, match="arrays of the wrong shape"):
            Waiting.from_arrays({**arrays, f"waiting.{name}": wrong})


def test_two_dials_in_one_model_are_not_mixed_up(both: KVEC, tmp_path: Path) -> None:
    policy = both.model_.network.dial.clone()
    tuned = tuned_to(both, "induction", delay_cost=0.1)
    assert tuned.model_.operating_point == OperatingPoint(0.5, 0.1)
    assert tuned.model_.validation["knots"].shape[1] == 17, "those of induction"
    turned = tuned.at(delay_cost=30.0)
    turned.save(tmp_path / "turned")
    for one in (tuned, turned, load(tmp_path / "turned")):
        assert one.model_.network.dial.equal(policy), "the policy's stays"
        assert np.array_equal(one.deployed().weights["dial"], policy.numpy())
    for one in (
        load_deployed(tmp_path / "turned"),
        turned.deployed(),
        tuned.deployed().turned(OperatingPoint(0.5, 30)),
    ):
        assert np.array_equal(one.weights["dial"], policy.numpy()) and one.hash == tuned.deployed().hash
    assert tuned_to(turned, "induction", threshold=0.4).model_.operating_point == OperatingPoint(0.4, 30.0)

    back, direct = tuned_to(turned, "hazard", delay_cost=2.0), tuned_to(both, "hazard", delay_cost=2.0)
    assert back.deployed().hash == direct.deployed().hash
    data = demo_traffic(6, seed=5)
    assert back.decision_frame(data).equals(direct.decision_frame(data))
    assert tuned_to(turned, "hazard", threshold=0.3).model_.delay_cost == tuned_to(back, "hazard").model_.delay_cost


def test_a_model_with_one_delay_cost_says_how_it_can_have_more(plain: KVEC) -> None:
    for one in (plain, tuned_to(plain, "calibrated")):
        with pytest.raises(SettingError, match=r"or costs, or fit what takes one with kvec tune --trigger induction$"):
            one.at(delay_cost=1.0)
