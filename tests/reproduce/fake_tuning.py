"""A stand-in for tuning in processes, which need no torch for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from kvec.reproduce.plan import Cell, Outcome, Sizes
from kvec.words.errors import DataError

WORK = "tests.reproduce.fake_tuning:tune_cell"


def tune_cell(cell: Cell, sizes: Sizes, data: Mapping[str, str]) -> Outcome:
    """As many trials as were asked for; what else is done is told by what `data` has for the training."""
    wish = data.get(cell.training, "")
    if wish == "refuses":
        raise DataError("there is no such file")
    if wish == "dies":
        os.kill(os.getpid(), 9)
    if wish == "lasts":
        (Path(data["folder"]) / f"{os.getpid()}.pid").touch()
        time.sleep(60)
    trial = {
        "training": cell.training, "settings": {"training.learning_rate": 0.002}, "dataset": cell.dataset,
        "train_seconds": sizes.train_seconds, "epochs": 3, "accuracy": 0.75, "earliness": 0.25,
    }  # fmt: skip
    return Outcome({}, [{**trial, "number": n, "hm": n / 10} for n in range(int(data["tuning.trials"]))])
