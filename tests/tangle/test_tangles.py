"""Tangles as arrays: what is matched, what is coded, and how a table of many items fares."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
import pytest
from tests.properties.strategies import SCHEMA, TYPES, VOCABULARY, Arrival, encode, frame_of

from kvec.read.rows import read_table
from kvec.tangle.tangles import GAP_STEPS, describe_items, encode_tangles, factor, log_gap
from kvec.tangle.vocabulary import FieldVocabulary, Vocabulary
from kvec.words.errors import DataError
from kvec.words.schema import Field, Schema


def arrivals(n: int = 6) -> list[Arrival]:
    return [Arrival(i % 2, i % 3, "in", 1.0, 0.0, 0.5, False) for i in range(n)]


def test_the_shape_of_it() -> None:
    tangles = encode(frame_of(arrivals(6), arrivals(3)))
    assert (tangles.n_tangles, tangles.n_items, tangles.n_sequences) == (2, 9, 4)
    assert tangles.starts.tolist() == [0, 6, 9]
    assert tangles.sizes.tolist() == [6, 3]
    assert tangles.sequence_starts.tolist() == [0, 2, 4]
    assert tangles.offsets.tolist() == [0, 3, 6, 8, 9]
    assert tangles.tangle_of.tolist() == [0, 0, 1, 1]
    assert tangles.previous.tolist() == [-1, -1, 0, 1, 2, 3, -1, -1, 6]
    assert tangles.names().rows() == [("tangle 0", 0), ("tangle 0", 1), ("tangle 1", 0), ("tangle 1", 1)]


def test_no_items() -> None:
    tangles = encode(pl.DataFrame(schema=TYPES))
    assert (tangles.n_tangles, tangles.n_items, tangles.n_sequences) == (0, 0, 0)


def match_of(**columns: list[object]) -> list[int]:
    n = len(next(iter(columns.values())))
    frame = pl.DataFrame(
        {"tangle": ["t"] * n, "key": list(range(n)), **{f"value.{k}": v for k, v in columns.items()}},
        schema_overrides={"value.size": pl.Int64, "value.load": pl.Float64},
    )
    vocabulary = Vocabulary(
        tuple(f for f in VOCABULARY.fields if f.name in columns), VOCABULARY.labels, VOCABULARY.label_names
    )
    schema = Schema(values=tuple(f for f in SCHEMA.values if f.name in columns), labels=("kind", "side"))
    return encode_tangles(frame, schema, vocabulary).match.tolist()


def test_unseen_values_match_themselves_only() -> None:
    match = match_of(size=[77, 78, 77, 1, 78])
    assert match[0] == match[2] != match[1] == match[4]
    assert match[3] not in (match[0], match[1])


def test_missing_values_match_nothing() -> None:
    assert match_of(size=[None, None, 1])[:2] == [-1, -1]
    assert match_of(size=[1, 1, 1], load=[None, 0.1, 0.2])[0] == -1


def test_items_are_alike_where_all_session_fields_are() -> None:
    given = [
        ("in", 1.0),
        ("out", 1.0),
        ("in", 1.2),
        ("in", 7.0),
        (None, 1.0),
        (None, 1.0),
        ("new", 1.0),
        ("newer", 1.0),
    ]
    items = [Arrival(i, i, direction, load, 0.0, 1.0, False) for i, (direction, load) in enumerate(given)]

    def alike(*session: str) -> list[list[int]]:
        numbers = encode(frame_of(items), session=session).alike.tolist()
        return [[j for j in range(i) if numbers[j] == numbers[i] >= 0] for i in range(len(numbers))]

    assert alike("direction") == [[], [], [0], [0, 2], [], [4], [], []]
    assert alike("direction", "load") == [[], [], [0], [], [], [4], [], []]
    assert alike() == [[]] * 8


def test_numbers_match_by_bin_and_projected_ones_not_at_all() -> None:
    match = match_of(load=[0.6, 1.4, 1.5, 99.0])
    assert match[0] == match[1] != match[2] == match[3]
    assert match_of(heat=[1.0, 1.0]) == [-1, -1]
    match = match_of(size=[1, 1], heat=[0.0, 9.0])
    assert match[0] == match[1]


def test_values_of_other_tangles_do_not_match() -> None:
    tangles = encode(frame_of(arrivals(3), arrivals(3)))
    assert not set(tangles.match[:3].tolist()) & set(tangles.match[3:].tolist())


def test_match_fields_of_huge_ranges_do_not_overflow() -> None:
    n = 40
    names = [f"f{i}" for i in range(12)]
    rng = np.random.default_rng(0)
    same = rng.integers(0, 2, n)
    columns = {f"value.{name}": same * int(rng.integers(2**40)) for name in names}
    frame = pl.DataFrame({"tangle": [0] * n, "key": np.arange(n), **columns})
    vocabulary = Vocabulary(
        tuple(FieldVocabulary(name, "categorical") for name in names), VOCABULARY.labels, VOCABULARY.label_names
    )
    schema = Schema(values=tuple(Field(name, kind="categorical") for name in names), labels=("kind", "side"))
    match = encode_tangles(frame, schema, vocabulary).match
    for i in range(n):
        assert ((match == match[i]) == (same == same[i])).all()


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([5, 7, 5, None, 7]),
        pl.Series([-(2**63) + 1, 2**63 - 1, -(2**63) + 1, None, 2**63 - 1]),
        pl.Series(["x", "", "x", None, ""]),
        pl.Series([0.25, 0.5, 0.25, None, 0.5]),
        pl.Series([10**12, 3, 10**12, None, 3]),
    ],
    ids=["small", "extreme", "text", "fractions", "sparse"],
)
def test_factor_numbers_the_different_values(column: pl.Series) -> None:
    found = factor(column).tolist()
    assert found[0] == found[2] and found[1] == found[4]
    assert found[3] == 0
    assert len({found[0], found[1], 0}) == 3
    assert min(found) == 0


def test_factor_of_nothing() -> None:
    assert factor(pl.Series([None, None], dtype=pl.Int64)).tolist() == [0, 0]
    assert factor(pl.Series([], dtype=pl.String)).tolist() == []


def test_extreme_keys_stay_in_their_tangles() -> None:
    lows, highs = -(2**63) + 1, 2**63 - 1
    frame = frame_of(arrivals(4), arrivals(4)).with_columns(
        key=pl.Series([lows, highs, lows, highs, lows, highs, lows, highs])
    )
    assert encode(frame).sequences.sequence.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]


def test_gaps_exist_only_where_times_do() -> None:
    frame = frame_of(arrivals())
    assert encode(frame).gaps is not None
    untimed = encode(frame.drop("time"))
    assert untimed.gaps is None and untimed.time is None
    assert log_gap(np.array([0.0, 1e-6, 2e-6, 1.0, 1e30])).tolist() == [0, 0, 1, 19, GAP_STEPS - 1]


def test_items_as_text() -> None:
    texts = describe_items(encode(frame_of(arrivals())), [1, 0])
    assert texts[0] == "1/in/1/0"
    assert len(texts) == 2


def test_two_million_items_in_a_few_seconds() -> None:
    """Ten million take five times as long: no loop over items anywhere."""
    n = 2_000_000
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "tangle": np.repeat(np.arange(n // 1000), 1000),
            "key": rng.integers(0, 10, n),
            "time": np.tile(np.arange(1000.0), n // 1000),
            "value.size": rng.integers(0, 1500, n),
            "value.direction": rng.integers(0, 2, n),
        }
    ).with_columns(pl.when(pl.col("key") < 5).then(pl.lit("a")).otherwise(pl.lit("b")).alias("label.app"))
    schema = Schema(
        values=(Field("size", kind="categorical"), Field("direction", kind="categorical")),
        labels=("app",), session=("direction",),
    )  # fmt: skip
    started = time.process_time()
    tangles = encode_tangles(frame, schema, Vocabulary.fit(frame, schema))
    assert tangles.previous_match.max() < n
    assert time.process_time() - started < 12
    assert tangles.n_sequences == 20_000


def test_a_key_that_returns_may_have_another_label_but_a_sequence_has_one() -> None:
    items = {
        "key": [1, 1, 1, 1],
        "size": [1, 2, 3, 4],
        "label": ["a", "a", "b", "b"],
        "end": [False, True, False, True],
    }
    schema = Schema.from_dict({"key": "key", "values": "size", "label": "label", "end": "end"})
    table = read_table(items, schema)
    tangles = encode_tangles(table.frame, table.schema, Vocabulary.fit(table.frame, table.schema))
    assert tangles.labels[:, 0].tolist() == [0, 1]
    table = read_table(items | {"label": ["a", "b", "b", "b"]}, schema)
    with pytest.raises(DataError, match=r"row 2, column 'label': the label becomes 'b' inside a sequence of key 1"):
        encode_tangles(table.frame, table.schema, Vocabulary.fit(table.frame, table.schema))
