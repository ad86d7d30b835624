"""Keys that are dealt out into smaller tangles: the same as if each part had been given as a tangle of its own."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.strategies import Arrival, by_item, encode, frame_of, small_network, tangled

from kvec.tangle.dealing import deal, dealt_tangles, draw_parts
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import make_rule
from kvec.words.config import Visibility

OF_TANGLES = (
    "codes", "numbers", "gaps", "time", "starts", "sizes", "sequence_starts", "tangle_of", "reason", "labels",
    "previous", "previous_match", "offsets",
)  # fmt: skip


def given_apart(tangles: Tangles, part_of_key: dict[tuple[str, int], int]) -> Tangles:
    """Each part of each tangle under a name of its own, one after the other."""
    frame = tangles.frame.with_columns(
        pl.struct("tangle", "key")
        .map_elements(lambda row: part_of_key[row["tangle"], row["key"]], pl.Int64)
        .alias("part"),
        pl.col("tangle").rank("dense").alias("place"),
    ).sort("place", "part", maintain_order=True)
    return encode(frame.with_columns(pl.format("{} {}", "tangle", "part").alias("tangle")).drop("part", "place"))


@given(st.lists(tangled(), min_size=1, max_size=3), st.lists(st.integers(0, 2), min_size=12, max_size=12))
def test_parts_are_what_they_would_be_by_themselves(given: list[list[Arrival]], drawn: list[int]) -> None:
    tangles = encode(frame_of(*given))
    names = tangles.names().rows()
    part_of_key = {name: drawn[4 * int(name[0][-1]) + name[1]] for name in names}
    dealt = deal(tangles, np.array([part_of_key[name] for name in names]))
    wanted = given_apart(tangles, part_of_key)
    for name in OF_TANGLES:
        np.testing.assert_array_equal(getattr(dealt, name), getattr(wanted, name), err_msg=name)
    for name in ("sequence", "position", "by_sequence", "first", "last", "number"):
        np.testing.assert_array_equal(getattr(dealt.sequences, name), getattr(wanted.sequences, name), err_msg=name)
    np.testing.assert_array_equal(dealt.session, wanted.session)
    assert dealt.frame.drop("tangle").equals(wanted.frame.drop("tangle"))
    whole = tangles.frame["tangle"].unique(maintain_order=True).gather(dealt.given)
    assert whole.to_list() == dealt.frame["tangle"].gather(dealt.starts[:-1]).to_list()
    for rule in (make_rule(Visibility("typed", own=3, others=5, recent=4)), make_rule(Visibility("window", window=5))):
        for tangle in range(dealt.n_tangles):
            bounds = int(dealt.starts[tangle]), int(dealt.starts[tangle + 1])
            mine, theirs = (rule.look(each, tangle, *bounds) for each in (dealt, wanted))
            np.testing.assert_array_equal(mine.items, theirs.items)
            np.testing.assert_array_equal(mine.relation, theirs.relation)


@given(tangled(max_items=16))
def test_the_network_says_the_same_of_a_sequence_alone(arrivals: list[Arrival]) -> None:
    """Every sequence in a part of its own; also those of a key that returns, which cannot be given apart by name."""
    tangles = encode(frame_of(arrivals))
    dealt = deal(tangles, np.arange(tangles.n_sequences))
    assert dealt.n_tangles == dealt.n_sequences == tangles.n_sequences
    np.testing.assert_array_equal(dealt.codes, tangles.codes[tangles.sequences.by_sequence])
    network, rule = small_network(), make_rule(Visibility("typed", use_value_correlation=False, recent=0))
    said = by_item(network, dealt, rule)
    own = tangles.frame.with_columns(key=pl.Series(tangles.sequences.sequence, dtype=pl.Int64))
    for sequence in range(tangles.n_sequences):
        alone = encode(own.filter(pl.col("key") == sequence))
        there = np.flatnonzero(dealt.sequences.sequence == sequence)
        np.testing.assert_allclose(said[there], by_item(network, alone, rule), atol=1e-9)


def test_one_part_is_the_tangle_itself() -> None:
    tangles = encode(frame_of([Arrival(0, 1, "in", 0.5, 0.0, 1.0, False)] * 3))
    assert deal(tangles, np.zeros(1, np.int64)) is tangles


def test_tangles_fall_into_powers_of_two_parts_of_eight_sequences_or_more() -> None:
    tangle = np.repeat(np.arange(4000), np.tile([1, 8, 15, 80], 1000))
    part = draw_parts(tangle, np.random.default_rng(0))
    most = np.maximum.reduceat(part, np.searchsorted(tangle, np.arange(4000)))
    assert not part[np.isin(tangle % 4, [0, 1, 2])].any(), "fewer than sixteen sequences stay together"
    whole, two, four, eight = (
        (most[3::4] >= low) & (most[3::4] < high) for low, high in ((0, 1), (1, 2), (2, 4), (4, 8))
    )
    for share in (whole, two, four, eight):
        assert 0.2 < share.mean() < 0.3
    assert most.max() == 7
    assert len(draw_parts(np.zeros(0, np.int64), np.random.default_rng(0))) == 0


def test_dealt_tangles_keep_the_order_of_their_tangles() -> None:
    dealt, parent = dealt_tangles(np.array([0, 0, 2, 2, 2]), np.array([3, 0, 1, 1, 0]))
    assert dealt.tolist() == [1, 0, 3, 3, 2]
    assert parent.tolist() == [0, 0, 2, 2]
