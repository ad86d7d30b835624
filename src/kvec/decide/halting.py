"""When a sequence is decided: at its first item whose halting score reaches θ, else at its end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.decide.reaching import first_reached
from kvec.decide.scores import Scores
from kvec.decide.unknown import Unknown
from kvec.tangle.tangles import Tangles
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.items import Decision, Reason


def first_halts(scores: Scores, threshold: float) -> npt.NDArray[np.int64]:
    """Items seen of each sequence up to its first score of at least `threshold`; 0 where there is none.

    >>> scores = Scores(np.array([0, 3, 5]), np.array([0.1, 0.6, 0.9, 0.2, 0.3], np.float32), ())
    >>> first_halts(scores, 0.5).tolist()
    [2, 0]
    """
    halt = scores.halt.astype(np.float64)  # lest θ be rounded to one of the scores it stands between
    return first_reached(scores.offsets, halt, threshold)


def decision_table(
    tangles: Tangles, vocabulary: Vocabulary, scores: Scores, threshold: float, unknown: Unknown | None = None
) -> pl.DataFrame:
    """One row per sequence: tangle, key, sequence, label(s), probability, true label(s), n_observed, length, reason.

    `is_known` follows, and `familiarity` where it was asked for.
    """
    halted = first_halts(scores, threshold)
    length = tangles.sequences.length.astype(np.int64)
    n_observed = np.where(halted > 0, halted, length)
    at = scores.offsets[:-1] + n_observed - 1
    columns: dict[str, object] = {"sequence": tangles.sequences.number}
    for i, (name, classes) in enumerate(zip(vocabulary.label_names, vocabulary.labels, strict=True)):
        suffix = "" if i == 0 else f".{name}"
        probabilities = scores.classes[i][at]
        best = probabilities.argmax(axis=1) if len(at) else np.zeros(0, np.int64)
        names = pl.Series(classes, dtype=pl.String)
        columns[f"label{suffix}"] = names.gather(best)
        columns[f"probability{suffix}"] = probabilities[np.arange(len(at)), best].astype(np.float64)
        truth = tangles.labels[:, i]
        known = names.gather(np.maximum(truth, 0))
        columns[f"true_label{suffix}"] = pl.select(pl.when(pl.Series(truth >= 0)).then(known)).to_series()
    columns["n_observed"] = n_observed
    columns["length"] = length
    columns["reason"] = np.where(halted > 0, Reason.HALTED.value, tangles.reason)
    is_known, familiarity = judged(scores, halted, length, unknown or Unknown())
    columns["is_known"] = is_known
    if familiarity is not None:
        columns["familiarity"] = familiarity
    return tangles.names().with_columns(**{k: pl.Series(k, v) for k, v in columns.items()})  # type: ignore[arg-type]


def judged(
    scores: Scores, halted: npt.NDArray[np.int64], length: npt.NDArray[np.int64], unknown: Unknown
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64] | None]:
    """Which sequences are known where they halted (0: never) or ended, and how familiar they are, where asked for."""
    n_observed = np.where(halted > 0, halted, length)
    at = scores.offsets[:-1] + n_observed - 1
    plain = scores.classes if scores.untempered is None else scores.untempered
    sure = scores.classes[0][at].max(axis=1, initial=0.0)
    return unknown.judged(sure, plain[0][at], n_observed, halted > 0)


def decisions(table: pl.DataFrame, label_names: tuple[str, ...]) -> list[Decision]:
    """The rows of a decision table as objects."""
    suffixes = ["" if i == 0 else f".{name}" for i, name in enumerate(label_names)]
    return [
        Decision(
            row["tangle"], row["key"], row["sequence"],
            tuple(row[f"label{s}"] for s in suffixes),
            tuple(row[f"probability{s}"] for s in suffixes),
            row["n_observed"], row["length"], Reason(row["reason"]),
            tuple(row[f"true_label{s}"] for s in suffixes), row["is_known"], row.get("familiarity"),
        )
        for row in table.iter_rows(named=True)
    ]  # fmt: skip
