"""A vocabulary that is learned part by part is that of the whole, and takes bounded memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvec.tangle import tally
from kvec.tangle.tally import Tally
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.errors import DataError
from kvec.words.schema import Field, Schema

SCHEMA = Schema(
    values=(Field("word", kind="categorical"), Field("bin", kind="binned", bins=4), Field("scale", kind="projected")),
    labels=("label",),
)
NUMBERS = st.one_of(st.none(), st.floats(-1e3, 1e3))
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), NUMBERS, NUMBERS), min_size=2, max_size=40)


def frame_of(rows: list[tuple[str | None, float | None, float | None]]) -> pl.DataFrame:
    words, bins, scales = zip(*rows, strict=True)
    return pl.DataFrame({
        "value.word": pl.Series(words, dtype=pl.String), "value.bin": pl.Series(bins, dtype=pl.Float64),
        "value.scale": pl.Series(scales, dtype=pl.Float64), "label.label": ["x", *["y"] * (len(rows) - 1)],
    })  # fmt: skip


def tallied(frame: pl.DataFrame, cuts: list[int]) -> Vocabulary:
    kept = Tally(SCHEMA)
    bounds = [0, *sorted(cuts), frame.height]
    for first, last in pairwise(bounds):
        kept.add(frame[first:last])
    return kept.vocabulary()


@given(ROWS, st.lists(st.integers(0, 40), max_size=4))
def test_parts_say_what_the_whole_says(
    rows: list[tuple[str | None, float | None, float | None]], cuts: list[int]
) -> None:
    frame = frame_of(rows)
    whole, parts = Vocabulary.fit(frame, SCHEMA), tallied(frame, [min(cut, frame.height) for cut in cuts])
    assert parts.labels == whole.labels and parts.fields[0] == whole.fields[0]
    assert parts.fields[1].edges == pytest.approx(whole.fields[1].edges)
    one, other = parts.fields[2], whole.fields[2]
    assert (one.mean, one.scale) == pytest.approx((other.mean, other.scale), rel=1e-6, abs=1e-6)


def test_one_part_is_the_whole() -> None:
    frame = frame_of([("a", 0.1, 0.3), ("a", 7.0, 1.7), ("b", 2.0, -5.1)])
    assert tallied(frame, []) == Vocabulary.fit(frame, SCHEMA)


def test_whole_numbers_meet_text() -> None:
    """A part may hold whole numbers alone where another does not; the vocabulary then knows both as text."""
    kept = Tally(Schema(values=(Field("word", kind="categorical"),), labels=("label",)))
    for words in ([40, 40], ["40", "x"]):
        kept.add(pl.DataFrame({"value.word": words, "label.label": ["a", "b"]}))
    assert kept.vocabulary().fields[0].values == ("40",)


def test_what_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST", 100)
    rng = np.random.default_rng(0)
    kept = Tally(SCHEMA)
    for part in range(20):
        words = ["often"] * 50 + [f"rare {part} {n}" for n in range(150)]
        kept.add(pl.DataFrame({
            "value.word": words, "value.bin": rng.uniform(0, 1, 200), "value.scale": rng.uniform(0, 1, 200),
            "label.label": ["x", "y"] * 100,
        }))  # fmt: skip
    counts, drawn = kept._fields["word"], kept._fields["bin"]
    assert isinstance(counts, tally._Counts) and counts.counts is not None and counts.counts.height <= 100
    assert isinstance(drawn, tally._Drawn) and len(drawn.numbers) == 100
    word, bins, scale = kept.vocabulary().fields
    assert word.values == ("often",)
    assert bins.edges == pytest.approx((0.25, 0.5, 0.75), abs=0.15)
    assert (scale.mean, scale.scale) == pytest.approx((0.5, 12**-0.5), abs=0.02)


def test_values_that_are_seen_equally_often_are_not_all_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST", 4)
    kept = Tally(Schema(values=(Field("word", kind="categorical"),), labels=("label",)))
    kept.add(pl.DataFrame({"value.word": [*"edcba"] * 50, "label.label": ["x", "y"] * 125}))
    assert kept.vocabulary().fields[0].values == ("a", "b", "c", "d")


def test_one_class_is_too_few() -> None:
    kept = Tally(SCHEMA)
    kept.add(frame_of([("a", 1.0, 1.0), ("b", 2.0, 2.0)]).with_columns(pl.lit("x").alias("label.label")))
    with pytest.raises(DataError, match="has 1 class"):
        kept.vocabulary()
