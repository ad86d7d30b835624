"""What the tests of the doors share: flags, a tiny network, and a trained model in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

FLAGS = (
    "--key", "key", "--tangle", "tangle", "--time", "time", "--values", "size,direction", "--session", "direction",
    "--label", "label",
)  # fmt: skip
TINY = (
    "--set", "encoder.width=16", "--set", "encoder.feed_forward=16", "--set", "encoder.fusion=16",
    "--set", "encoder.blocks=1", "--set", "encoder.heads=2", "--epochs", "1",
)  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """A folder with items.parquet and the model that was trained on it with a split 8:1:1."""

    folder: Path

    @property
    def items(self) -> str:
        return str(self.folder / "items.parquet")

    @property
    def model(self) -> str:
        return str(self.folder / "model")

    @property
    def frame(self) -> pl.DataFrame:
        return pl.read_parquet(self.items)
