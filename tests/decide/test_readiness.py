import json
from time import process_time

import numpy as np
import pytest

from kvec import KVEC
from kvec.decide.held import held_out, prefixes_of
from kvec.decide.kernel import is_built
from kvec.decide.readiness import TRIGGERS, Readiness
from kvec.decide.ready import Ready
from kvec.decide.replaying import score_table
from kvec.decide.scores import Scores
from kvec.decide.stream import Stream
from kvec.decide.triggers.calibrated import Temperatures, fit_sharpness
from kvec.estimator import load
from kvec.learn.comparing import compare_triggers
from kvec.learn.retuning import retune
from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic
from kvec.words.errors import DataError, SettingError

SMALL = {
    "schema": DEMO_SCHEMA, "width": 16, "heads": 2, "feed_forward": 16, "fusion": 16, "blocks": 1, "device": "cpu",
    "epochs": 3, "patience": 3, "objective": "expected", "knots": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def model() -> KVEC:
    return KVEC(**SMALL).fit(demo_traffic(60))


@pytest.fixture(scope="module")
def held(model: KVEC):
    tangles = model.tangles(demo_traffic(40, seed=7))
    return held_out(tangles, score_table(model.model_.network, tangles, model.model_.config))


def nll(known, temperatures: Temperatures) -> float:
    shares = temperatures.apply(known.probabilities, known.place)
    truth = np.repeat(known.truth, known.length)
    return float(-np.log(shares[np.arange(len(truth)), truth]).mean())


def test_probabilities_are_calibrated_on_validation(model: KVEC) -> None:
    known = prefixes_of(model.model_.validation)
    (fitted,) = model.model_.readiness.temperatures
    plain = Temperatures(np.ones((1, 2)))
    assert nll(known, fitted) < nll(known, plain)
    assert not np.allclose(fitted.sharpness, 1)


def test_a_few_sequences_that_are_all_right_do_not_make_it_certain() -> None:
    logs, truth = np.log(np.tile([0.7, 0.2, 0.1], (5, 1))), np.zeros(5, np.int64)
    assert (fit_sharpness(logs, truth) > 10).all()
    doubted = fit_sharpness(logs, truth, doubt=10.0)
    assert ((doubted > 1) & (doubted < 1.5)).all()


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_streams_halt_by_any_trigger_as_tables_do(model: KVEC, held, trigger: str, tmp_path) -> None:
    tuned = KVEC(**SMALL)
    tuned.model_ = retune(model.model_, held, trigger, {})
    assert tuned.model_.readiness.trigger == trigger
    data = demo_traffic(8, seed=11)
    expected = tuned.decision_frame(data).sort("id")
    tuned.save(tmp_path / "tuned")
    for deployed in (tuned.deployed(), load(tmp_path / "tuned").deployed()):
        stream = Stream(deployed)
        found = sorted(
            [d for item in tuned.items(data) for d in stream.feed(item)] + stream.close(), key=lambda d: d.id
        )
        assert [(d.id, d.label, d.n_observed) for d in found] == expected.select("id", "label", "n_observed").rows()
        np.testing.assert_allclose([d.probability for d in found], expected["probability"].to_numpy(), atol=1e-4)
    explained = tuned.explain(data, expected["key"][0], expected["tangle"][0])
    reached = [n for n, step in enumerate(explained.steps, 1) if step.halt_score >= tuned.model_.threshold]
    if expected["reason"][0] == "halted":
        assert reached[0] == expected["n_observed"][0]


def test_readiness_survives_plain_data(model: KVEC, held) -> None:
    for trigger in TRIGGERS:
        readiness = retune(model.model_, held, trigger, {}).readiness
        again = Readiness.from_plain(json.loads(json.dumps(readiness.to_plain())), readiness.to_arrays())
        assert again.to_plain() == readiness.to_plain()
        assert (again.waiting is None) == (trigger != "induction")
        assert again.to_arrays().keys() == readiness.to_arrays().keys()
    assert Readiness.from_plain(None, {}).to_plain() == Readiness().to_plain()
    with pytest.raises(ValueError, match="goes with what waiting loses"):
        Readiness((), "induction")


def test_a_trigger_reaches_its_target(model: KVEC, held) -> None:
    for trigger in TRIGGERS:
        tuned = retune(model.model_, held, trigger, {"earliness": 0.3})
        turned = KVEC(**SMALL)
        turned.model_ = tuned
        late = turned.evaluate(demo_traffic(40, seed=7)).earliness
        assert late == pytest.approx(0.3, abs=0.03), trigger


def test_triggers_are_compared_on_sequences_that_they_were_not_fitted_on(model: KVEC, held) -> None:
    tried = compare_triggers(model.model_, held, {})
    assert [each.trigger for each in tried] == list(TRIGGERS)
    assert all(0 < each.hm < 1 and 0 < each.earliness < 1 for each in tried)


def test_induction_can_read_all(model: KVEC, held) -> None:
    tuned = KVEC(**SMALL)
    tuned.model_ = retune(model.model_, held, "induction", {"earliness": 1.0})
    decided = tuned.decision_frame(demo_traffic(40, seed=7))
    assert (decided["n_observed"] == decided["length"]).all()


def test_triggers_that_cannot_reach_a_target_are_left_out(model: KVEC, held) -> None:
    stuck = {name: array for name, array in held.items() if name != "knots"}
    stuck["halt"] = np.ones_like(held["halt"])  # at once or never
    tried = compare_triggers(model.model_, stuck, {"earliness": 0.78})
    assert [each.trigger for each in tried] == ["calibrated", "induction"]
    blind = stuck | {"classes.0": np.full_like(held["classes.0"], 1 / held["classes.0"].shape[1])}
    with pytest.raises(SettingError, match=r"earliness 0\.78 cannot be reached"):
        compare_triggers(model.model_, blind, {"earliness": 0.78})


@pytest.mark.parametrize(
    "target", [{"earliness": 0.3}, {"accuracy": 0.3}, {"cost_per_item": 0.9}, {"cost_per_error": 1.0}]
)
def test_all_triggers_can_aim_at_all_that_is_no_delay_cost(model: KVEC, held, target: dict[str, float]) -> None:
    assert [each.trigger for each in compare_triggers(model.model_, held, target)] == list(TRIGGERS)


def test_what_cannot_be_tuned_is_refused(model: KVEC, held) -> None:
    few = {name: array for name, array in held.items()}
    few["labels"] = np.where(np.arange(len(held["labels"]))[:, None] < 10, held["labels"], -1)
    with pytest.raises(DataError, match="10 labelled sequences are too few to tune on; give 40 or more"):
        retune(model.model_, few, "hazard", {})
    with pytest.raises(SettingError, match="accuracy 1 cannot be reached: on validation the best is"):
        retune(model.model_, held, "induction", {"accuracy": 1.0})
    with pytest.raises(SettingError, match="the trigger calibrated takes no delay cost"):
        retune(model.model_, held, "calibrated", {"delay_cost": 0.9})
    with pytest.raises(SettingError, match="trigger is 'luck'"):
        retune(model.model_, held, "luck", {})


@pytest.mark.parametrize("gap", [1.0, 30.0, 60.0])
def test_streams_and_tables_say_the_same_of_logits_that_lie_far_apart(gap: float) -> None:
    logits = np.array([[gap, 0.0, 0.5]], np.float32)
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    readiness = Readiness((Temperatures(np.array([[0.06, 0.06]])),))
    table = readiness.applied(Scores(np.array([0, 1]), np.zeros(1, np.float32), (shares,), None))
    stream = readiness.probabilities(0, logits, np.array([1]))
    assert stream == pytest.approx(table.classes[0], rel=1e-5)


@pytest.mark.parametrize("gap", [20.0, 25.0, 40.0])
def test_streams_and_tables_are_certain_alike(gap: float) -> None:
    """Single precision calls 1 what is nearly so; where θ is 1, a stream must halt there as well."""
    logits = np.array([gap, 0.0, 0.5], np.float32)
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    readiness = Readiness((Temperatures(np.ones((1, 2))),), "calibrated")
    table = readiness.applied(Scores(np.array([0, 1]), np.zeros(1, np.float32), (shares[None],), None))
    for use_c in {is_built, False}:
        stream = Ready(readiness, 3, None, use_c).after(np.append(np.float32(0), logits)[None], np.array([1]))
        assert float(table.halt[0]) == float(stream[0]) == 1.0


def test_a_long_sequence_is_heard_in_linear_time() -> None:
    n = 300_000
    shares = np.random.default_rng(0).dirichlet(np.ones(3), n).astype(np.float32)
    scores = Scores(np.array([0, n]), np.zeros(n, np.float32), (shares,), None)
    began = process_time()
    heard = Readiness((), "calibrated").applied(scores)
    assert process_time() - began < 2, "place by place it takes a minute"
    assert (heard.halt == shares.max(axis=1)).all()
