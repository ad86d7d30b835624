"""Batches and blocks: every item once, no more padding than allowed, and never a square of a long tangle."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import VISIBILITIES, Arrival, encode, frame_of, tangled

from kvec.tangle.batch import Batch, plan_batches
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import MISSING, UNKNOWN
from kvec.words.config import Visibility


def arrivals(n: int, n_keys: int = 2) -> list[Arrival]:
    return [Arrival(i % n_keys, i % 3, "in", 1.0, 0.0, 0.5, False) for i in range(n)]


def test_a_batch_holds_whole_tangles_in_the_order_asked_for() -> None:
    tangles = encode(frame_of(arrivals(4), arrivals(3), arrivals(5, n_keys=3)))
    batch = Batch.of(tangles, np.array([2, 0]))
    assert batch.sequences.tolist() == [4, 5, 6, 0, 1]
    assert batch.items.tolist() == [7, 10, 8, 11, 9, 0, 2, 1, 3]
    assert batch.offsets.tolist() == [0, 2, 4, 5, 7, 9]


@given(st.lists(tangled(15), min_size=1, max_size=4), VISIBILITIES, st.integers(1, 16))
def test_blocks_hold_every_item_once_and_every_visible_pair(
    given: list[list[Arrival]], visibility: Visibility, size: int
) -> None:
    tangles, rule = encode(frame_of(*given)), make_rule(visibility)
    members = np.arange(len(given))[::-1].copy()
    batch = Batch.of(tangles, members)
    blocks = list(batch.blocks(rule, size, slots=3))
    seen: list[int] = []
    for number, block in enumerate(blocks):
        first = number * size
        n_context = min(first, rule.window - 1)
        b, t, _ = block.codes.shape
        assert (b, block.n_context) == (len(given), n_context)
        assert t <= size
        assert len(block.starts) == b * t + 1
        assert len(block.rows) == len(block.relation) == block.starts[-1]
        for row, tangle in enumerate(members.tolist()):
            start, end = int(tangles.starts[tangle]), int(tangles.starts[tangle + 1])
            for q in range(t):
                i = start + first + q
                part = slice(block.starts[row * t + q], block.starts[row * t + q + 1])
                visible = (block.rows[part] + start + first - n_context).tolist()
                if i < end:
                    looked = rule.look(tangles, tangle, i, i + 1)
                    assert visible == looked.of(0).tolist()
                    assert block.relation[part].tolist() == looked.relation.tolist()
                    assert block.codes[row, q].tolist() == tangles.codes[i].tolist()
                    assert block.arrival[row, q] == first + q
                    assert block.position[row, q] == tangles.sequences.position[i]
                else:
                    assert visible == []  # padding
        seen += block.items.tolist()
    assert sorted(seen) == list(range(tangles.n_items))


def test_draws_permute_slots_and_shift_arrivals() -> None:
    batch = Batch.of(encode(frame_of(arrivals(4), arrivals(3))), np.arange(2))
    draw = batch.draw(np.random.default_rng(1), slots=5, modulus=100)
    assert draw.slots.shape == (2, 5)
    assert all(sorted(row) == [0, 1, 2, 3, 4] for row in draw.slots.tolist())
    assert ((draw.offset >= 0) & (draw.offset < 100)).all()
    (block,) = batch.blocks(make_rule(Visibility()), 10, 5, draw)
    assert block.slot[0].tolist() == [draw.slots[0][i % 2] for i in range(4)]
    assert block.arrival[1, :3].tolist() == [draw.offset[1] + i for i in range(3)]
    seen = {tuple(batch.draw(np.random.default_rng(s), 5, 100).slots[0].tolist()) for s in range(20)}
    assert len(seen) > 10


def test_draws_may_hide_values() -> None:
    tangles = encode(frame_of([Arrival(0, None if i % 2 else 2, "in", 7.0, 0.0, 1.0, False) for i in range(200)]))
    before = tangles.codes.copy()
    batch, rule = Batch.of(tangles, np.arange(1)), make_rule(Visibility())
    draw = batch.draw(np.random.default_rng(0), 3, 5, hide=0.3)
    shown = torch.cat([block.codes[0] for block in batch.blocks(rule, 64, 3, draw)])
    is_hidden = shown.numpy() != before
    assert (shown.numpy()[is_hidden] == UNKNOWN).all()
    assert not is_hidden[before == MISSING].any()
    assert is_hidden[before != MISSING].mean() == pytest.approx(0.3, abs=0.05)
    assert np.array_equal(tangles.codes, before)
    (whole,) = batch.blocks(rule, 1000, 3, draw)
    assert torch.equal(whole.codes[0], shown)
    assert batch.draw(np.random.default_rng(0), 3, 5).hidden is None


def test_slots_come_round_again() -> None:
    batch = Batch.of(encode(frame_of(arrivals(8, n_keys=5))), np.arange(1))
    (block,) = batch.blocks(make_rule(Visibility()), 10, slots=3)
    assert block.slot[0].tolist() == [0, 1, 2, 0, 1, 0, 1, 2]


@given(
    st.lists(st.integers(1, 50), max_size=60), st.integers(1, 8), st.integers(1, 200), st.integers(1, 60),
    st.booleans(),
)  # fmt: skip
def test_plans_share_out_every_tangle_once(
    sizes: list[int], batch: int, batch_items: int, block: int, is_random: bool
) -> None:
    rng = np.random.default_rng(3) if is_random else None
    plan = plan_batches(np.array(sizes, np.int64), batch, batch_items, block, rng)
    assert sorted(t for members in plan for t in members.tolist()) == list(range(len(sizes)))
    for members in plan:
        assert 1 <= len(members) <= batch
        padded = len(members) * min(max(sizes[t] for t in members), block)
        assert len(members) == 1 or padded <= batch_items


def test_plans_are_drawn_by_the_generator_alone() -> None:
    sizes = np.random.default_rng(0).integers(1, 100, 500)

    def plan(seed: int) -> list[list[int]]:
        return [b.tolist() for b in plan_batches(sizes, 8, 10_000, 512, np.random.default_rng(seed))]

    assert plan(1) == plan(1) != plan(2)
    waste = [sizes[b].max() * len(b) / sizes[b].sum() for b in plan_batches(sizes, 8, 10_000, 512)]
    assert np.mean(waste) < 1.1  # tangles of like size go together


@pytest.mark.parametrize("rule", ["paper", "window", "typed"])
def test_blocks_of_a_long_tangle_hold_visible_pairs_alone(rule: str) -> None:
    tangles = encode(frame_of(arrivals(20_000, n_keys=4)))
    made = make_rule(Visibility(rule=rule, window=100, own=10, others=20))
    blocks = list(Batch.of(tangles, np.arange(1)).blocks(made, 256, slots=3))
    assert len(blocks) == 79
    for block in blocks:
        assert block.n_context <= 99
        assert int(block.rows.max()) < block.n_context + 256
        assert len(block.rows) <= 256 * (31 if rule == "paper" else 100)
