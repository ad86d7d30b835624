"""Equal time: a pace is measured once, by one process, and holds for all that costs the same."""

from __future__ import annotations

import csv
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvec.reproduce import paces
from kvec.reproduce.cell import run_cell
from kvec.reproduce.paces import PLACE, epochs_within, kept_pace
from kvec.reproduce.plan import Cell, Sizes
from kvec.reproduce.resolved import digest, pace_of

CELL = Cell("planted", "earliest", "training.beta/alpha", 0.1, 0, "smoke", ("training.beta=0.1",))
SIZES = Sizes(train=60, train_seconds=1.0)
TINY = ("encoder.width=16", "encoder.heads=2", "encoder.feed_forward=16", "encoder.fusion=16", "encoder.blocks=1")


def test_values_and_seeds_of_one_cost_share_a_pace() -> None:
    alike = [
        replace(CELL, seed=3), replace(CELL, overrides=("training.beta=0.5", "training.alpha=3", "encoder.hide=0.1")),
        replace(CELL, overrides=("training.learning_rate=0.001", "training.delay_cost=9")),
    ]  # fmt: skip
    assert {pace_of(each, SIZES) for each in alike} == {pace_of(CELL, SIZES)}
    assert pace_of(CELL, replace(SIZES, train_seconds=2.0)) == pace_of(CELL, SIZES)
    others = [
        replace(CELL, training="srn-earliest"), replace(CELL, dataset="planted@8"),
        replace(CELL, overrides=("encoder.blocks=3",)), replace(CELL, overrides=("training.policy_gradient=all",)),
        replace(CELL, overrides=("training.batch=16",)),
    ]  # fmt: skip
    assert len({pace_of(each, SIZES) for each in (CELL, *others)}) == 6
    assert pace_of(CELL, replace(SIZES, train=70)) != pace_of(CELL, SIZES)


def test_a_digest_tells_all_that_a_cell_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    own = digest(CELL, SIZES)
    assert digest(replace(CELL, setting="", value=None, overrides=("training.beta=1e-1",)), SIZES) == own
    for other in (replace(CELL, seed=1), replace(CELL, overrides=("training.beta=0.2",))):
        assert digest(other, SIZES) != own
    for changed in ({"train_seconds": 2.0}, {"test": 7}, {"epochs": 3}, {"preset": "paper-traffic"}, {"folds": 5}):
        assert digest(CELL, replace(SIZES, **changed)) != own


def test_epochs_are_those_that_fit() -> None:
    assert [epochs_within(240, each, 1000) for each in (20.0, 16.1, 1e-9, 1e9)] == [12, 15, 1000, 1]


def test_a_pace_is_measured_by_one_and_kept(tmp_path: Path) -> None:
    measured: list[float] = []
    inside = threading.Semaphore(1)

    def measure() -> float:
        assert inside.acquire(blocking=False), "two measure at a time"
        time.sleep(0.05)
        measured.append(19.0)
        inside.release()
        return 19.0

    found: list[float] = []
    askers = [
        threading.Thread(target=lambda: found.append(kept_pace(tmp_path, "a", CELL, measure))) for _ in range(4)
    ]  # fmt: skip
    for each in askers:
        each.start()
    for each in askers:
        each.join()
    assert found == [19.0] * 4 and measured == [19.0]
    with (tmp_path / "paces.csv").open("a") as file:
        file.write("b,plan")  # a process that was killed while it wrote
    assert kept_pace(tmp_path, "b", CELL, lambda: 3.14159265) == 3.1416
    assert kept_pace(tmp_path, "b", CELL, lambda: 5.0) == 3.1416
    with (tmp_path / "paces.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["pace"], row["training"], row["seconds_per_epoch"]) for row in rows] == [
        ("a", "earliest", "19"), ("b", "earliest", "3.1416"),
    ]  # fmt: skip


def test_all_values_and_seeds_are_trained_for_as_many_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.4, 0.1))
    monkeypatch.setattr(paces, "seconds_per_epoch", lambda *given: next(seconds))
    sizes = Sizes(train=40, validation=20, test=20, train_seconds=1.2)

    def epochs(cell: Cell, sizes: Sizes) -> Any:
        return run_cell(replace(cell, overrides=(*cell.overrides, *TINY)), sizes, {PLACE: str(tmp_path)}).cell["epochs"]

    assert epochs(CELL, sizes) == epochs(replace(CELL, seed=1, overrides=("training.beta=0.5",)), sizes) == 3
    assert epochs(CELL, replace(sizes, train_seconds=0.4)) == 1
    assert epochs(replace(CELL, training="srn-earliest"), sizes) == 12
