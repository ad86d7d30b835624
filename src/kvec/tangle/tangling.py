"""Order of arrival, re-tangling single sequences, and splits that never cut a group (§III and §V-A of the paper).

All functions take and return canonical frames: `tangle`, `key`, perhaps `group`, `time` and `order`, and the values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Tangling

PARTS = ("train", "validation", "test")
UNITS = ("group", "tangle", "key")


def arrange(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort into order of arrival: tangles by first appearance, inside by time, then order; ties as given.

    >>> arrange(pl.DataFrame({"tangle": [7, 3, 7], "key": [1, 1, 2], "time": [2.0, 0.0, 1.0]})).rows()
    [(7, 2, 1.0), (7, 1, 2.0), (3, 1, 0.0)]
    """
    clock = [name for name in ("time", "order") if name in frame.columns]
    if _is_arranged(frame, clock):
        return frame
    first = frame.select("tangle").unique(maintain_order=True).with_row_index("__first")
    ranked = frame.select("tangle", *clock).join(first, on="tangle", how="left", maintain_order="left")
    places = ranked.select(pl.arg_sort_by("__first", *clock, maintain_order=True)).to_series()
    return frame[places]


def tangled(frame: pl.DataFrame, tangling: Tangling | None, seed: int = 0) -> pl.DataFrame:
    """The items in order of arrival, made into new tangles where that is asked for."""
    return retangle(frame, tangling, seed) if tangling else arrange(frame)


def retangle(frame: pl.DataFrame, tangling: Tangling, seed: int = 0) -> pl.DataFrame:
    """Make new tangles, numbered from 0, each of `tangling.number` randomly chosen sequences or groups.

    With the clock `order`, items arrive by their index within their own sequence and keep no time; sequences of a
    tangle take turns in an order drawn by the seed. So do those that begin together on a `common` clock: the order of
    the table may be that of classes. The last tangle holds what is left over.
    """
    _refuse_without(frame, tangling)
    sequence = ["tangle", "key"]
    unit = ["group"] if tangling.of == "group" else sequence
    rng = np.random.default_rng(seed)
    members = _by_name(frame.select(unit).unique())
    drawn = rng.permutation(members.height)
    sequences = _by_name(frame.select(sequence).unique())
    turns = rng.permutation(sequences.height)
    is_ambiguous = sequences["key"].n_unique() < sequences.height

    items = arrange(frame).join(
        members.with_columns(pl.Series("__drawn", drawn), pl.Series("__place", drawn // tangling.number, pl.Int64)),
        on=unit, how="left", maintain_order="left",
    )  # fmt: skip
    if tangling.clock == "order":
        items = items.join(
            sequences.with_columns(pl.Series("__turn", turns)), on=sequence, how="left", maintain_order="left"
        )
        items = items.with_columns(pl.int_range(pl.len()).over(sequence).alias("__index"))
        items = items.sort("__place", "__index", "__turn", maintain_order=True)
        items = items.drop("time", strict=False).drop("__index", "__turn")
    elif tangling.clock == "common":
        items = items.with_columns(pl.col("time") - pl.col("time").min().over(unit))
        items = items.sort("__place", "time", "__drawn", maintain_order=True)
    else:
        items = items.sort("__place", "time", maintain_order=True)

    changes = [pl.col("__place").alias("tangle")]
    if is_ambiguous:
        changes.append(pl.concat_str("tangle", "key", separator="/").alias("key"))
    if tangling.clock == "order" or "order" in items.columns:
        changes.append(pl.int_range(pl.len()).over("__place").alias("order"))
    return items.with_columns(changes).drop("__place", "__drawn")


def unit_of(frame: pl.DataFrame, unit: str = "auto") -> str:
    """The column whose values stay whole in a split: group, else tangle, else (in a single tangle) key."""
    if unit == "auto":
        unit = "group" if "group" in frame.columns else "tangle" if frame["tangle"].n_unique() > 1 else "key"
    if unit not in UNITS:
        raise SettingError(f"split.unit is {unit!r}; it can be auto, {', '.join(UNITS)}")
    if unit not in frame.columns:
        raise SettingError(f"split.unit is {unit!r}, but the data has no {unit} column; name it in the schema")
    if unit != "group" and "group" in frame.columns:
        spread = frame.group_by("group").agg(pl.col(unit).n_unique().alias("n")).filter(pl.col("n") > 1)
        if spread.height:
            raise SettingError(
                f"splitting by {unit} would cut {spread.height} groups, such as {spread['group'][0]!r}; "
                "split by group, or leave the group column out of the schema"
            )
    if missing := frame[unit].null_count():
        raise DataError(f"{unit} is missing in {missing} rows, so they belong to no part of a split; fill them first")
    return unit


def split_units(
    frame: pl.DataFrame, ratios: Sequence[float] = (8, 1, 1), seed: int = 0, unit: str = "auto"
) -> tuple[pl.Series, ...]:
    """The names of the units in each part: sorted, then shuffled by the seed, then shared out by the ratios.

    >>> items = pl.DataFrame({"tangle": list(range(10)), "key": list(range(10))})
    >>> [len(part) for part in split_units(items)]
    [8, 1, 1]
    """
    column = unit_of(frame, unit)
    names = _by_name(frame.select(column).unique()).to_series()
    order = np.random.default_rng(seed).permutation(len(names))
    cuts = np.cumsum(_shares(len(names), ratios, column))[:-1]
    return tuple(names[part] for part in np.split(order, cuts))


def split(
    frame: pl.DataFrame, ratios: Sequence[float] = (8, 1, 1), seed: int = 0, unit: str = "auto"
) -> tuple[pl.DataFrame, ...]:
    """Share the items out by whole groups, tangles or keys; the rows of each part keep their order."""
    return _gather(frame, unit_of(frame, unit), split_units(frame, ratios, seed, unit))


def folds(
    frame: pl.DataFrame, seed: int = 0, n: int = 5, unit: str = "auto"
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]]:
    """Train, validation and test of each fold: of 2n random shares, fold f tests on 2f and validates on 2f+1."""
    if n < 2:
        raise SettingError(f"{n} folds were asked for; at least 2 are needed")
    column = unit_of(frame, unit)
    shares = split_units(frame, (1,) * (2 * n), seed, unit)
    for f in range(n):
        rest = pl.concat([share for g, share in enumerate(shares) if g not in (2 * f, 2 * f + 1)])
        train, validation, test = _gather(frame, column, (rest, shares[2 * f + 1], shares[2 * f]))
        yield train, validation, test


@dataclass(frozen=True)
class Split:
    """A split into train, validation and test that can be found again in the same data."""

    ratios: tuple[float, float, float]
    seed: int
    unit: str  # group, tangle or key
    fingerprint: str  # of the units' names and the number of items: other data is refused

    @classmethod
    def of(
        cls, frame: pl.DataFrame, ratios: Sequence[float] = (8, 1, 1), seed: int = 0, unit: str = "auto",
        n_items: int | None = None,
    ) -> Split:  # fmt: skip
        """The split of this frame, which may name the units of `n_items` items rather than hold them."""
        if len(ratios) != len(PARTS):
            raise SettingError(
                f"split.ratios has {len(ratios)} shares; give three, for {', '.join(PARTS)}, as in 8:1:1"
            )
        column = unit_of(frame, unit)
        train, validation, test = (float(ratio) for ratio in ratios)
        split_units(frame, ratios, seed, column)
        n_items = frame.height if n_items is None else n_items
        return cls((train, validation, test), seed, column, _fingerprint(frame[column], n_items))

    def part(self, frame: pl.DataFrame, name: str) -> pl.DataFrame:
        """One part of the frame this split was made from: train, validation or test."""
        if name not in PARTS:
            raise SettingError(f"unknown part {name!r} of a split; it can be {', '.join(PARTS)}")
        column = unit_of(frame, self.unit)
        if _fingerprint(frame[column], frame.height) != self.fingerprint:
            raise DataError(
                f"this data does not hold the {column}s that were split when the model was trained, so its {name} part "
                "cannot be found again; give the same data, or evaluate the whole file without a split"
            )
        units = split_units(frame, self.ratios, self.seed, column)[PARTS.index(name)]
        return _gather(frame, column, (units,))[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `from_dict` reads it."""
        return asdict(self) | {"ratios": list(self.ratios)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Split:
        """Read a split from plain data."""
        names = {f.name for f in fields(cls)}
        if plain.keys() != names:
            raise SettingError(
                f"a split needs {', '.join(sorted(names))}; found {', '.join(sorted(plain)) or 'nothing'}"
            )
        try:
            train, validation, test = (float(ratio) for ratio in plain["ratios"])
            return cls((train, validation, test), int(plain["seed"]), str(plain["unit"]), str(plain["fingerprint"]))
        except (TypeError, ValueError):
            raise SettingError("a split needs three numbers as ratios and a whole number as seed") from None


def _is_arranged(frame: pl.DataFrame, clock: Sequence[str]) -> bool:
    """Whether each tangle stands in one run and its clock never goes back."""
    tangle = pl.col("tangle")
    is_same = tangle == tangle.shift(1)
    goes_on = pl.lit(True)
    for name in reversed(clock):
        now, before = pl.col(name), pl.col(name).shift(1)
        goes_on = (now > before) | ((now == before) & goes_on)
    checks = frame.select(
        runs=(~is_same).sum() + 1,
        is_ordered=(~is_same | goes_on).slice(1).fill_null(False).all(),
        tangles=tangle.n_unique(),
    )
    return frame.height < 2 or (checks["is_ordered"][0] and checks["runs"][0] == checks["tangles"][0])


def _refuse_without(frame: pl.DataFrame, tangling: Tangling) -> None:
    if tangling.of == "group" and "group" not in frame.columns:
        raise SettingError("tangling.of is 'group', but the data has no group column; name it in the schema")
    if tangling.clock != "order" and "time" not in frame.columns:
        raise SettingError(
            f"tangling.clock is {tangling.clock!r}, but the data has no time column; name it, or use clock = 'order'"
        )


def _by_name(units: pl.DataFrame) -> pl.DataFrame:
    """Sort by the text of the names, so that numbers and the same numbers read as text come in one order."""
    return units.sort(*(pl.col(name).cast(pl.String) for name in units.columns))


def _shares(n: int, ratios: Sequence[float], column: str) -> npt.NDArray[np.int64]:
    """Whole numbers that sum to n, each within one of its exact share (largest remainders go first)."""
    weights = np.asarray(ratios, dtype=np.float64)
    text = ":".join(f"{ratio:g}" for ratio in weights)
    if not (len(weights) > 1 and np.isfinite(weights).all() and (weights > 0).all()):
        raise SettingError(f"split.ratios is {text}; give two or more numbers above 0, as in 8:1:1")
    exact = weights / weights.sum() * n
    shares: npt.NDArray[np.int64] = np.floor(exact + 1e-9).astype(np.int64)
    neediest = np.argsort(shares - exact, kind="stable")
    shares[neediest[: n - shares.sum()]] += 1
    if shares.min() == 0:
        raise SettingError(
            f"a split {text} leaves a part empty: there are only {n} {column}s; give more data, or separate files"
        )
    return shares


def _gather(frame: pl.DataFrame, column: str, parts: Sequence[pl.Series]) -> tuple[pl.DataFrame, ...]:
    """The rows of each part, by the units it holds."""
    numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    owner = pl.DataFrame({column: pl.concat(list(parts)), "__part": numbers.astype(np.int16)})
    of = frame.select(column).join(owner, on=column, how="left", maintain_order="left")["__part"]
    return tuple(frame.filter((of == i).fill_null(False)) for i in range(len(parts)))


def _fingerprint(units: pl.Series, n_items: int) -> str:
    names = units.unique().cast(pl.String).sort()
    return hashlib.blake2b("\n".join([units.name, str(n_items), *names]).encode(), digest_size=16).hexdigest()
