"""What is learned from the training split before training: values, bins, scales and class names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.words.errors import DataError
from kvec.words.schema import Field, Schema

MISSING, UNKNOWN, FIRST_KNOWN = 0, 1, 2
MOST_VALUES = 32_768  # known values of a field at the most, the most frequent ones
MIN_COUNT = 2  # rarer values train the 'unknown' embedding
FARTHEST = 1000.0  # scales from the mean; one absurd number must not drown the others
MANY = 64  # whole numbers with more values than this are also told by quantile, so that near ones are alike


@dataclass(frozen=True)
class FieldVocabulary:
    """The known values of one field: names, bin edges, or a mean and a scale, by its kind.

    A categorical field of many whole numbers has edges too: each of its items then has two codes.
    """

    name: str
    kind: str
    values: tuple[str | int, ...] = ()
    edges: tuple[float, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes, 'missing' and 'unknown' included, of each code that an item of this field has."""
        known = FIRST_KNOWN + len(self.values)
        bins = FIRST_KNOWN + len(self.edges) + 1
        if self.kind == "binned":
            return (bins,)
        return (known, bins) if self.edges else (known,)

    def codes(self, column: pl.Series) -> list[npt.NDArray[np.int32]]:
        """The codes of every entry: 0 missing, 1 unknown, then the known ones."""
        if self.kind == "binned":
            return [self._bins(column)]
        known = pl.Series(self.values, dtype=pl.String if _is_text(self.values) else pl.Int64)
        if known.dtype != column.dtype:
            same = column.cast(pl.String)
            known = known.cast(pl.String)
        else:
            same = column
        codes = same.replace_strict(known, np.arange(len(known), dtype=np.int32) + FIRST_KNOWN, default=UNKNOWN)
        exact = np.where(column.is_null().to_numpy(), MISSING, codes.to_numpy()).astype(np.int32)
        return [exact, self._bins(column)] if self.edges else [exact]

    def _bins(self, column: pl.Series) -> npt.NDArray[np.int32]:
        numbers = column.cast(pl.Float64, strict=False).to_numpy()
        bins = np.searchsorted(np.asarray(self.edges), numbers, side="right") + FIRST_KNOWN
        return np.where(np.isnan(numbers), MISSING, bins).astype(np.int32)

    def numbers(self, column: pl.Series) -> npt.NDArray[np.float32]:
        """A projected field as two numbers per entry: the standardised value, and whether it is missing."""
        missing = column.is_null().to_numpy()
        scaled = (column.fill_null(self.mean).to_numpy() - self.mean) / self.scale
        return np.stack([np.clip(scaled, -FARTHEST, FARTHEST), missing], axis=1).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the model folder."""
        by_kind: dict[str, dict[str, Any]] = {
            "categorical": {"values": list(self.values), "edges": list(self.edges)},
            "binned": {"edges": list(self.edges)},
            "projected": {"mean": self.mean, "scale": self.scale},
        }
        return {"name": self.name, "kind": self.kind, **by_kind[self.kind]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> FieldVocabulary:
        """Read what `to_dict` wrote."""
        entries: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}
        return cls(**entries)


@dataclass(frozen=True)
class Vocabulary:
    """The known values of every field, and the class names of every label column."""

    fields: tuple[FieldVocabulary, ...]
    labels: tuple[tuple[str, ...], ...]
    label_names: tuple[str, ...]

    @classmethod
    def fit(cls, frame: pl.DataFrame, schema: Schema) -> Vocabulary:
        """Learn from the canonical frame of the training split alone."""
        classes = [frame[f"label.{name}"].drop_nulls().unique().sort().to_list() for name in schema.label_names]
        return cls.of([_fit_field(field, frame[f"value.{field.name}"]) for field in schema.values], classes, schema)

    @classmethod
    def of(cls, fields: Sequence[FieldVocabulary], classes: Sequence[Sequence[str]], schema: Schema) -> Vocabulary:
        """Fields and class names, of which there must be enough to tell apart."""
        for name, found in zip(schema.label_names, classes, strict=True):
            if len(found) < 2:
                raise DataError(
                    f"label column {name!r} has {len(found)} class(es) in the training data; at least 2 are needed"
                )
        return cls(tuple(fields), tuple(tuple(found) for found in classes), schema.label_names)

    @property
    def coded(self) -> tuple[FieldVocabulary, ...]:
        """The fields that have an embedding."""
        return tuple(f for f in self.fields if f.kind != "projected")

    @property
    def projected(self) -> tuple[FieldVocabulary, ...]:
        """The fields that pass through a linear layer."""
        return tuple(f for f in self.fields if f.kind == "projected")

    def first_code(self, name: str) -> int:
        """The column of `codes` in which an embedded field's codes begin."""
        names = [f.name for f in self.coded]
        return sum(len(f.sizes) for f in self.coded[: names.index(name)])

    def codes(self, frame: pl.DataFrame) -> npt.NDArray[np.int32]:
        """Codes of the embedded fields, (N, codes of all fields)."""
        columns = [codes for field in self.coded for codes in field.codes(frame[f"value.{field.name}"])]
        return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0), np.int32)

    def numbers(self, frame: pl.DataFrame) -> npt.NDArray[np.float32]:
        """Numbers of the projected fields, (N, 2 × fields)."""
        columns = [field.numbers(frame[f"value.{field.name}"]) for field in self.projected]
        return np.concatenate(columns, axis=1) if columns else np.zeros((len(frame), 0), np.float32)

    def label_codes(self, frame: pl.DataFrame) -> npt.NDArray[np.int32]:
        """Class indices of each row, (N, label columns); -1 where the label is missing or was never trained on."""
        columns = []
        for name, classes in zip(self.label_names, self.labels, strict=True):
            if (column := f"label.{name}") in frame.columns:
                codes = frame[column].replace_strict(pl.Series(classes), range(len(classes)), default=-1)
                columns.append(codes.fill_null(-1).to_numpy().astype(np.int32))
            else:
                columns.append(np.full(len(frame), -1, np.int32))
        return np.stack(columns, axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the model folder."""
        return {
            "fields": [f.to_dict() for f in self.fields],
            "labels": {name: list(c) for name, c in zip(self.label_names, self.labels, strict=True)},
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Vocabulary:
        """Read what `to_dict` wrote."""
        labels = plain["labels"]
        return cls(
            tuple(FieldVocabulary.from_dict(f) for f in plain["fields"]),
            tuple(tuple(c) for c in labels.values()),
            tuple(labels),
        )


def _is_text(values: Sequence[str | int]) -> bool:
    return bool(values) and isinstance(values[0], str)


def _fit_field(field: Field, column: pl.Series) -> FieldVocabulary:
    present = column.drop_nulls()
    if field.kind == "categorical":
        return known_values(field.name, present.alias("value").value_counts())
    numbers = present.to_numpy()
    if field.kind == "binned":
        return FieldVocabulary(field.name, "binned", edges=quantiles(numbers, field.bins))
    if not len(numbers):
        return FieldVocabulary(field.name, "projected")
    return FieldVocabulary(field.name, "projected", mean=float(numbers.mean()), scale=float(numbers.std()) or 1.0)


def known_values(name: str, counts: pl.DataFrame) -> FieldVocabulary:
    """The categorical field of a `value` and `count` table."""
    ranked = counts.filter(pl.col("count") >= MIN_COUNT).sort("count", "value", descending=[True, False])
    often = ranked["value"].head(MOST_VALUES).sort()
    edges = quantiles(often.to_numpy(), MANY) if often.dtype == pl.Int64 and len(often) > MANY else ()
    return FieldVocabulary(name, "categorical", values=tuple(often.to_list()), edges=edges)


def quantiles(numbers: npt.NDArray[np.generic], bins: int) -> tuple[float, ...]:
    """The inner edges of bins that hold about as many numbers each."""
    if not len(numbers):
        return ()
    cuts = np.quantile(numbers.astype(np.float64), np.linspace(0, 1, bins + 1)[1:-1])
    return tuple(float(edge) for edge in np.unique(cuts))
