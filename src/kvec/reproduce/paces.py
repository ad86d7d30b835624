"""Equal time as equal counts: what an epoch costs is measured once, is kept, and holds for all seeds and values.

Processes that run cells measure one at a time, so that none of them disturbs another's measuring.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from kvec.decide.model import Network
from kvec.learn.fitting import Pace
from kvec.learn.pacing import seconds_per_epoch
from kvec.reproduce.plan import Cell, Sizes
from kvec.reproduce.resolved import pace_of
from kvec.tangle.tangles import Tangles
from kvec.words.config import Config

PLACE = "paces"  # what processes are told beside the paths of data sets: where paces are kept
NAME, LOCK = "paces.csv", ".paces.lock"
COLUMNS = ("pace", "dataset", "training", "seconds_per_epoch", "measured")
SHARE = 0.06  # of the given time, spent on measuring


def paced(cell: Cell, sizes: Sizes, data: Mapping[str, str]) -> Pace | None:
    """How many epochs a cell gets for its time; None where it is given epochs, not time."""
    if not sizes.train_seconds:
        return None
    folder = Path(data[PLACE]) if PLACE in data else None
    return partial(_epochs, cell, sizes, folder)


def epochs_within(seconds: float, per_epoch: float, most: int) -> int:
    """The epochs that fit, at least one.

    >>> epochs_within(240, 19.5, 1000), epochs_within(1, 19.5, 1000), epochs_within(240, 0.1, 1000)
    (12, 1, 1000)
    """
    return min(max(round(seconds / per_epoch), 1), most)


def kept_pace(folder: Path, pace: str, cell: Cell, measure: Callable[[], float]) -> float:
    """Seconds of an epoch by the folder's table; measured, and added to it, where it has none."""
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / LOCK):
        if (known := _read(folder / NAME).get(pace)) is not None:
            return known
        found = f"{measure():.5g}"
        _add(folder / NAME, (pace, cell.dataset, cell.training, found, datetime.now(UTC).isoformat(timespec="seconds")))
        return float(found)


def _epochs(cell: Cell, sizes: Sizes, folder: Path | None, network: Network, training: Tangles, config: Config) -> int:
    measure = partial(seconds_per_epoch, network, training, config, SHARE * sizes.train_seconds)
    per_epoch = measure() if folder is None else kept_pace(folder, pace_of(cell, sizes), cell, measure)
    return epochs_within(sizes.train_seconds, per_epoch, config.training.epochs)


def _read(path: Path) -> dict[str, float]:
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == len(COLUMNS)]
    return {row[0]: float(row[3]) for row in rows[1:]}


def _add(path: Path, row: tuple[str, ...]) -> None:
    """Add a row in one piece, after whatever an interrupted process left in the last line."""
    written = path.read_bytes() if path.is_file() else b""
    whole = written[: written.rfind(b"\n") + 1] or (",".join(COLUMNS) + "\n").encode()
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(whole + (",".join(row) + "\n").encode())
    draft.replace(path)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process measures; the lock falls when its process ends, however that be."""
    with lock.open("a+b") as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
