from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.doors.made import Trained

import kvec
from kvec.doors.measuring import evaluate_model, fingerprints, validation_traces
from kvec.read.rows import read_table
from kvec.report.curves import best_fixed, stop_at_threshold
from kvec.report.metrics import accuracy
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
