"""How the model that `kvec demo --web` shows was made: `python -m kvec.doors.demo_model FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from kvec.estimator import KVEC
from kvec.read.rows import read_table
from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic
from kvec.words.config import Config

TANGLES = (480, 40)  # to train on, and to choose by; unseen traffic has other seeds
SEEDS = (1, 2)
THRESHOLD = 0.5  # by validation a much lower one is as good; here the bars shall be seen to grow
SETTINGS = (
    "encoder.width=32", "encoder.feed_forward=64", "encoder.fusion=64", "encoder.positions=64", "training.epochs=14",
    "training.patience=14",
)  # fmt: skip


def make(folder: Path) -> None:
    """Train the model, and leave it in a folder."""
    tables = [read_table(demo_traffic(n, seed), DEMO_SCHEMA) for n, seed in zip(TANGLES, SEEDS, strict=True)]
    model = KVEC.from_config(Config.preset("small").override(list(SETTINGS)), schema=DEMO_SCHEMA)
    model.fit(*tables).at(threshold=THRESHOLD).save(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
