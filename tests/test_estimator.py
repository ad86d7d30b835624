"""The estimator: scikit-learn's manners, runs that go on, refusals, and what it says of its decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import kvec
from kvec.estimator import KVEC
from kvec.tangle.tangling import Split
from kvec.words.errors import DataError, KvecError, ModelError, SettingError

SCHEMA = {
    "key": "key", "tangle": "tangle", "time": "time", "values": ["size", "direction"],
    "session": "direction", "label": "label",
}  # fmt: skip
SIZES: dict[str, Any] = {"width": 16, "heads": 2, "blocks": 1, "feed_forward": 16, "fusion": 16, "slots": 8}
ITEMS = kvec.synthetic.demo_traffic(14, seed=0, keys=3)
UNSEEN = kvec.synthetic.demo_traffic(3, seed=1, keys=3)


def tiny(**given: Any) -> KVEC:
    return KVEC(**{"schema": SCHEMA, "epochs": 2, **SIZES, **given})


@pytest.fixture(scope="module")
def fitted() -> KVEC:
    return tiny().fit(ITEMS)


# -- scikit-learn's manners -----------------------------------------------------------------------------------------


def test_parameters_are_kept_as_given() -> None:
    model = tiny(visibility="window", learning_rate=0.01)
    assert model.get_params()["visibility"] == "window"
    assert model.get_params()["blocks"] == 1
    assert model.get_params()["patience"] == KVEC().config.training.patience
    assert model.config.visibility.rule == "window"
    assert (model.get_params()["verbose"], tiny(verbose=True).get_params()["verbose"]) == (False, True)
    assert model.set_params(width=32) is model and model.config.encoder.width == 32
    assert repr(KVEC(preset="paper-traffic", seed=3)) == "KVEC(preset='paper-traffic', seed=3)"
    with pytest.raises(SettingError, match=r"unknown parameter 'widht' in KVEC; known: .*\bverbose\b.*\bwidth\b"):
        KVEC(widht=3)


def test_a_clone_is_unfitted_and_still_follows_its_preset(fitted: KVEC) -> None:
    copy = clone(fitted)
    assert not hasattr(copy, "model_")
    assert copy.get_params() == fitted.get_params()
    assert copy.schema is not fitted.schema
    assert clone(KVEC()).set_params(preset="paper-traffic").config.encoder.blocks == 6
    assert clone(KVEC(blocks=3)).set_params(preset="paper-traffic").config.encoder.blocks == 3


def test_what_is_not_fitted_says_so() -> None:
    for ask in (tiny().predict, tiny().decide, tiny().predict_proba, tiny().score):
        with pytest.raises(ModelError, match="not fitted yet"):
            ask(UNSEEN)
    assert not hasattr(tiny(), "classes_")


# -- deciding -------------------------------------------------------------------------------------------------------


def test_all_answers_agree(fitted: KVEC) -> None:
    decisions = fitted.decide(UNSEEN)
    n_keys = UNSEEN.select("tangle", "key").n_unique()
    assert len({d.id for d in decisions}) == len(decisions) == n_keys
    assert all(1 <= d.n_observed <= (d.length or 0) for d in decisions)
    assert fitted.predict(UNSEEN).tolist() == [d.label for d in decisions]
    shares = fitted.predict_proba(UNSEEN)
    assert shares.shape == (n_keys, len(fitted.classes_))
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(shares.max(axis=1), [d.probability for d in decisions], rtol=1e-6)
    right = np.mean([d.label == (d.true_labels or ("",))[0] for d in decisions])
    late = np.mean([d.earliness for d in decisions])
    assert fitted.evaluate(UNSEEN).accuracy == pytest.approx(right)
    assert fitted.score(UNSEEN) == pytest.approx(2 * (1 - late) * right / (1 - late + right))
    unlabelled = UNSEEN.drop("label")
    assert fitted.predict(unlabelled).tolist() == fitted.predict(UNSEEN).tolist()
    for nothing in (unlabelled, UNSEEN.with_columns(label=pl.lit("new"))):
        with pytest.raises(DataError, match="no sequence has a 'label' that the model knows"):
            fitted.evaluate(nothing)


def test_the_frame_of_decisions_has_their_ids(fitted: KVEC) -> None:
    """Also where a slash in a name could make two sequences look like one."""
    names = pl.DataFrame({
        "new": ["a", "a/b", "a\\/b", "10.0.0.0/24", "t"], "other": ["b/c", "c", "c", "k", "7"],
        "tangle": [0, 0, 1, 1, 2],
    })  # fmt: skip
    keys = UNSEEN.select("tangle", "key").unique(maintain_order=True).group_by("tangle", maintain_order=True).head(1)
    items = UNSEEN.join(keys, on=["tangle", "key"], how="semi").join(names, on="tangle", how="left")
    items = items.with_columns(tangle="new", key="other")
    frame = fitted.decision_frame(items)
    assert frame.columns[:4] == ["id", "tangle", "key", "sequence"]
    assert frame["id"].to_list() == [decision.id for decision in fitted.decide(items)]
    assert frame["id"].n_unique() == frame.height == 5
    assert "10.0.0.0\\/24/k/0" in frame["id"].to_list()


def test_an_explanation_tells_what_the_decision_saw(fitted: KVEC) -> None:
    decision = fitted.decide(UNSEEN)[4]
    told = fitted.explain(UNSEEN, decision.key)
    assert told.decision == decision
    assert len(told.steps) == decision.length
    at = told.steps[decision.n_observed - 1]
    assert max(at.probabilities) == pytest.approx(decision.probability, rel=1e-5)
    assert (at.halt_score >= told.threshold) == (decision.reason == "halted")
    assert all(step.halt_score < told.threshold for step in told.steps[: decision.n_observed - 1])
    for step in told.steps:
        assert sum(look.weight for look in step.looks) <= 1 + 1e-5
        assert all(look.arrival <= step.arrival for look in step.looks)
        assert len(step.looks) == 24 or any(look.arrival == step.arrival and look.is_own for look in step.looks)
    with pytest.raises(KvecError, match="there is no key 'nobody' in this data"):
        fitted.explain(UNSEEN, "nobody")
    with pytest.raises(KvecError, match="has no sequence number 3"):
        fitted.explain(UNSEEN, decision.key, sequence=3)
    twice = pl.concat([UNSEEN, UNSEEN.with_columns(pl.col("tangle") + 100)])
    with pytest.raises(KvecError, match=r"is in 2 tangles \(1, 101\)"):
        fitted.explain(twice, decision.key)
    assert fitted.explain(twice, decision.key, tangle=101).decision.tangle == 101


# -- learning -------------------------------------------------------------------------------------------------------


def test_a_fitted_model_takes_a_stream_over(fitted: KVEC, tmp_path: Path) -> None:
    """Whether it was fitted here or loaded; one that was not fitted says so."""
    fitted.save(tmp_path / "model")
    stream = fitted.stream(threshold=0.9)
    assert stream.threshold == 0.9
    for newer in (fitted, kvec.load(tmp_path / "model")):
        stream.take_over(newer)
        assert stream.threshold == fitted.model_.threshold and stream.model.hash == fitted.deployed().hash
    with pytest.raises(ModelError, match="not fitted yet"):
        stream.take_over(KVEC())


def test_training_is_shown_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    epochs: list[int] = []
    model = tiny().fit(ITEMS, on_epoch=lambda run: epochs.append(run.epoch))
    assert capsys.readouterr() == ("", "")
    shown = clone(model).set_params(verbose=True).fit(ITEMS, on_epoch=lambda run: epochs.append(run.epoch))
    out, err = capsys.readouterr()
    assert out == ""
    header, *lines = err.splitlines()
    assert header.split()[:2] == ["epoch", "loss"]
    assert [line.split()[0] for line in lines] == ["1/2", "2/2"]
    for line, record in zip(lines, shown.model_.history, strict=True):
        assert f"{record['hm']:.4f}" in line
    assert epochs == [1, 2, 1, 2]
    assert weights(shown) == weights(model)


class Killed(Exception):
    """The run is stopped from outside."""


def kill(run: Any) -> None:
    raise Killed


def weights(model: KVEC) -> dict[str, Any]:
    return {name: tensor.tolist() for name, tensor in model.model_.network.state_dict().items()}


def test_a_killed_fit_resumes_from_its_file(fitted: KVEC, tmp_path: Path) -> None:
    kept = tmp_path / "run"
    with pytest.raises(Killed):
        tiny().fit(ITEMS, progress=kept, on_epoch=kill)
    with pytest.raises(ModelError, match="a run with other settings"):
        tiny(seed=1).fit(ITEMS, progress=kept, resume=True)
    swapped = ITEMS.with_columns(pl.col("size").replace(1460, 1461))
    with pytest.raises(ModelError, match="a run with other data"):
        tiny().fit(swapped, progress=kept, resume=True)
    resumed = tiny().fit(ITEMS, progress=kept, resume=True)
    assert weights(resumed) == weights(fitted)
    assert resumed.model_.threshold == fitted.model_.threshold
    with pytest.raises(SettingError, match="resume needs progress"):
        tiny().fit(ITEMS, resume=True)
    with pytest.raises(ModelError, match="no unfinished training"):
        tiny().fit(ITEMS, progress=tmp_path / "none", resume=True)


def test_a_run_on_events_resumes_too(tmp_path: Path) -> None:
    """An outcome holds lists of its own, which come back from the file as they were."""
    events = ITEMS.select("tangle", "key", "time", pl.col("size").cast(pl.String).alias("event"))
    schema = {
        "key": "key", "tangle": "tangle", "time": "time", "values": ["event"],
        "outcome": {"column": "event", "label_from": ["52", "40"]},
    }  # fmt: skip
    with pytest.raises(Killed):
        tiny(schema=schema).fit(events, progress=tmp_path / "run", on_epoch=kill)
    assert tiny(schema=schema).fit(events, progress=tmp_path / "run", resume=True).model_.history[-1]["epoch"] == 2


def test_every_label_column_needs_something_to_be_validated_on() -> None:
    later = pl.col("tangle") >= 10
    second = pl.format("{}{}", pl.when(later).then(pl.lit("new")).otherwise(pl.lit("old")), pl.col("tangle") % 2)
    items = ITEMS.with_columns(second.alias("second"))
    model = tiny(schema=SCHEMA | {"label": ["label", "second"]})
    with pytest.raises(DataError, match="label column 'second': no validation sequence has a class"):
        model.fit(items.filter(~later), items.filter(later))


def test_what_was_learned_comes_from_the_training_part_alone() -> None:
    model = tiny(epochs=1)
    validation = UNSEEN.with_columns(pl.lit(7777).alias("size"), pl.lit("elsewhere").alias("label"))
    mixed = pl.concat([UNSEEN, validation.with_columns(pl.col("tangle") + 50)], how="vertical_relaxed")
    model.fit(ITEMS, mixed)
    assert "elsewhere" not in model.classes_
    assert 7777 not in model.model_.vocabulary.fields[0].values


def test_a_split_hides_its_test_part_from_training(fitted: KVEC) -> None:
    split = Split.from_dict(fitted.model_.split or {})
    units = {name: set(split.part(ITEMS, name)["tangle"]) for name in ("train", "validation", "test")}
    about = fitted.model_.about
    assert [about["train_tangles"], about["validation_tangles"]] == [len(units["train"]), len(units["validation"])]
    unlike = pl.when(pl.col("tangle").is_in(list(units["test"]))).then(7777).otherwise(pl.col("size")).alias("size")
    assert weights(tiny().fit(ITEMS.with_columns(unlike))) == weights(fitted)
    unlike = pl.when(pl.col("tangle").is_in(list(units["train"]))).then(pl.col("size")).otherwise(7777).alias("size")
    assert tiny(epochs=1).fit(ITEMS.with_columns(unlike)).model_.vocabulary == fitted.model_.vocabulary
