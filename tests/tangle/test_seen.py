"""Marks by which a model knows sequences again."""

from __future__ import annotations

import numpy as np
import polars as pl

from kvec.tangle.seen import seen_again, seen_marks, sequence_marks

FRAME = pl.DataFrame({
    "tangle": ["a", "a", "a", "b", "b"], "key": [1, 2, 1, 1, 3], "time": [0.0, 1.0, 2.0, 0.0, 1.0],
    "value.size": [5, 6, 7, 5, 9], "value.word": ["x", None, "y", "x", "z"],
})  # fmt: skip


def test_marks_stay_the_same_between_kinds_of_files_and_orders_of_rows() -> None:
    marks = seen_marks(FRAME)
    assert marks.dtype == np.uint64 and len(marks) == 4
    same = FRAME.with_columns(pl.col("value.size").cast(pl.Float64), pl.col("key").cast(pl.String))
    same = same.select(reversed(same.columns)).reverse().with_columns(tangle=pl.col("tangle") + "!")
    assert seen_marks(same).tolist() == marks.tolist()
    assert seen_marks(FRAME[:3], FRAME).tolist() == marks.tolist()


def test_another_key_value_time_or_order_is_another_sequence() -> None:
    changes = {
        "key": pl.col("key") + 10, "value.size": pl.col("value.size") + 1, "time": pl.col("time") + 0.5,
        "value.word": pl.col("value.word").fill_null("none"),
    }  # fmt: skip
    before = sequence_marks(FRAME)["mark"]
    for name, change in changes.items():
        after = sequence_marks(FRAME.with_columns(change.alias(name)))["mark"]
        assert (after != before).any(), name
    turned = FRAME.drop("time")
    assert (sequence_marks(turned)["mark"] != sequence_marks(turned.reverse())["mark"].reverse()).any()


def test_marks_do_not_change_from_version_to_version() -> None:
    """Models hold them: another number here means that no model knows its sequences again."""
    assert sequence_marks(FRAME)["mark"][1] == 2809778600190892817


def test_what_was_seen() -> None:
    marks = seen_marks(FRAME.filter(pl.col("key") == 1))
    assert seen_again(FRAME, marks, by_tangle=True).rows() == [("a", 1), ("b", 1)], "times make every sequence known"
    timeless = FRAME.drop("time")
    some = seen_marks(timeless.filter(pl.col("key") == 1))
    assert seen_again(timeless, some, by_tangle=True).is_empty(), "alike by chance, perhaps"
    assert seen_again(timeless, some, by_tangle=False).height == 2
    assert seen_again(timeless, seen_marks(timeless), by_tangle=True).height == 4
