"""Which sequences a model has seen: a short mark of each, by which it knows them again in other files.

A mark is made of the key, the values in order of arrival and, where items carry times, those; not of the tangle's
name, which may be that of a file. Frames are canonical and not re-tangled yet: each part is tangled in its own way.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.tangle.tangling import arrange

_CELL, _ITEM = "\x1f", "\x1e"  # between cells, between items


def sequence_marks(frame: pl.DataFrame) -> pl.DataFrame:
    """One row for each tangle and key, with the `mark` of what it holds (64 bits)."""
    values = sorted(name for name in frame.columns if name.startswith("value."))
    cells = [_text(frame, name) for name in values]
    if "time" in frame.columns:
        cells.append((pl.col("time") * 1e6).round().cast(pl.Int64).cast(pl.String))
    item = pl.concat_str([cell.fill_null("") for cell in cells], separator=_CELL).alias("item")
    items = arrange(frame).select("tangle", "key", item)
    joined = items.group_by("tangle", "key", maintain_order=True).agg(pl.col("item").str.join(_ITEM))
    texts = joined.select(pl.concat_str(pl.col("key").cast(pl.String), "item", separator=_ITEM)).to_series()
    marks = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts]
    return joined.select("tangle", "key", pl.Series("mark", marks, pl.UInt64))


def seen_marks(*frames: pl.DataFrame) -> npt.NDArray[np.uint64]:
    """The marks of all sequences of these frames, sorted, each once."""
    return np.unique(np.concatenate([sequence_marks(frame)["mark"].to_numpy() for frame in frames]))


def seen_again(frame: pl.DataFrame, marks: npt.NDArray[np.uint64], by_tangle: bool) -> pl.DataFrame:
    """The tangles and keys of sequences that were seen.

    Without times, short sequences of one key can be alike by chance: `by_tangle`, they count only where all sequences
    of their tangle were seen.
    """
    found = sequence_marks(frame).with_columns(is_seen=pl.col("mark").is_in(pl.Series(marks).implode()))
    if by_tangle and "time" not in frame.columns:
        found = found.with_columns(pl.col("is_seen").all().over("tangle"))
    return found.filter("is_seen").select("tangle", "key")


def _text(frame: pl.DataFrame, name: str) -> pl.Expr:
    """A column as text that is the same for whole numbers whether they were read as integers or not."""
    text = pl.col(name).cast(pl.String)
    return text.str.strip_suffix(".0") if frame[name].dtype.is_float() else text
