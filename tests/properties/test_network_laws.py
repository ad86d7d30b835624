"""Laws of the network on random tangles: the future is silent, names are nothing, batching is invisible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.strategies import (
    SMALL,
    VISIBILITIES,
    Arrival,
    assert_same,
    by_item,
    dense_attention,
    encode,
    frame_of,
    outputs_of,
    small_network,
    tangled,
)

from kvec.decide.scoring import score
from kvec.tangle.batch import Draw
from kvec.tangle.visibility import make_rule
from kvec.words.config import Visibility

NETWORK = small_network()
SCHEMAS = st.sampled_from([{}, {"expiry": 0.75}, {"match": ("load",), "session_gap": 0.5}, {"session": ()}])


@given(tangled(), tangled(6, min_items=0), tangled(6, min_items=0), VISIBILITIES, SCHEMAS)
def test_the_future_never_edits_the_past(
    past: list[Arrival], future: list[Arrival], other: list[Arrival], visibility: Visibility, schema: dict[str, Any]
) -> None:
    rule, n = make_rule(visibility), len(past)
    expected = by_item(NETWORK, encode(frame_of(past), **schema), rule)
    for later in (future, other):
        assert_same(by_item(NETWORK, encode(frame_of(past + later), **schema), rule)[:n], expected)


@given(st.lists(tangled(10), min_size=2, max_size=4), VISIBILITIES, SCHEMAS)
def test_tangles_do_not_know_one_another(
    arrivals: list[list[Arrival]], visibility: Visibility, schema: dict[str, Any]
) -> None:
    """Nor does padding to the longest of a batch change anything."""
    rule = make_rule(visibility)
    tangles = encode(frame_of(*arrivals), **schema)
    together = by_item(NETWORK, tangles, rule)
    for number, items in enumerate(arrivals):
        members = np.flatnonzero(tangles.given == number).tolist()  # several where it was released in between
        part = slice(int(tangles.starts[members[0]]), int(tangles.starts[members[-1] + 1]))
        assert_same(by_item(NETWORK, tangles, rule, members=members)[part], together[part])
        assert_same(by_item(NETWORK, encode(frame_of(items, offset=number), **schema), rule), together[part])
    backwards = by_item(NETWORK, tangles, rule, members=list(reversed(range(tangles.n_tangles))))
    assert_same(backwards, together)


@settings(max_examples=100)
@given(st.lists(tangled(20), min_size=1, max_size=3), VISIBILITIES, st.integers(1, 8), SCHEMAS)
def test_any_block_size_gives_the_same(
    arrivals: list[list[Arrival]], visibility: Visibility, block: int, schema: dict[str, Any]
) -> None:
    rule, tangles = make_rule(visibility), encode(frame_of(*arrivals), **schema)
    whole = by_item(NETWORK, tangles, rule)
    assert_same(by_item(NETWORK, tangles, rule, block), whole)
    with dense_attention():
        assert_same(by_item(NETWORK, tangles, rule, block), whole)


@given(st.lists(tangled(12), min_size=1, max_size=2), st.permutations(range(4)), st.booleans(), VISIBILITIES)
def test_names_of_keys_and_tangles_change_nothing(
    arrivals: list[list[Arrival]], names: list[int], is_text: bool, visibility: Visibility
) -> None:
    rule, frame = make_rule(visibility), frame_of(*arrivals)
    renamed = [f"key {names[key]}" if is_text else names[key] * 10**15 - 7 for key in frame["key"]]
    other = frame.with_columns(key=pl.Series(renamed), tangle=pl.lit("x") + pl.col("tangle").str.reverse())
    tangles = encode(other)
    assert torch.equal(by_item(NETWORK, tangles, rule), by_item(NETWORK, encode(frame), rule))
    assert tangles.names()["key"].to_list() == [renamed[first] for first in tangles.sequences.first]


@given(tangled(16, min_items=2), VISIBILITIES)
def test_codes_of_unseen_values_are_one(arrivals: list[Arrival], visibility: Visibility) -> None:
    """Renaming the values that training never saw changes nothing as long as they stay apart, and in their bin."""
    renamed = [replace(a, size={3: 78, 4: 77}.get(a.size, a.size)) for a in arrivals]  # type: ignore[arg-type]
    rule = make_rule(visibility)
    same = by_item(NETWORK, encode(frame_of(renamed)), rule)
    assert torch.equal(same, by_item(NETWORK, encode(frame_of(arrivals)), rule))


ALONE = small_network(replace(SMALL, use_membership=False, use_time=False))


@given(tangled(), st.sampled_from([1, 2, 100]))
def test_without_value_correlation_a_sequence_is_as_if_alone(arrivals: list[Arrival], own: int) -> None:
    tangles = encode(frame_of(arrivals))
    rule = make_rule(Visibility("paper", own=own, use_value_correlation=False))
    together = by_item(ALONE, tangles, rule)
    for s in range(tangles.n_sequences):
        mine = np.flatnonzero(tangles.sequences.sequence == s)
        alone = by_item(ALONE, encode(frame_of([arrivals[i] for i in mine])), rule)
        assert_same(together[mine], alone)


@given(tangled(16), VISIBILITIES, st.permutations(range(SMALL.slots)), st.integers(0, 9))
def test_a_draw_only_moves_slots_and_arrivals(
    arrivals: list[Arrival], visibility: Visibility, slots: list[int], offset: int
) -> None:
    """The same tables with their rows moved the same way give the same outputs."""
    rule, tangles = make_rule(visibility), encode(frame_of(arrivals))
    moved = small_network()
    n_fields = sum(moved.embedding.vocabularies.fields)
    first_arrival = n_fields + SMALL.slots + SMALL.positions
    with torch.no_grad():
        table = moved.embedding.table.clone()
        for slot, place in enumerate(slots):
            moved.embedding.table[n_fields + place] = table[n_fields + slot]
        for order in range(SMALL.time_modulus):
            place = (order + offset) % SMALL.time_modulus
            moved.embedding.table[first_arrival + place] = table[first_arrival + order]
        draw = Draw(np.array([slots]), np.array([offset]), hidden=None)
        drawn = outputs_of(moved, tangles, rule, block=5, draw=draw)
        plain = outputs_of(NETWORK, tangles, rule)
    assert_same(drawn.halt, plain.halt)
    assert_same(drawn.classes[0], plain.classes[0])


@given(st.lists(tangled(12), min_size=1, max_size=5), VISIBILITIES, st.integers(1, 4), st.integers(1, 40))
def test_scores_do_not_depend_on_batches(
    arrivals: list[list[Arrival]], visibility: Visibility, batch: int, batch_items: int
) -> None:
    rule, tangles = make_rule(visibility), encode(frame_of(*arrivals))
    scores = score(NETWORK, tangles, rule, batch, batch_items, block=4)
    expected = by_item(NETWORK, tangles, rule)[torch.from_numpy(tangles.sequences.by_sequence)]
    np.testing.assert_allclose(scores.halt, expected[:, 0].sigmoid(), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(scores.classes[0], expected[:, 1:4].softmax(dim=1), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(scores.classes[1], expected[:, 4:6].softmax(dim=1), rtol=1e-5, atol=1e-7)
    assert scores.offsets.tolist() == tangles.offsets.tolist()
