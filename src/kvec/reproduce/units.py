"""What a cell keeps beside the points of its curves: accuracy by items seen, and the outcome of every test unit.

A unit is what splits never cut: a group, a tangle, or a key. Units are the same for all methods of a data set and seed,
whether a network sees tangles or single sequences, so that methods can be compared pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from kvec.decide.triggers.base import Ints, Prefixes
from kvec.report.metrics import accuracy, area_under_roc
from kvec.reproduce.prefix_classifiers import TOLD
from kvec.tangle.tangles import Tangles
from kvec.tangle.tangling import unit_of

UNIT = "unit"
FIRST, END = "first", "end"  # curves of one point: every sequence decided at its first item, or at its last


class Stopped(NamedTuple):
    """Where a method halts test sequences at a point of its curve."""

    method: str
    curve: str
    setting: float
    stops: Ints  # (S,)
    validated: float | None = None  # HM on validation, of a point that was chosen there


def with_units(frame: pl.DataFrame) -> pl.DataFrame:
    """Items with the name of their unit, which stays when they are tangled anew."""
    return frame.with_columns(pl.col(unit_of(frame)).cast(pl.String).alias(UNIT))


def by_items(cell: str, test: Prefixes) -> list[dict[str, Any]]:
    """Accuracy, and with two classes the area under ROC, after n items of every sequence, and at the end."""
    rows = []
    for n in (*TOLD, None):
        stops = test.length if n is None else np.minimum(test.length, n)
        row = {"cell": cell, "n_observed": "" if n is None else n}
        row["accuracy"] = f"{accuracy(test.truth, test.predicted(stops)):.5f}"
        if test.n_classes == 2:
            row["auc"] = f"{area_under_roc(test.truth, test.probabilities[test.rows(stops), 1]):.5f}"
        rows.append(row)
    return rows


def by_unit(points: Iterable[Stopped], training: str, tangles: Tangles, test: Prefixes) -> Any:
    """Of every point of every method and each unit: its sequences, how many are right, the sum of their earliness."""
    is_known = tangles.labels[:, 0] >= 0
    names, unit = np.unique(tangles.frame[UNIT].to_numpy()[tangles.sequences.first][is_known], return_inverse=True)
    ends = (
        Stopped(training, FIRST, 0.0, np.ones_like(test.length)),
        Stopped(training, END, 0.0, test.length),
    )
    found = [
        pl.DataFrame({
            "method": each.method, "curve": each.curve, "setting": f"{each.setting:.6g}", UNIT: names,
            "sequences": np.bincount(unit).astype(np.int32),
            "right": np.bincount(unit, test.predicted(each.stops) == test.truth).astype(np.int32),
            "late": np.bincount(unit, each.stops / test.length).astype(np.float32),
        })
        for each in (*points, *ends)
    ]  # fmt: skip
    return pl.concat(found)
