from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from kvec.learn.display import TrainingDisplay, epoch_header, epoch_line, time_left
from kvec.learn.trainer import Step

RECORD = {
    "epoch": 2.0, "loss": 1.25, "classification": 1.0, "policy": 0.0, "lateness": 0.25, "accuracy": 0.875,
    "earliness": 0.25, "hm": 0.8077, "end_accuracy": 0.9, "seconds": 61.5,
}  # fmt: skip


def a_run(*records: dict[str, float], best: int = -1) -> Any:
    return SimpleNamespace(history=list(records), best_record=records[best])


def a_step(step: int, seconds: float, epoch: int = 0) -> Step:
    return Step(epoch, step, 10, {"loss": 1.5, "policy": 0.0, "lateness": 0.5}, seconds)


def test_a_line_per_epoch_without_a_terminal() -> None:
    screen = io.StringIO()
    with TrainingDisplay(5, console=Console(file=screen, width=80)) as shown:
        shown.on_step(a_step(1, 0.1))
        shown.on_epoch(a_run(RECORD))
        shown.on_epoch(a_run(RECORD, RECORD | {"epoch": 3.0}, best=0))
    lines = screen.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[0].split() == "epoch loss class late accuracy earliness HM at end sec".split()
    assert lines[1].split() == "2/5 1.250 1.000 0.250 0.8750 0.2500 0.8077 0.9000 61.5 best".split()
    assert lines[2].split()[0] == "3/5"
    assert not lines[2].endswith("best")


def test_lines_and_names_stand_in_columns() -> None:
    terms = ("loss", "classification", "lateness", "every")
    header, line = epoch_header(terms), epoch_line(RECORD, terms, 5, is_best=True)
    assert len(header) == len(line) - len("  best")
    assert len(line) <= 80, "fits the narrowest terminal"


def test_a_terminal_shows_terms_and_time_left() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=120, force_terminal=True, color_system=None)
    with TrainingDisplay(2, console=console) as shown:
        shown.on_step(a_step(5, 1.0))
        assert shown._progress is not None
        shown._progress.refresh()
    drawn = screen.getvalue()
    assert "epoch 1/2" in drawn
    assert "loss 1.500  late 0.500" in drawn
    assert "at most 0:03 left" in drawn


def test_time_left() -> None:
    assert time_left(3, 0.0, [], a_step(5, 2.0)) == pytest.approx(2 + 2 * 4), "from the pace of this epoch"
    assert time_left(3, 0.0, [10.0], a_step(5, 2.0, epoch=1)) == pytest.approx(8 + 10), "from the epochs before"
    assert time_left(30, 0.5, [10.0, 10.0], a_step(5, 2.0, epoch=2)) == pytest.approx(30 - 22), "the minutes end it"
    assert time_left(30, 0.1, [10.0], a_step(5, 2.0, epoch=1)) == 0
