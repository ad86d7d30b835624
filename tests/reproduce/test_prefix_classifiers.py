"""Features of the first n items, and a classifier for each n: nothing later, nothing of others, and it learns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from kvec.read.rows import read_table
from kvec.reproduce.features import PrefixFeatures
from kvec.reproduce.learners import LEARNERS
from kvec.reproduce.prefix_classifiers import PrefixClassifiers, steps_for
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.tangling import arrange
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.schema import Field, Schema

SCHEMA = Schema(
    key=("key",), tangle="tangle", time="time", labels=("label",), session=("way",), match=("size",),
    values=(Field("size", kind="categorical"), Field("way", kind="categorical"), Field("load", kind="projected")),
)  # fmt: skip


def made(n: int = 60, seed: int = 0, longest: int = 9) -> pl.DataFrame:
    """Sequences whose class is told by the third size alone; two in a tangle."""
    rng = np.random.default_rng(seed)
    rows = []
    for s in range(n):
        own = "ab"[s % 2]
        for i in range(int(rng.integers(3, longest + 1))):
            size = {"a": 100, "b": 900}[own] + int(rng.integers(0, 9)) if i == 2 else int(rng.integers(0, 1000))
            way = "in" if rng.random() < 0.5 else "out"
            row = {"tangle": s // 2, "key": s, "time": float(i), "size": size, "way": way, "load": rng.random()}
            rows.append(row | {"label": own})
    return pl.DataFrame(rows)


def encoded(frame: pl.DataFrame, vocabulary: Vocabulary | None = None) -> tuple[Tangles, Vocabulary]:
    items = arrange(read_table(frame, SCHEMA).frame)
    vocabulary = vocabulary or Vocabulary.fit(items, SCHEMA)
    return encode_tangles(items, SCHEMA, vocabulary), vocabulary


def table(features: PrefixFeatures, n: int, is_sparse: bool) -> np.ndarray:
    return features.sparse(n).toarray() if is_sparse else features.dense(n)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_features_know_nothing_of_what_comes_later(is_sparse: bool) -> None:
    whole, vocabulary = encoded(made())
    cut, _ = encoded(made().filter(pl.col("time") < 4), vocabulary)
    for n in (1, 2, 4):
        tables = [table(PrefixFeatures(each, SCHEMA, vocabulary), n, is_sparse) for each in (whole, cut)]
        np.testing.assert_array_equal(*tables)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_features_know_nothing_of_other_keys(is_sparse: bool) -> None:
    both, vocabulary = encoded(made())
    alone, _ = encoded(made().filter(pl.col("key") % 2 == 0), vocabulary)
    first = both.names()["key"].to_numpy() % 2 == 0
    for n in (1, 5):
        tables = [table(PrefixFeatures(each, SCHEMA, vocabulary), n, is_sparse) for each in (both, alone)]
        np.testing.assert_array_equal(tables[0][first], tables[1])


def test_sums_are_those_of_a_plain_loop() -> None:
    tangles, vocabulary = encoded(made(8, longest=50))
    features = PrefixFeatures(tangles, SCHEMA, vocabulary)
    for n in (2, 40):
        rows = features.dense(n)
        assert rows.shape[0] == tangles.n_sequences and np.isfinite(rows[:, 0]).all()
        for s in range(tangles.n_sequences):
            own = tangles.frame[tangles.sequences.by_sequence[tangles.offsets[s] : tangles.offsets[s + 1]]].head(n)
            sizes, ways = own["value.size"].to_list(), own["value.way"].to_list()
            told = rows[s].tolist()
            assert told[0] == len(sizes) and told[1] == sizes[0]
            assert sum(sizes) in told and max(sizes) in told and min(sizes) in told
            assert float(sum(w == "in" for w in ways)) in told
            assert sum(z for z, w in zip(sizes, ways, strict=True) if w == "out") in told
            assert 1 + sum(a != b for a, b in pairwise(ways)) in told


def test_the_grid_goes_as_far_as_sequences_do() -> None:
    assert steps_for(np.array([1, 1, 2])).tolist() == [1]
    steps = steps_for(np.repeat([10, 500], [95, 100]))
    assert steps[-1] == 448 and {1, 2, 3, 5, 8, 10, 12, 20, 50, 100} <= set(steps.tolist())


def test_which_classifier_judges_an_item() -> None:
    model = PrefixClassifiers(np.array([1, 2, 5]), (), LEARNERS["trees"], SCHEMA, encoded(made())[1])
    assert model.which(np.array([1, 4, 5, 7])).tolist() == [
        0,
        *(0, 1, 1, 2),  # it ended after four: the classifier of five has seen such
        *(0, 1, 1, 1, 2),
        *(0, 1, 1, 1, 2, 2, 2),
    ]


@pytest.mark.parametrize("kind", LEARNERS)
def test_it_learns_when_it_can_be_known(kind: str) -> None:
    frames = [made(120, 0), made(60, 1), made(60, 2)]
    training, vocabulary = encoded(frames[0])
    validation, test = (encoded(frame, vocabulary)[0] for frame in frames[1:])
    model = PrefixClassifiers.fit(kind, training, validation, SCHEMA, vocabulary, 0)
    scores = model.score(test)
    assert scores.classes[0].sum(axis=1) == pytest.approx(np.ones(test.n_items), abs=1e-5)
    right = scores.classes[0].argmax(axis=1)[scores.offsets[:-1, None] + np.arange(3)] == test.labels
    early, known = right[:, :2].mean(), right[:, 2].mean()
    assert early < 0.7 and known > (0.9 if kind == "trees" else 0.7)
