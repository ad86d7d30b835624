"""Every training by one contract: what comes out of a cell, and that nothing of it saw what it must not see."""

from __future__ import annotations

import polars as pl
import pytest

from kvec.reproduce.cell import run_cell
from kvec.reproduce.datasets import read_parts
from kvec.reproduce.plan import Cell, Outcome, Sizes
from kvec.reproduce.trainings import TRAININGS, settings_of

SIZES = Sizes(train=40, validation=20, test=20, epochs=2)
TINY = ("encoder.width=16", "encoder.heads=2", "encoder.feed_forward=16", "encoder.fusion=16", "encoder.blocks=1")
_DONE: dict[str, Outcome] = {}


def outcome_of(training: str) -> Outcome:
    if training not in _DONE:
        cell = Cell("made-early", training, "", None, 0, "smoke", (*settings_of(training, {}), *TINY))
        _DONE[training] = run_cell(cell, SIZES, {})
    return _DONE[training]


@pytest.mark.parametrize("training", TRAININGS)
def test_a_cell_tells_all_there_is_to_know(training: str) -> None:
    outcome = outcome_of(training)
    row = outcome.cell
    assert (row["cell"], row["training"], row["seed"]) == (f"made-early/{training}/0", training, 0)
    assert (row["n_train"], row["n_validation"], row["n_test"]) == (80, 30, 30)
    assert row["epochs"] == 2 and len(str(row["hm_by_epoch"]).split()) == 2
    assert float(row["first_earliness"]) == pytest.approx(1 / 24, abs=1e-4)
    made = TRAININGS[training]
    methods = {point["method"] for point in outcome.points}
    own = {training} if made.has_policy or made.triggers == ("confidence",) else set()
    tried = {f"{training}-{name}" for name in made.triggers} if len(made.triggers) > 1 else set()
    assert methods == own | tried
    for method in methods:
        curves = [point["curve"] for point in outcome.points if point["method"] == method]
        assert curves.count("chosen") == 1 and curves.count("moved") >= 1
        assert curves.count("swept") == (1 if made.is_sampled else 0)


@pytest.mark.parametrize("training", TRAININGS)
def test_measures_fit_together(training: str) -> None:
    for point in outcome_of(training).points:
        early, right, hm = (float(point[name]) for name in ("earliness", "accuracy", "hm"))
        assert 1 / 24 - 1e-5 <= early <= 1 and 0 <= right <= 1
        saved = 1 - early
        assert hm == pytest.approx(2 * saved * right / (saved + right) if saved + right else 0, abs=1e-4)


def test_positions_of_halts_are_those_of_all_test_sequences() -> None:
    for training, made in TRAININGS.items():
        halts = outcome_of(training).halts
        assert sum(row["count"] for row in halts) == (30 if made.has_policy else 0)
        assert {row["true"] for row in halts} <= {6} and all(1 <= row["n_observed"] <= 24 for row in halts)


def test_attention_is_told_where_others_can_be_seen() -> None:
    for training, made in TRAININGS.items():
        rows = outcome_of(training).attention
        assert bool(rows) == (not made.is_alone and made.has_policy)
        for row in rows:
            assert float(row["inside"]) + float(row["outside"]) == pytest.approx(1, abs=1e-3)
    assert all(float(row["outside"]) == 0 for row in outcome_of("kvec-no-value").attention)
    assert any(float(row["outside"]) > 0 for row in outcome_of("kvec").attention)


def test_a_cell_is_the_same_when_run_again() -> None:
    cell = Cell("made-early", "srn", "", None, 0, "smoke", (*settings_of("srn", {}), *TINY))
    again = run_cell(cell, SIZES, {})
    assert again.points == outcome_of("srn").points


def test_seeds_split_differently_and_parts_never_overlap() -> None:
    parts = [read_parts("planted", {}, Sizes(), seed) for seed in (0, 1)]
    names = [{name: set(getattr(p, name)["tangle"]) for name in ("train", "validation", "test")} for p in parts]
    assert names[0]["test"] != names[1]["test"]
    for found in names:
        assert not found["train"] & (found["validation"] | found["test"]) and not found["validation"] & found["test"]


def test_alone_every_sequence_is_a_tangle_of_its_own() -> None:
    parts = read_parts("planted", {}, Sizes(), 0)
    for frame, given in zip(parts.arranged(0, True), (parts.train, parts.validation, parts.test), strict=True):
        per_tangle = frame.group_by("tangle").agg(pl.col("key").n_unique())["key"]
        assert (per_tangle == 1).all() and len(per_tangle) == given.select("tangle", "key").n_unique()
        assert frame.height == given.height
    assert parts.keys_per_tangle == 4


def test_keys_are_tangled_anew() -> None:
    parts = read_parts("planted@8", {}, Sizes(), 0)
    train = parts.arranged(0, False)[0]
    assert parts.keys_per_tangle == pytest.approx(8, rel=0.05)
    assert train.group_by("tangle").agg(pl.col("key").n_unique())["key"].max() == 8


def test_folds_test_every_unit_once() -> None:
    tested = [set(read_parts("planted", {}, Sizes(folds=5), fold).test["tangle"]) for fold in range(5)]
    assert len(set.union(*tested)) == sum(len(each) for each in tested) == 100  # every second group of ten
