"""Reading in windows takes the memory of a window, not that of the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.processes import side_by_side

from kvec.learn.material import material_of
from kvec.learn.streamed import Streamed, streamed_material, survey
from kvec.learn.together import ALONE
from kvec.read.rows import read_table
from kvec.read.shards import open_shards
from kvec.tangle.tangling import Split, arrange
from kvec.words.config import Training
from kvec.words.schema import Field, Schema

STATUS = Path("/proc/self/status")
N_ITEMS, WINDOW = 1_200_000, 100_000
SCHEMA = Schema(
    tangle="tangle", order="order", labels=("label",),
    values=(Field("size", kind="categorical"), Field("gap", kind="projected")),
)  # fmt: skip


def items(n: int) -> pl.DataFrame:
    """Tangles of 300 items of twenty keys each, so that they are dealt out."""
    rng = np.random.default_rng(0)
    number = np.arange(n)
    key = number % 20
    return pl.DataFrame({
        "tangle": number // 300, "key": key, "order": number % 300, "size": rng.integers(0, 1500, n),
        "gap": rng.normal(size=n), "label": np.where((number // 300 + key) % 2, "web", "mail"),
    })  # fmt: skip


def peak() -> float:
    """The most memory that this process has had, in MB; what `resource` says begins with that of the parent."""
    (line,) = [line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM")]
    return float(line.split()[1]) / 1024


def in_windows(path: Path, most: int) -> float:
    """The growth of memory from a small set to the given one, all of whose windows are read once."""
    for n, file in ((WINDOW, path.with_name("small.parquet")), (N_ITEMS, path)):
        shards = open_shards(file, SCHEMA)
        before = peak()
        settings = Training(stream_items=most)
        material = streamed_material(shards, survey(shards, settings, (8, 1, 1)), settings, None)
        assert isinstance(material.training, Streamed)
        _, portions = material.training.epoch(0, settings, np.random.default_rng(0), ALONE)
        n_items = sum(len(portion.batch.items) for portion in portions)
        assert n_items == material.about["train_items"] > 0.7 * n
    return peak() - before


def in_memory(path: Path) -> float:
    """The same of a table in memory."""
    for file in (path.with_name("small.parquet"), path):
        before = peak()
        table = read_table(file, SCHEMA)
        split = Split.of(table.frame)
        training, validation = (arrange(split.part(table.frame, name)) for name in ("train", "validation"))
        material_of(training, validation, table.schema, split)
    return peak() - before


@pytest.mark.skipif(not STATUS.exists(), reason="memory is read from /proc")
def test_the_window_bounds_the_memory(tmp_path: Path) -> None:
    for n, name in ((WINDOW, "small.parquet"), (N_ITEMS, "large.parquet")):
        items(n).write_parquet(tmp_path / name, row_group_size=50_000)
    ((windows,), (whole,)) = (side_by_side(*each) for each in (
        (in_windows, [(tmp_path / "large.parquet", WINDOW)]), (in_memory, [(tmp_path / "large.parquet",)]),
    ))  # fmt: skip
    assert whole > 100, "large enough to tell"
    assert windows < whole / 4
