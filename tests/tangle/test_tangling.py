"""Order of arrival, re-tangling, splits and folds on small tables."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from kvec.tangle.tangling import PARTS, Split, arrange, folds, retangle, split, split_units, unit_of
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Tangling


def items(n_tangles: int = 20, n_keys: int = 3, n: int = 400, seed: int = 0, **extra: object) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    tangle = rng.integers(0, n_tangles, n)
    key = tangle * n_keys + rng.integers(0, n_keys, n)
    frame = pl.DataFrame({"tangle": tangle, "key": key, "time": np.round(rng.random(n), 2), "value.size": np.arange(n)})
    return frame.with_columns(**extra)


def test_arrange_keeps_ties_and_the_order_of_tangles() -> None:
    frame = pl.DataFrame(
        {
            "tangle": ["b", "a", "b", "b", "a"],
            "key": [1, 1, 2, 3, 2],
            "time": [1.0, 5.0, 0.5, 1.0, 5.0],
            "order": [2, 7, 0, 1, 7],
            "row": [1, 2, 3, 4, 5],
        }
    )
    assert arrange(frame)["row"].to_list() == [3, 4, 1, 2, 5]
    assert arrange(frame.drop("order"))["row"].to_list() == [3, 1, 4, 2, 5]
    assert arrange(frame.drop("time"))["row"].to_list() == [3, 4, 1, 2, 5]
    assert arrange(frame.drop("time", "order"))["row"].to_list() == [1, 3, 4, 2, 5]


def test_arranged_items_are_returned_as_they_are() -> None:
    frame = arrange(items())
    assert arrange(frame) is frame
    assert arrange(frame.head(0)).height == 0
    later = frame.with_columns(time=pl.when(pl.int_range(pl.len()) == 0).then(99.0).otherwise("time"))
    assert arrange(later) is not later


@pytest.mark.parametrize(
    ("n", "ratios", "sizes"),
    [
        (10, (8, 1, 1), [8, 1, 1]),
        (100, (8, 1, 1), [80, 10, 10]),
        (7, (8, 1, 1), [5, 1, 1]),
        (15, (8, 1, 1), [12, 2, 1]),
        (9, (1, 2), [3, 6]),
        (1000, (0.7, 0.2, 0.1), [700, 200, 100]),
    ],
)
def test_shares_are_exact_to_rounding(n: int, ratios: tuple[float, ...], sizes: list[int]) -> None:
    frame = pl.DataFrame({"tangle": np.arange(n), "key": np.arange(n)})
    assert [part.height for part in split(frame, ratios)] == sizes


def test_the_unit_is_found_by_itself() -> None:
    frame = items()
    assert unit_of(frame) == "tangle"
    assert unit_of(frame.with_columns(tangle=pl.lit(0))) == "key"
    assert unit_of(frame.with_columns(group=pl.col("tangle") // 2)) == "group"


def test_a_split_depends_on_names_and_seed_alone() -> None:
    frame = items()
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=3)
    as_text = frame.with_columns(pl.col("tangle").cast(pl.String))
    units = split_units(frame, seed=1)
    assert [u.to_list() for u in units] == [u.to_list() for u in split_units(shuffled, seed=1)]
    assert [[str(name) for name in u] for u in units] == [u.to_list() for u in split_units(as_text, seed=1)]
    assert [u.to_list() for u in units] != [u.to_list() for u in split_units(frame, seed=2)]


def test_a_group_is_never_cut_even_across_tangles() -> None:
    frame = items(group=pl.col("key") % 11)
    assert frame.group_by("group").agg(pl.col("tangle").n_unique())["tangle"].min() > 1  # type: ignore[operator]
    parts = split(frame)
    groups = [set(part["group"]) for part in parts]
    assert set.union(*groups) == set(frame["group"])
    assert sum(len(g) for g in groups) == 11
    assert pl.concat(parts).sort("value.size").equals(frame)
    with pytest.raises(SettingError, match="would cut"):
        split(frame, unit="tangle")


def test_a_single_tangle_is_split_by_key_and_keeps_its_name() -> None:
    frame = items(n_tangles=1, n_keys=30)
    parts = split(frame)
    assert [part["key"].n_unique() for part in parts] == [24, 3, 3]
    assert all(part["tangle"].unique().to_list() == [0] for part in parts)


def test_splits_that_cannot_be_are_refused() -> None:
    frame = items(n_tangles=2)
    with pytest.raises(SettingError, match="only 2 tangles"):
        split(frame)
    with pytest.raises(SettingError, match="above 0"):
        split(frame, (8, 0, 2))
    with pytest.raises(SettingError, match="above 0"):
        split(frame, (8,))
    with pytest.raises(SettingError, match="'link'"):
        split(frame, unit="link")
    with pytest.raises(SettingError, match="no group column"):
        split(frame, unit="group")
    with pytest.raises(DataError, match="group is missing in 1 rows"):
        split(frame.with_columns(group=pl.Series([None, *range(frame.height - 1)])))


def test_a_part_is_found_again_and_other_data_refused() -> None:
    frame = items()
    made = Split.of(frame, seed=5)
    again = Split.from_dict(made.to_dict())
    assert again == made
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    for name, part in zip(PARTS, split(frame, seed=5), strict=True):
        assert made.part(frame, name).equals(part)
        assert again.part(shuffled, name).sort("value.size").equals(part.sort("value.size"))
    with pytest.raises(DataError, match="cannot be found again"):
        made.part(frame.filter(pl.col("tangle") > 0), "test")
    with pytest.raises(SettingError, match="unknown part 'dev'"):
        made.part(frame, "dev")
    with pytest.raises(SettingError, match="three"):
        Split.of(frame, (9, 1))
    with pytest.raises(SettingError, match="fingerprint"):
        Split.from_dict({"seed": 1})
    with pytest.raises(SettingError, match="three numbers"):
        Split.from_dict(made.to_dict() | {"ratios": [8, "x"]})


def test_folds_test_and_validate_every_unit_once() -> None:
    frame = items(n_tangles=40, n=2000)
    made = list(folds(frame, seed=2))
    assert len(made) == 5
    names = [[set(part["tangle"]) for part in fold] for fold in made]
    for train, validation, test in names:
        assert (len(train), len(validation), len(test)) == (32, 4, 4)
        assert not train & validation and not train & test and not validation & test
    evaluated = [unit for _, validation, test in names for unit in validation | test]
    assert sorted(evaluated) == list(range(40))
    shares = split_units(frame, (1,) * 10, seed=2)
    assert names[3][2] == set(shares[6]) and names[3][1] == set(shares[7])
    with pytest.raises(SettingError, match="at least 2"):
        next(folds(frame, n=1))
    with pytest.raises(SettingError, match="only 4 tangles"):
        next(folds(items(n_tangles=4)))


def test_retangle_by_order_takes_turns() -> None:
    frame = pl.DataFrame({"tangle": [0] * 9, "key": list("aabbbcccd"), "value.size": range(9)})
    made = retangle(frame, Tangling(number=2), seed=4)
    assert made.schema["tangle"] == pl.Int64
    assert made["tangle"].unique().sort().to_list() == [0, 1]
    assert made.group_by("tangle").agg(pl.col("key").n_unique())["key"].to_list() == [2, 2]
    assert arrange(made) is made
    for _, tangle in made.group_by("tangle", maintain_order=True):
        index = tangle.with_columns(pl.int_range(pl.len()).over("key").alias("index"))["index"]
        assert index.is_sorted()
        assert tangle["order"].to_list() == list(range(tangle.height))
        turns = tangle.head(2)["key"].to_list()
        assert len(set(turns)) == 2
    assert {tuple(t["key"]) for t in made.partition_by("tangle")} != {
        tuple(t["key"]) for t in retangle(frame, Tangling(number=2), seed=5).partition_by("tangle")
    }


def test_retangle_by_order_forgets_times_that_no_longer_agree() -> None:
    made = retangle(items(), Tangling(number=4, clock="order"))
    assert "time" not in made.columns
    assert arrange(made) is made


@pytest.mark.parametrize("of", ["key", "group"])
def test_retangle_on_a_common_clock_starts_each_at_zero(of: str) -> None:
    frame = items(group=pl.col("tangle"))
    made = retangle(frame, Tangling(number=3, of=of, clock="common"), seed=1)
    starts = made.group_by("tangle", of).agg(pl.col("time").min())
    assert starts["time"].to_list() == [0.0] * starts.height
    spread = made.group_by("tangle").agg(pl.col(of).n_unique()).sort("tangle")[of].to_list()
    assert spread[:-1] == [3] * (len(spread) - 1) and 1 <= spread[-1] <= 3
    assert arrange(made) is made


@pytest.mark.parametrize("of", ["key", "group"])
def test_who_comes_first_on_a_common_clock_is_drawn(of: str) -> None:
    """The order of a table may be that of classes, as where each class has a file, and must not tell them."""
    n = 200
    frame = pl.DataFrame({"tangle": range(n), "key": range(n), "group": range(n), "time": [5.0] * n})
    made = retangle(frame, Tangling(number=2, of=of, clock="common"), seed=1)
    pairs = made.group_by("tangle", maintain_order=True).agg("key")["key"].to_list()
    in_order = sum(first < second for first, second in pairs)
    assert 30 <= in_order <= 70, "half of 100, within four standard deviations"


def test_retangle_on_the_real_clock_changes_no_time() -> None:
    frame = items().with_columns(order=pl.int_range(pl.len()))
    made = retangle(frame, Tangling(number=5, clock="real"))
    assert made.sort("value.size")["time"].equals(frame["time"])
    assert all(t["time"].is_sorted() for t in made.partition_by("tangle"))
    assert arrange(made) is made


def test_keys_of_one_name_stay_apart() -> None:
    frame = pl.DataFrame({"tangle": ["x", "x", "y", "y"], "key": [1, 2, 1, 1], "value.size": [10, 11, 12, 13]})
    made = retangle(frame, Tangling(number=3))
    assert set(made["key"]) == {"x/1", "x/2", "y/1"}
    assert made.select("tangle", "key").n_unique() == 3
    assert retangle(frame.filter(pl.col("tangle") == "x"), Tangling(number=2)).schema["key"] == pl.Int64


def test_retangle_says_what_it_needs() -> None:
    frame = items()
    with pytest.raises(SettingError, match="no group column"):
        retangle(frame, Tangling(number=2, of="group"))
    for clock in ("real", "common"):
        with pytest.raises(SettingError, match="no time column"):
            retangle(frame.drop("time"), Tangling(number=2, clock=clock))
