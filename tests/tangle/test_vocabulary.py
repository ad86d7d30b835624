"""Known, unknown, rare and missing values; bins, scales and class names; all from the training data alone."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from tests.paper.slow import slow_bin

from kvec.tangle.vocabulary import MANY, MISSING, UNKNOWN, FieldVocabulary, Vocabulary
from kvec.words.errors import DataError
from kvec.words.schema import Field, Schema

SCHEMA = Schema(
    values=(
        Field("size", kind="categorical"),
        Field("kind", kind="categorical"),
        Field("load", kind="binned", bins=4),
        Field("heat", kind="projected"),
    ),
    labels=("app", "side"),
)


def training_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "value.size": [40, 40, 1500, 1500, 52, None, 40, 7],
            "value.kind": ["x", "y", "x", "y", None, "x", "once", "y"],
            "value.load": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, None],
            "value.heat": [1.0, 3.0, 5.0, None, 3.0, 3.0, 1.0, 5.0],
            "label.app": ["web", "mail", "web", "mail", "video", "web", "web", None],
            "label.side": ["no", "yes", "no", "yes", "no", "yes", "no", "yes"],
        }
    )


def test_known_rare_unknown_and_missing_values() -> None:
    size = Vocabulary.fit(training_frame(), SCHEMA).fields[0]
    assert size.values == (40, 1500)  # 52 and 7 were seen once only: they train 'unknown'
    assert size.sizes == (4,)
    (codes,) = size.codes(pl.Series([40, 1500, 52, 9999, None]))
    assert codes.tolist() == [2, 3, UNKNOWN, UNKNOWN, MISSING]
    kind = Vocabulary.fit(training_frame(), SCHEMA).fields[1]
    assert kind.codes(pl.Series(["y", "x", "once", "", None]))[0].tolist() == [3, 2, UNKNOWN, UNKNOWN, MISSING]


def test_a_column_may_come_as_text_at_use() -> None:
    size = FieldVocabulary("size", "categorical", values=(40, 1500), edges=(100.0,))
    exact, bins = size.codes(pl.Series(["40", "1500", "-", None]))
    assert exact.tolist() == [2, 3, UNKNOWN, MISSING]
    assert bins.tolist() == [2, 3, MISSING, MISSING]
    text = FieldVocabulary("kind", "categorical", values=("1", "a"))
    assert text.codes(pl.Series([1, 2, None]))[0].tolist() == [2, UNKNOWN, MISSING]


@pytest.mark.parametrize("column", [pl.Series([1, None]), pl.Series(["a", None])], ids=["numbers", "text"])
def test_nothing_but_rare_values(column: pl.Series) -> None:
    assert FieldVocabulary("size", "categorical").codes(column)[0].tolist() == [UNKNOWN, MISSING]


def test_many_whole_numbers_are_told_by_quantile_too() -> None:
    numbers = np.repeat(np.arange(0, 300, 3), 2)
    frame = pl.DataFrame({"value.size": numbers, "label.app": ["a", "b"] * 100})
    size = Vocabulary.fit(frame, Schema(values=(Field("size", kind="categorical"),), labels=("app",))).fields[0]
    assert len(size.values) == 100
    assert size.sizes == (102, len(size.edges) + 3)
    assert 0 < len(size.edges) < MANY
    exact, bins = size.codes(pl.Series([0, 3, 150, 151, 297, 10_000, None]))
    assert exact.tolist() == [2, 3, 52, UNKNOWN, 101, UNKNOWN, MISSING]
    assert bins.tolist() == [slow_bin(x, size.edges) for x in (0, 3, 150, 151, 297, 10_000, None)]
    assert bins[2] == bins[3]  # near numbers are alike, though one was never seen


def test_bins_are_cut_at_quantiles_of_the_training_data() -> None:
    load = Vocabulary.fit(training_frame(), SCHEMA).fields[2]
    assert load.edges == (1.5, 3.0, 4.5)
    asked = [-99.0, 1.4, 1.5, 3.0, 4.4, 4.5, 1e9, None]
    (codes,) = load.codes(pl.Series(asked))
    assert codes.tolist() == [2, 2, 3, 4, 4, 5, 5, MISSING] == [slow_bin(x, load.edges) for x in asked]
    assert load.sizes == (6,)
    assert codes.max() < load.sizes[0]


def test_equal_quantiles_make_one_edge() -> None:
    frame = training_frame().with_columns(pl.lit(2.0).alias("value.load"))
    assert Vocabulary.fit(frame, SCHEMA).fields[2].edges == (2.0,)


def test_projected_numbers_are_standardised() -> None:
    heat = Vocabulary.fit(training_frame(), SCHEMA).fields[3]
    present = np.array([1.0, 3.0, 5.0, 3.0, 3.0, 1.0, 5.0])
    assert (heat.mean, heat.scale) == (pytest.approx(present.mean()), pytest.approx(present.std()))
    found = heat.numbers(pl.Series([3.0, None, 5.0]))
    assert found[:, 1].tolist() == [0, 1, 0]
    assert found[:, 0].tolist() == pytest.approx([0, 0, 2 / present.std()])
    assert heat.numbers(pl.Series([3, None])).tolist() == [[0, 0], [0, 1]]


def test_absurd_numbers_stay_finite() -> None:
    heat = FieldVocabulary("heat", "projected", mean=0.0, scale=1e-3)
    assert np.isfinite(heat.numbers(pl.Series([1e300, -1e300]))).all()
    constant = Vocabulary.fit(training_frame().with_columns(pl.lit(4.0).alias("value.heat")), SCHEMA).fields[3]
    assert constant.numbers(pl.Series([4.0, 5.0]))[:, 0].tolist() == [0, 1]


def test_a_field_that_is_missing_everywhere() -> None:
    frame = training_frame().with_columns(
        pl.lit(None, pl.Float64).alias("value.heat"), pl.lit(None, pl.Float64).alias("value.load"),
        pl.lit(None, pl.Int64).alias("value.size"),
    )  # fmt: skip
    vocabulary = Vocabulary.fit(frame, SCHEMA)
    assert vocabulary.codes(frame)[:, [0, 2]].max() == MISSING
    assert vocabulary.numbers(frame).tolist() == [[0, 1]] * 8
    later = vocabulary.codes(training_frame())
    for column, field in zip(later.T, vocabulary.coded, strict=True):
        assert column.max() < field.sizes[0]


def test_labels_and_their_codes() -> None:
    vocabulary = Vocabulary.fit(training_frame(), SCHEMA)
    assert vocabulary.labels == (("mail", "video", "web"), ("no", "yes"))
    assert vocabulary.label_codes(training_frame())[:, 0].tolist() == [2, 0, 2, 0, 1, 2, 2, -1]
    other = pl.DataFrame({"label.side": ["yes", "never seen", None]})
    assert vocabulary.label_codes(other).tolist() == [[-1, 1], [-1, -1], [-1, -1]]


@pytest.mark.parametrize(("labels", "n"), [(["web"] * 8, 1), ([None] * 8, 0)])
def test_one_class_is_not_enough(labels: list[str | None], n: int) -> None:
    frame = training_frame().with_columns(pl.Series("label.side", labels, pl.String))
    with pytest.raises(DataError, match=rf"'side' has {n} class"):
        Vocabulary.fit(frame, SCHEMA)


def test_only_the_given_frame_is_learned_from() -> None:
    """Data at use gets its codes from the training data; its own values change nothing."""
    vocabulary = Vocabulary.fit(training_frame(), SCHEMA)
    strange = training_frame().with_columns(
        pl.Series("value.size", [1] * 8), pl.Series("value.kind", ["new"] * 8), pl.Series("value.load", [1e6] * 8)
    )
    before = vocabulary.to_dict()
    assert vocabulary.codes(strange)[:, :2].tolist() == [[UNKNOWN, UNKNOWN]] * 8
    assert vocabulary.codes(strange)[:, 2].tolist() == [5] * 8
    assert vocabulary.to_dict() == before
    half = Vocabulary.fit(training_frame().head(4), SCHEMA)
    assert half.fields[0].values == (40, 1500)
    assert half.labels[0] == ("mail", "web")


def test_round_trip_through_json() -> None:
    frame = training_frame().vstack(training_frame().with_columns(pl.col("value.size") + 1))
    vocabulary = Vocabulary.fit(frame, SCHEMA)
    copy = Vocabulary.from_dict(json.loads(json.dumps(vocabulary.to_dict())))
    assert copy == vocabulary
    np.testing.assert_array_equal(copy.codes(frame), vocabulary.codes(frame))
    np.testing.assert_array_equal(copy.numbers(frame), vocabulary.numbers(frame))
    np.testing.assert_array_equal(copy.label_codes(frame), vocabulary.label_codes(frame))


def test_where_the_codes_of_a_field_begin() -> None:
    wide = FieldVocabulary("size", "categorical", values=(1, 2), edges=(1.5,))
    heat = FieldVocabulary("heat", "projected")
    load = FieldVocabulary("load", "binned", edges=(0.0,))
    vocabulary = Vocabulary((wide, heat, load), (("a", "b"),), ("app",))
    assert (vocabulary.first_code("size"), vocabulary.first_code("load")) == (0, 2)
    frame = pl.DataFrame({"value.size": [2], "value.heat": [0.5], "value.load": [-1.0]})
    assert vocabulary.codes(frame).tolist() == [[3, 3, 2]]
    assert vocabulary.numbers(frame).shape == (1, 2)
