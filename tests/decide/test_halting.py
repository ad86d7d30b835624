"""Decisions: exactly one per sequence, at the first score that reaches the threshold, with the right reason."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import TYPES, VOCABULARY, Arrival, encode, frame_of, tangled

from kvec.decide.halting import decision_table, decisions, first_halts
from kvec.decide.scores import Scores
from kvec.learn.validating import traces
from kvec.report.curves import best_threshold, stop_at_threshold
from kvec.tangle.tangles import Tangles
from kvec.words.items import Reason


def scores_for(tangles: Tangles, seed: int = 0, levels: int = 1000) -> Scores:
    rng = np.random.default_rng(seed)
    n = tangles.n_items
    classes = tuple(rng.dirichlet(np.ones(k), n).astype(np.float32) for k in (3, 2))
    return Scores(tangles.offsets, (rng.integers(0, levels + 1, n) / levels).astype(np.float32), classes)


@given(
    st.lists(tangled(12), min_size=1, max_size=3), st.integers(0, 100),
    st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), st.sampled_from([None, 0.75]),
)  # fmt: skip
def test_one_decision_per_sequence(
    arrivals: list[list[Arrival]], seed: int, threshold: float, expiry: float | None
) -> None:
    tangles = encode(frame_of(*arrivals), expiry=expiry)
    scores = scores_for(tangles, seed, levels=4)
    made = decisions(decision_table(tangles, VOCABULARY, scores, threshold), VOCABULARY.label_names)
    assert len(made) == tangles.n_sequences == len({d.id for d in made})
    for s, decision in enumerate(made):
        start, end = int(tangles.offsets[s]), int(tangles.offsets[s + 1])
        assert decision.length == end - start
        assert 1 <= decision.n_observed <= end - start
        halts = [i for i in range(start, end) if scores.halt[i] >= threshold]
        stop = halts[0] if halts else end - 1
        assert decision.n_observed == stop - start + 1
        assert decision.reason == (Reason.HALTED if halts else tangles.reason[s])
        first = tangles.frame.row(int(tangles.sequences.first[s]), named=True)
        assert (decision.tangle, decision.key) == (first["tangle"], first["key"])
        assert decision.sequence == tangles.sequences.number[s]
        for column, classes in enumerate(VOCABULARY.labels):
            row = scores.classes[column][stop]
            assert decision.labels[column] == classes[int(row.argmax())]
            assert decision.probabilities[column] == pytest.approx(float(row.max()))
        known = [first["label.kind"] if first["label.kind"] in ("a", "b", "c") else None, first["label.side"]]
        assert decision.true_labels is not None and list(decision.true_labels) == known


def test_thresholds_at_the_ends() -> None:
    scores = Scores(np.array([0, 2, 3]), np.array([0.0, 1.0, 0.2], np.float32), ())
    assert first_halts(scores, 0.0).tolist() == [1, 1]
    assert first_halts(scores, 1.0).tolist() == [2, 0]


def test_reasons_of_those_that_never_halt() -> None:
    def item(key: int, gap: float, is_end: bool = False) -> Arrival:
        return Arrival(key, 0, "in", 0.0, 0.0, gap, is_end)

    tangles = encode(frame_of([item(1, 0.0), item(2, 0.5, True), item(3, 5.0), item(4, 0.1)]), expiry=1.0)
    scores = Scores(tangles.offsets, np.array([0.1, 0.1, 0.1, 0.9], np.float32), scores_for(tangles).classes)
    table = decision_table(tangles, VOCABULARY, scores, 0.5)
    assert table["reason"].to_list() == ["expired", "ended", "closed", "halted"]
    assert table.columns[:3] == ["tangle", "key", "sequence"]


def test_a_table_without_labels_is_decided_too() -> None:
    frame = frame_of([Arrival(i % 2, 0, "in", 0.0, 0.0, 1.0, False) for i in range(5)])
    tangles = encode(frame.drop("label.kind", "label.side"))
    table = decision_table(tangles, VOCABULARY, scores_for(tangles), 0.5)
    assert table["true_label"].to_list() == [None, None]
    assert table["true_label.side"].dtype == pl.String


def test_no_items_no_decisions() -> None:
    tangles = encode(pl.DataFrame(schema=TYPES))
    assert decision_table(tangles, VOCABULARY, scores_for(tangles), 0.5).height == 0


@given(st.integers(0, 1000))
def test_deciding_agrees_with_the_curves_that_chose_the_threshold(seed: int) -> None:
    """Scores may be neighbours among the 32-bit numbers; a threshold between them still tells them apart."""
    rng = np.random.default_rng(seed)
    arrivals = [Arrival(int(k), 0, "in", 0.0, 0.0, 1.0, False) for k in rng.integers(1, 4, 12)]
    tangles = encode(frame_of(arrivals))
    near = np.float32(0.7)
    steps = [near]
    for _ in range(5):
        steps.append(np.nextafter(steps[-1], np.float32(1)))
    halt = np.array(steps)[rng.integers(0, 6, tangles.n_items)]
    scores = Scores(tangles.offsets, halt, scores_for(tangles, seed).classes)
    found = traces(tangles, scores)
    theta, _ = best_threshold(found)
    known = tangles.labels[:, 0] >= 0
    n_observed = decision_table(tangles, VOCABULARY, scores, theta)["n_observed"].to_numpy()
    assert n_observed[known].tolist() == stop_at_threshold(found, theta).tolist()
