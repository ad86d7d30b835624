"""Sequences that occur more than once: a test sequence that training holds too says little."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.tangle.tangles import Tangles


def is_new_to(training: Tangles, tangles: Tangles) -> npt.NDArray[np.bool_]:
    """(S,) whether no sequence of `training` has the same values in the same order."""
    return ~np.isin(fingerprints(tangles), fingerprints(training))


def fingerprints(tangles: Tangles) -> npt.NDArray[np.uint64]:
    """(S,) a number for each sequence that is the same where all values are the same in the same order."""
    values = [c for c in tangles.frame.columns if c.startswith("value.")]
    sequence = pl.Series("sequence", tangles.sequences.sequence)
    items = tangles.frame.select(values).with_columns(pl.Series("position", tangles.sequences.position))
    marks = items.select(pl.struct(pl.all()).hash().alias("mark")).with_columns(sequence)
    return marks.group_by("sequence").agg(pl.col("mark").sum()).sort("sequence")["mark"].to_numpy()
