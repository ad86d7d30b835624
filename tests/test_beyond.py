"""The scripts of experiments/beyond run, on a little made traffic, and add their rows."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "experiments" / "beyond"


@pytest.mark.parametrize(
    ("words", "n_rows"),
    [
        ("per_class.py made --tangles 40 --epochs 1 --halves 8", 8),
        ("open_set.py made --tangles 60 --classes 1 --epochs 1", 14),
    ],
)
def test_every_script_adds_its_rows(words: str, n_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, *given = words.split()
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [script, *given, "-o", str(tmp_path / "rows.csv")])
    runpy.run_path(str(FOLDER / script), run_name="__main__")
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == n_rows
