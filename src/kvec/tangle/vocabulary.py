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
MIN_COUNT = 2  # rarer values train the 'unknown' embedding


@dataclass(frozen=True)
class FieldVocabulary:
    """The known values of one field: names, bin edges, or a mean and a scale, by its kind."""

    name: str
    kind: str
    values: tuple[str | int, ...] = ()
    edges: tuple[float, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @property
    def size(self) -> int:
        """Number of codes, 'missing' and 'unknown' included."""
        known = len(self.values) if self.kind == "categorical" else len(self.edges) + 1
        return FIRST_KNOWN + known

    def codes(self, column: pl.Series) -> npt.NDArray[np.int32]:
        """The code of every entry: 0 missing, 1 unknown, then the known ones."""
        if self.kind == "binned":
            bins = np.searchsorted(np.asarray(self.edges), column.to_numpy(), side="right") + FIRST_KNOWN
            return np.where(column.is_null().to_numpy(), MISSING, bins).astype(np.int32)
        known = pl.Series(self.values, dtype=pl.String if _is_text(self.values) else pl.Int64)
        if known.dtype != column.dtype:
            column = column.cast(pl.String)
            known = known.cast(pl.String)
        codes = column.replace_strict(known, np.arange(len(known), dtype=np.int32) + FIRST_KNOWN, default=UNKNOWN)
        return np.where(column.is_null().to_numpy(), MISSING, codes.to_numpy()).astype(np.int32)

    def numbers(self, column: pl.Series) -> npt.NDArray[np.float32]:
        """A projected field as two numbers per entry: the standardised value, and whether it is missing."""
        missing = column.is_null().to_numpy()
        scaled = (column.fill_null(self.mean).to_numpy() - self.mean) / self.scale
        return np.stack([scaled, missing], axis=1).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the model folder."""
        by_kind: dict[str, dict[str, Any]] = {
            "categorical": {"values": list(self.values)},
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
        classes = []
        for name in schema.label_names:
            found = frame[f"label.{name}"].drop_nulls().unique().sort().to_list()
            if len(found) < 2:
                raise DataError(
                    f"label column {name!r} has {len(found)} class(es) in the training data; at least 2 are needed"
                )
            classes.append(tuple(found))
        fields = tuple(_fit_field(field, frame[f"value.{field.name}"]) for field in schema.values)
        return cls(fields, tuple(classes), schema.label_names)

    @property
    def coded(self) -> tuple[FieldVocabulary, ...]:
        """The fields that have an embedding."""
        return tuple(f for f in self.fields if f.kind != "projected")

    @property
    def projected(self) -> tuple[FieldVocabulary, ...]:
        """The fields that pass through a linear layer."""
        return tuple(f for f in self.fields if f.kind == "projected")

    def codes(self, frame: pl.DataFrame) -> npt.NDArray[np.int32]:
        """Codes of the embedded fields, (N, fields)."""
        columns = [field.codes(frame[f"value.{field.name}"]) for field in self.coded]
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
        counts = present.value_counts()
        often = counts.filter(pl.col("count") >= MIN_COUNT)[column.name].sort()
        return FieldVocabulary(field.name, "categorical", values=tuple(often.to_list()))
    numbers = present.to_numpy()
    if field.kind == "binned":
        cuts = np.quantile(numbers, np.linspace(0, 1, field.bins + 1)[1:-1]) if len(numbers) else np.zeros(0)
        return FieldVocabulary(field.name, "binned", edges=tuple(float(edge) for edge in np.unique(cuts)))
    if not len(numbers):
        return FieldVocabulary(field.name, "projected")
    return FieldVocabulary(field.name, "projected", mean=float(numbers.mean()), scale=float(numbers.std()) or 1.0)
