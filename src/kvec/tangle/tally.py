"""What a vocabulary is learned from, gathered part by part from a table of which only a part is in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.tangle.vocabulary import FieldVocabulary, Vocabulary, known_values, quantiles
from kvec.words.schema import Field, Schema

MOST = 1 << 20  # different values, or numbers, of a field that are kept; beyond, rare values go, and numbers are drawn
Floats = npt.NDArray[np.float64]


@dataclass
class Tally:
    """The values, numbers and classes of all parts so far."""

    schema: Schema
    seed: int = 0
    _fields: dict[str, _Counts | _Drawn | _Moments] = field(default_factory=dict)
    _classes: dict[str, set[str]] = field(default_factory=dict)

    def add(self, frame: pl.DataFrame) -> None:
        """Take one more part into account."""
        for given in self.schema.values:
            kept = self._fields.setdefault(given.name, _empty(given, self.seed))
            kept.add(frame[f"value.{given.name}"].drop_nulls())
        for name in self.schema.label_names:
            self._classes.setdefault(name, set()).update(frame[f"label.{name}"].drop_nulls().unique().to_list())

    def vocabulary(self) -> Vocabulary:
        """As `Vocabulary.fit` has it of all parts at once; of more than a million numbers, bins are those of a draw."""
        fields = [self._fields[given.name].learned(given) for given in self.schema.values]
        return Vocabulary.of(fields, [sorted(self._classes[name]) for name in self.schema.label_names], self.schema)


@dataclass
class _Counts:
    """How often each value of a categorical field was seen; the rarest go where there are too many."""

    counts: pl.DataFrame | None = None

    def add(self, values: pl.Series) -> None:
        more = values.alias("value").value_counts()
        if self.counts is not None:
            before = self.counts
            if before["value"].dtype != more["value"].dtype:  # one part holds whole numbers alone, the other does not
                before, more = (each.with_columns(pl.col("value").cast(pl.String)) for each in (before, more))
            more = pl.concat([before, more]).group_by("value").agg(pl.col("count").sum())
        if more.height > MOST:
            more = more.sort("count", "value", descending=[True, False]).head(MOST)
        self.counts = more

    def learned(self, given: Field) -> FieldVocabulary:
        assert self.counts is not None
        return known_values(given.name, self.counts)


@dataclass
class _Drawn:
    """As many numbers as are kept at the most, drawn evenly from all that were seen."""

    rng: np.random.Generator
    numbers: Floats = field(default_factory=lambda: np.empty(0))
    lots: Floats = field(default_factory=lambda: np.empty(0))

    def add(self, values: pl.Series) -> None:
        more = values.to_numpy()
        self.numbers = np.concatenate([self.numbers, more])
        self.lots = np.concatenate([self.lots, self.rng.random(len(more))])
        if len(self.lots) > MOST:
            kept = np.argpartition(self.lots, MOST)[:MOST]
            self.numbers, self.lots = self.numbers[kept], self.lots[kept]

    def learned(self, given: Field) -> FieldVocabulary:
        return FieldVocabulary(given.name, "binned", edges=quantiles(self.numbers, given.bins))


@dataclass
class _Moments:
    """Count, mean and standard deviation, joined part by part."""

    n: int = 0
    mean: float = 0.0
    deviation: float = 0.0

    def add(self, values: pl.Series) -> None:
        more = values.to_numpy()
        if not len(more):
            return
        if not self.n:
            self.n, self.mean, self.deviation = len(more), float(more.mean()), float(more.std())
            return
        n, apart = self.n + len(more), float(more.mean()) - self.mean
        spread = self.n * self.deviation**2 + len(more) * float(more.std()) ** 2 + apart**2 * self.n * len(more) / n
        self.mean += apart * len(more) / n
        self.n, self.deviation = n, float(np.sqrt(spread / n))

    def learned(self, given: Field) -> FieldVocabulary:
        if not self.n:
            return FieldVocabulary(given.name, "projected")
        return FieldVocabulary(given.name, "projected", mean=self.mean, scale=self.deviation or 1.0)


def _empty(given: Field, seed: int) -> _Counts | _Drawn | _Moments:
    if given.kind == "categorical":
        return _Counts()
    return _Drawn(np.random.default_rng(seed)) if given.kind == "binned" else _Moments()
