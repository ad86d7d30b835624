"""Every training by one contract: what comes out of a cell, and that nothing of it saw what it must not see."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from kvec.decide.scores import Scores
from kvec.decide.triggers.base import Prefixes
from kvec.read.rows import read_table
from kvec.report.curves import Traces, accuracy_at_end, best_threshold
from kvec.reproduce import cell as cell_module
from kvec.reproduce.cell import BINS, Seen, curves, looks, measure, run_cell
from kvec.reproduce.datasets import read_parts
from kvec.reproduce.plan import Cell, Outcome, Sizes
from kvec.reproduce.trainings import TRAININGS, settings_of
from kvec.reproduce.units import with_units
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config
from kvec.words.schema import Schema

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
    n_epochs = 0 if TRAININGS[training].classifier else 2
    assert row["epochs"] == n_epochs == len(str(row["hm_by_epoch"]).split())
    assert float(row["first_earliness"]) == pytest.approx(1 / 24, abs=1e-4)
    made = TRAININGS[training]
    methods = {point["method"] for point in outcome.points}
    own = {training} if made.has_policy or made.triggers == ("confidence",) else set()
    tried = {f"{training}-{name}" for name in made.triggers} if len(made.triggers) > 1 else set()
    bound = {f"{training}-oracle"} if made.classifier else set()
    assert methods == own | tried | bound
    assert {point["curve"] for point in outcome.points if point["method"] in bound} <= {"bound"}
    for point in outcome.points:
        assert (point["validated"] != "") == (point["curve"] == "chosen")
        if point["curve"] == "chosen" and point["method"] == training:
            assert float(point["validated"]) == pytest.approx(float(row["validation_hm"]), abs=1 / 30)  # a sequence
    assert len(str(row["word_hm_by_epoch"]).split()) == n_epochs and bool(row["word_earliness"]) == bool(n_epochs)
    for method in methods - bound:
        curves = [point["curve"] for point in outcome.points if point["method"] == method]
        assert curves.count("chosen") == 1 and curves.count("moved") >= 1
        assert curves.count("swept") == (1 if made.is_swept else 0)


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


@pytest.mark.parametrize("training", ["kvec", "srn", "trees"])
def test_what_came_of_units_adds_up_to_the_points(training: str) -> None:
    cell = Cell("made-early", training, "", None, 0, "smoke", (*settings_of(training, {}), *TINY), is_paired=True)
    found = run_cell(cell, SIZES, {})
    assert found.points == outcome_of(training).points and outcome_of(training).units is None
    units = found.units
    assert units is not None and units["unit"].n_unique() == 15
    by_point = units.group_by("method", "curve", "setting").agg(pl.col("sequences", "right", "late").sum())
    known = {row[:3]: row[3:] for row in by_point.iter_rows()}
    for point in found.points:
        n, right, late = known[point["method"], point["curve"], point["setting"]]
        assert (n, right / n) == (30, pytest.approx(float(point["accuracy"]), abs=1e-5))
        assert late / n == pytest.approx(float(point["earliness"]), abs=1e-5)
    assert known[training, "first", "0"][2] == pytest.approx(30 / 24) and known[training, "end", "0"][2] == 30


def test_units_are_the_same_for_networks_that_see_tangles_and_single_sequences() -> None:
    named = []
    for training in ("kvec", "trees"):
        parts = read_parts("planted", {}, Sizes(), 0)
        frame = replace(parts, test=with_units(parts.test)).arranged(0, TRAININGS[training].is_alone)[2]
        named.append(frame.group_by("unit").agg(pl.len()).sort("unit").rows())
    assert named[0] == named[1] and len(named[0]) == 20


@pytest.mark.parametrize("training", TRAININGS)
def test_accuracy_by_items_begins_and_ends_as_the_cell_says(training: str) -> None:
    found = outcome_of(training)
    first, *_, end = found.prefixes
    assert (first["n_observed"], end["n_observed"]) == (1, "")
    assert float(first["accuracy"]) == pytest.approx(float(found.cell["first_accuracy"]), abs=1e-4)
    assert float(end["accuracy"]) == pytest.approx(float(found.cell["end_accuracy"]), abs=1e-4)


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


@pytest.mark.parametrize("keep", ["best", "last"])
def test_validation_and_test_are_scored_by_the_weights_that_are_kept(
    keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[Seen, Seen]] = []
    monkeypatch.setattr(cell_module, "curves", lambda cell, training, known, test: held.append((known, test)) or [])
    own = (*settings_of("srn", {}), *TINY, f"training.keep={keep}", "training.learning_rate=0.02")
    row = run_cell(Cell("made-early", "srn", "", None, 0, "smoke", own), replace(SIZES, epochs=4), {}).cell
    (known, test) = held[0]
    theta, hm = best_threshold(known.traces)
    assert row["theta"] == f"{theta:.6g}" and row["validation_hm"] == f"{hm:.4f}"
    of_epochs = str(row["hm_by_epoch"]).split()
    assert row["validation_hm"] == (max(of_epochs) if keep == "best" else of_epochs[-1])
    assert row["end_accuracy"] == f"{accuracy_at_end(test.traces):.4f}"


def test_what_is_fitted_and_chosen_comes_from_validation_alone() -> None:
    known, test = seen(0), seen(1)
    turned = Seen.__new__(Seen)
    turned.traces = replace(test.traces, truth=1 - test.traces.truth)
    turned.prefixes = replace(test.prefixes, truth=1 - test.prefixes.truth)
    cell = Cell("planted", "kvec", "", None, 0, "smoke")
    points = [list(curves(cell, TRAININGS["kvec"], known, each)) for each in (test, turned)]
    for one, other in zip(*points, strict=True):
        assert one[:3] == other[:3] and np.array_equal(one[3], other[3])


def seen(seed: int, n: int = 40) -> Seen:
    """Scores of sequences of three items, drawn at random."""
    rng = np.random.default_rng(seed)
    truth, offsets = rng.integers(0, 2, n), 3 * np.arange(n + 1)
    first = rng.random(3 * n)
    probabilities = np.stack([first, 1 - first], axis=1)
    made = Seen.__new__(Seen)
    made.traces = Traces(
        offsets, rng.random(3 * n), probabilities.argmax(1), probabilities.max(1), truth, np.arange(n)
    )  # fmt: skip
    made.prefixes = Prefixes(offsets, probabilities, truth)
    return made


def labelled_tangles() -> tuple[Tangles, Scores]:
    """Five tangles of two sequences; the class c is not in training. Probabilities tell the row they stand in."""
    items = [
        {"tangle": t, "key": k, "size": 10 * t + k, "label": "abc"[(t + k) % 3], "order": i}
        for t in range(5)
        for i in range(2 + t)
        for k in range(2)
    ]
    schema = Schema.from_dict({"tangle": "tangle", "order": "order", "values": ["size"], "label": "label"})
    table = read_table(pl.DataFrame(items), schema)
    learned = table.frame.filter(pl.col("label.label") != "c")
    tangles = encode_tangles(table.frame, table.schema, Vocabulary.fit(learned, table.schema))
    share = np.linspace(0.1, 0.9, tangles.n_items, dtype=np.float32)
    return tangles, Scores(tangles.offsets, share, (np.stack([share, 1 - share], axis=1),))


def test_sequences_of_a_class_that_training_does_not_have_are_left_out() -> None:
    tangles, scores = labelled_tangles()
    found = Seen(tangles, scores)
    rows, truth = [], []
    for s in range(tangles.n_sequences):
        t, k = divmod(s, 2)
        if (t + k) % 3 < 2:
            truth.append((t + k) % 3)
            rows += list(range(tangles.offsets[s], tangles.offsets[s + 1]))
    assert len(truth) < tangles.n_sequences
    assert found.traces.truth.tolist() == found.prefixes.truth.tolist() == truth
    assert found.traces.halt == pytest.approx(scores.halt[rows])
    assert found.prefixes.probabilities == pytest.approx(scores.classes[0][rows])
    assert np.flatnonzero(found.kept).tolist() == rows


def test_attention_is_gathered_by_the_share_of_its_own_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    tangles, scores = labelled_tangles()
    members = [0, 1, 3]  # spread over all five
    sequences = [s for t in members for s in (2 * t, 2 * t + 1)]
    inside = np.linspace(0, 1, sum(2 + s // 2 for s in sequences))
    shares_left = iter(inside)
    monkeypatch.setattr(cell_module, "LOOKED_AT", 3)
    monkeypatch.setattr(cell_module, "attention_shares", lambda *given: (inside, 1 - inside))
    model = SimpleNamespace(network=None, config=Config())
    rows = looks(model, tangles, Seen(tangles, scores), "cell")  # type: ignore[arg-type]
    held: dict[str, list[tuple[float, bool]]] = {}
    for s in sequences:
        t, k = divmod(s, 2)
        for i in range(2 + t):
            looked = next(shares_left)
            if (t + k) % 3 < 2:
                row = int(tangles.offsets[s]) + i
                end = min(end for end in BINS if (i + 1) / (2 + t) <= end + 1e-9)
                is_right = int(scores.classes[0][row].argmax()) == (t + k) % 3
                held.setdefault(f"{end:.2f}", []).append((looked, is_right))
    assert [row["earliness"] for row in rows] == sorted(held)
    for row in rows:
        shares, right = zip(*held[row["earliness"]], strict=True)
        assert row["items"] == len(shares)
        assert float(row["inside"]) == pytest.approx(np.mean(shares), abs=1e-4)
        assert float(row["outside"]) == pytest.approx(1 - np.mean(shares), abs=1e-4)
        assert float(row["accuracy"]) == pytest.approx(np.mean(right), abs=1e-4)


def test_new_sequences_are_measured_by_themselves() -> None:
    test = seen(2)
    test.n_classes = 2
    is_new = np.arange(40) % 3 == 0
    stops = np.where(is_new, 1, 3)
    told = measure(test, stops, is_new)
    assert told["new_earliness"] == "0.33333" and float(told["earliness"]) > 0.33334
    is_right = test.traces.decided(stops)[0] == test.traces.truth
    assert float(told["new_accuracy"]) == pytest.approx(is_right[is_new].mean(), abs=1e-5)
    assert "new_hm" not in measure(test, stops, np.zeros(40, bool))
