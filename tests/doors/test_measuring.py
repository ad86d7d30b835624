from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.doors.made import Trained

import kvec
from kvec.decide.held import held_out
from kvec.decide.promise_here import PromiseHere
from kvec.decide.replaying import score_table
from kvec.doors.measuring import dial_of, evaluate_model, report_evaluation, to_json, validation_traces
from kvec.learn.retuning import retune
from kvec.read.rows import read_table
from kvec.report.curves import best_fixed, stop_at_threshold
from kvec.report.metrics import accuracy
from kvec.tangle.repeats import fingerprints
from kvec.tangle.tangles import Tangles
from kvec.tangle.tangling import Split


@pytest.fixture(scope="module")
def model(trained: Trained) -> kvec.KVEC:
    return kvec.load(trained.model)


def part(model: kvec.KVEC, trained: Trained, name: str) -> Tangles:
    table = read_table(trained.items, model.model_.schema)
    split = model.model_.split
    assert split is not None
    return model.tangles(replace(table, frame=Split.from_dict(split).part(table.frame, name)))


def test_the_kept_validation_scores_are_those_of_the_validation_part(model: kvec.KVEC, trained: Trained) -> None:
    held_out = part(model, trained, "validation")
    fresh, kept = model.traces(held_out, model.scores(held_out)), validation_traces(model.model_)
    np.testing.assert_array_equal(kept.offsets, fresh.offsets)
    np.testing.assert_array_equal(kept.truth, fresh.truth)
    np.testing.assert_allclose(kept.halt, fresh.halt, atol=1e-5)
    np.testing.assert_allclose(kept.confidence, fresh.confidence, atol=1e-5)


def test_the_fixed_rule_is_chosen_on_validation(model: kvec.KVEC, trained: Trained) -> None:
    tangles = part(model, trained, "test")
    (found,) = evaluate_model(model, tangles, model.scores(tangles))
    assert found.fixed_n == best_fixed(validation_traces(model.model_))[0]
    assert found.halting == model.summary(tangles, model.scores(tangles))
    assert found.whole.earliness == 1
    assert found.without_repeats is None


def test_the_curve_of_a_model_with_a_dial_goes_along_it(model: kvec.KVEC, trained: Trained, tmp_path: Path) -> None:
    turned, tangles = kvec.KVEC(), model.tangles(trained.items)
    assert dial_of(model, tangles, model.scores(tangles)) is None, "validation has too few sequences for induction"
    held = held_out(tangles, score_table(model.model_.network, tangles, model.model_.config))
    turned.model_ = retune(model.model_, held, "induction", {})
    scores = turned.scores(tangles)
    dial = dial_of(turned, tangles, scores)
    assert dial is not None and "λ" in dial.names[0]
    assert (dial.stops[0] == 1).all() and (dial.stops[-1] == np.diff(tangles.offsets)).all()
    steps = np.diff((dial.stops / np.diff(tangles.offsets)).mean(axis=1))
    assert (steps > 0).all() and steps.max() < 0.1, "on the sequences that it was fitted on"
    found = evaluate_model(turned, tangles, scores)
    report_evaluation(tmp_path / "report.html", turned, found, "title", "kvec", {}, dial=dial)
    assert "a point of the dial" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_equal_sequences_have_equal_fingerprints(model: kvec.KVEC, trained: Trained) -> None:
    frame = trained.frame
    copy = frame.with_columns(tangle=pl.col("tangle") + 100, key=pl.col("key") + "'", time=pl.col("time") * 2)
    first = pl.col("key") == frame["key"][0]
    changed = copy.with_columns(size=pl.when(pl.int_range(pl.len()) == 0).then(41).otherwise("size"))
    of = [fingerprints(model.tangles(each)) for each in (frame, copy, changed)]
    np.testing.assert_array_equal(of[0], of[1])
    assert (of[0] != of[2]).sum() == 1
    assert len(np.unique(of[0])) == frame.filter(first | True).select("tangle", "key").n_unique()
    turned = frame.reverse().with_columns(time=-pl.col("time"))
    assert not np.isin(fingerprints(model.tangles(turned)), of[0]).any(), "the order counts"


def test_what_training_holds_identically_is_left_out(model: kvec.KVEC, trained: Trained) -> None:
    tangles = model.tangles(trained.items)
    some = model.tangles(trained.frame.filter(pl.col("tangle") < 5))
    (found,) = evaluate_model(model, tangles, model.scores(tangles), training=some)
    new = found.without_repeats
    assert new is not None
    assert (found.halting.n_keys, new.n_keys) == (80, 60)
    rest = model.tangles(trained.frame.filter(pl.col("tangle") >= 5))
    traces = model.traces(rest, model.scores(rest))
    stops = stop_at_threshold(traces, found.threshold)
    assert new.accuracy == pytest.approx(accuracy(traces.truth, traces.decided(stops)[0]))
    assert "without the 20 sequences" in found.to_text()


def test_nothing_is_said_of_repeats_where_there_are_none(model: kvec.KVEC, trained: Trained, tmp_path: Path) -> None:
    first, rest = (model.tangles(trained.frame.filter(which)) for which in (pl.col("tangle") < 5, pl.col("tangle") > 4))
    found = evaluate_model(model, rest, model.scores(rest), training=first)
    assert found[0].without_repeats == found[0].halting
    report_evaluation(tmp_path / "report.html", model, found, "title", "kvec", {})
    assert "identically" not in found[0].to_text() + (tmp_path / "report.html").read_text(encoding="utf-8")


def test_missing_labels_and_new_ones_are_told_apart(model: kvec.KVEC, trained: Trained) -> None:
    which = pl.when(pl.col("tangle") < 3).then(None).when(pl.col("tangle") < 8).then(pl.lit("game"))
    tangles = model.tangles(trained.frame.with_columns(which.otherwise("label").alias("label")))
    (found,) = evaluate_model(model, tangles, model.scores(tangles))
    plain = found.to_dict()
    assert (plain["n_missing_labels"], plain["n_new_labels"], plain["n_left_out"]) == (12, 20, 32)
    assert plain["new_classes"] == {"game": 20}
    assert plain["accuracy_with_new"] == pytest.approx(found.halting.accuracy * 48 / 68)
    text, counted = found.to_text(), f"{48 / 68 * found.halting.accuracy:.4f}"
    assert "left out: 12 sequences without a label" in text
    assert "left out: 20 sequences of classes new to the model ('game')" in text
    assert text.endswith(f"with them counted as wrong, accuracy is {counted}")


def test_a_model_that_says_the_same_of_all(model: kvec.KVEC, trained: Trained) -> None:
    tangles = model.tangles(trained.items)
    (found,) = evaluate_model(model, tangles, model.scores(tangles))
    same = replace(found, traces=replace(found.traces, predicted=np.zeros_like(found.traces.predicted)))
    assert f"the model names every sequence {found.classes[0]!r}" in same.to_text()
    mixed = replace(found, traces=replace(found.traces, predicted=np.arange(len(found.traces.predicted)) % 5))
    assert "names every sequence" not in mixed.to_text()
    alone = replace(same, traces=replace(same.traces, truth=np.zeros_like(same.traces.truth)))
    assert "names every sequence" not in alone.to_text(), "where there is one class, that is no fault"


def test_what_sequences_cost_is_told_where_costs_are_given(model: kvec.KVEC, trained: Trained, tmp_path: Path) -> None:
    tangles = model.tangles(trained.items)
    scores = model.scores(tangles)
    (plain,) = evaluate_model(model, tangles, scores, target={"earliness": 0.5, "abstain_below": 0.1})
    assert "cost" not in plain.to_text() and "cost" not in plain.to_dict() and "cost" not in plain.to_dict()["fixed_n"]
    (found,) = evaluate_model(model, tangles, scores, target={"cost_per_error": 2.0, "cost_per_item": 0.1})
    told, summaries = found.to_dict(), (found.halting, found.fixed, found.whole)
    wanted = [2 * (1 - each.accuracy) + 0.1 * each.mean_n_observed for each in summaries]
    assert [told["cost"], told["fixed_n"]["cost"], told["end_cost"]] == pytest.approx(wanted)
    lines = [line.split() for line in found.to_text().splitlines()]
    top = next(i for i, words in enumerate(lines) if words[-1:] == ["cost"])
    assert [words[-1] for words in lines[top + 2 : top + 5]] == [f"{cost:.4g}" for cost in wanted]
    for each, page in ((plain, tmp_path / "plain.html"), (found, tmp_path / "costs.html")):
        report_evaluation(page, model, [each], "costs", "kvec evaluate", {})
    cells = [f"<td>{cost:.4g}</td></tr>" for cost in wanted]
    assert [(tmp_path / "costs.html").read_text("utf-8").count(cell) for cell in cells] == [1, 1, 1]
    assert "cost ↓" not in (tmp_path / "plain.html").read_text("utf-8")
    dear = {true: {other: 3.0 for other in found.classes if other != true} for true in found.classes}
    (by_class,) = evaluate_model(model, tangles, scores, target={"cost_per_error": dear})
    assert by_class.to_dict()["end_cost"] == pytest.approx(3 * (1 - found.whole.accuracy))


@pytest.mark.parametrize("per_item", [0.001, 0.02, 0.2])
def test_where_costs_are_given_the_fixed_rule_is_the_cheapest_on_validation(
    model: kvec.KVEC, trained: Trained, tmp_path: Path, per_item: float
) -> None:
    tangles, target = model.tangles(trained.items), {"cost_per_error": 1.0, "cost_per_item": per_item}
    (found,) = evaluate_model(model, tangles, model.scores(tangles), target=target)
    kept = validation_traces(model.model_)
    costs = []
    for n in range(1, int(kept.length.max()) + 1):
        stops = np.minimum(kept.length, n)
        costs.append(1 - np.mean(kept.decided(stops)[0] == kept.truth) + per_item * stops.mean())
    assert costs[found.fixed_n - 1] == pytest.approx(min(costs))
    assert found.fixed.mean_n_observed <= found.fixed_n and found.to_dict()["fixed_n"]["chosen_by"] == "cost"
    items = f"{found.fixed_n} item{'s' * (found.fixed_n > 1)}"
    assert f"\nthe cheapest n: after {items}  " in found.to_text()
    assert f"fixed rule: {items}, the number of least cost on the validation sequences" in found.notes()
    report_evaluation(tmp_path / "report.html", model, [found], "costs", "kvec evaluate", {})
    page = " ".join((tmp_path / "report.html").read_text("utf-8").split())
    assert f"<td>every sequence after {items}, the cheapest on validation</td>" in page
    assert f"cheapest fixed rule, n = {found.fixed_n}" in page and "best fixed rule" not in page
    mean = found.costs[1] - found.costs[0]
    assert f"A sequence costs {abs(mean):.4g} {'less' if mean >= 0 else 'more'} by the model." in page
    assert "The model's HM is" not in page, "the cheapest rule is not that of the best HM"


def test_without_costs_the_fixed_rule_is_that_of_the_best_hm(model: kvec.KVEC, trained: Trained) -> None:
    tangles = model.tangles(trained.items)
    (found,) = evaluate_model(model, tangles, model.scores(tangles), target={"earliness": 0.5})
    assert found.to_dict()["fixed_n"]["chosen_by"] == "hm" and "cheapest" not in found.to_text()


def test_the_names_in_json_are_those_that_are_promised(model: kvec.KVEC, trained: Trained) -> None:
    record = Path(__file__).parents[2] / "docs" / "decisions" / "0002-what-an-evaluation-shows.md"
    _, _, promised = record.read_text(encoding="utf-8").partition("The names in its JSON are fixed")
    tangles = model.tangles(trained.items)
    training, costs = part(model, trained, "train"), {"cost_per_error": 1.0}
    (found,) = evaluate_model(model, tangles, model.scores(tangles), training, costs)
    found = replace(found, promise_here=PromiseHere(0.1, 0.2, 80))
    assert set(re.findall(r"`(\w+)`", promised)) == {"promise", *to_json([found, found])}
