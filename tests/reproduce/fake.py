"""A stand-in for training: cells that are over at once, that last, that fail, or that take their process with them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from kvec.reproduce.plan import Cell, Outcome, Profile, Sizes
from kvec.words.errors import DataError

WORK = "tests.reproduce.fake:run_cell"


def cell(name: str, seed: int = 0, dataset: str = "planted", overrides: tuple[str, ...] = ()) -> Cell:
    return Cell(dataset, name, "", None, seed, "smoke", overrides, digest=" ".join(("d", *overrides)))


def profile(*datasets: str, sizes: Sizes | None = None) -> Profile:
    names = datasets or ("planted",)
    every = dict.fromkeys(names, sizes or Sizes(train_seconds=1.0))
    return Profile("smoke", names, dict.fromkeys(names, (0,)), every, dict.fromkeys(names, ()), is_tuned=False)


def outcome(of: Cell, accuracy: float = 0.5) -> Outcome:
    point = {"cell": of.id, "method": of.training, "curve": "chosen", "setting": "0.5", "earliness": 0.1}
    return Outcome(
        {"seconds": 0.1, "commit": "abc", "n_train": 7},
        [{**point, "accuracy": accuracy}, {**point, "curve": "moved", "accuracy": accuracy}],
        [{"cell": of.id, "earliness": 0.1, "inside": 0.9, "outside": 0.1, "items": 3, "accuracy": accuracy}],
        [{"cell": of.id, "method": of.training, "true": 10, "n_observed": 9, "count": 2}],
        [
            {"cell": of.id, "n_observed": 1, "accuracy": accuracy},
            {"cell": of.id, "n_observed": "", "accuracy": accuracy},
        ],
    )


def run_cell(of: Cell, sizes: Sizes, data: Mapping[str, str]) -> Outcome:
    """What is done is told by the name of the training, or by what `data` has for it."""
    wish = data.get(of.training, of.training)
    if wish == "fails":
        raise ValueError("two\nlines")
    if wish == "refuses":
        raise DataError("there is no such file")
    if wish == "dies":
        os.kill(os.getpid(), 9)
    if wish == "leaves":
        os._exit(3)
    if wish == "lasts":
        (Path(data["folder"]) / f"{os.getpid()}.pid").touch()
        time.sleep(60)
    if wish == "threads":
        return Outcome({"commit": os.environ["OMP_NUM_THREADS"] + os.environ["POLARS_MAX_THREADS"]})
    return outcome(of)
