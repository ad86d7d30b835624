"""Promises in worlds whose risk is known: broken no more often than δ allows, and not loose.

A shorter version of experiments/promise/simulate.py, which has more worlds, and both α.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = 129  # of 2,000 at δ = 0.05: three standard deviations above 100


@pytest.fixture(scope="module")
def simulation() -> Any:
    folder = str(ROOT / "experiments" / "promise")
    sys.path.insert(0, folder)
    try:
        yield __import__("simulate")
    finally:
        sys.path.remove(folder)
        del sys.modules["simulate"]


@pytest.mark.parametrize(
    "world",
    [
        "one key", "8 keys together", "1 to 8 keys together, larger are riskier", "1 to 8 keys alone", "brink, one key",
        "brink, 1 to 8 keys together",
    ],
)  # fmt: skip
def test_promises_hold_and_are_not_loose(simulation: Any, world: str) -> None:
    (chosen,) = (each for each in simulation.WORLDS if each.name == world)
    found = simulation.simulate(chosen, "betting", 0.1, 2000, seed=11)
    assert found["broken"] <= MOST
    assert found["refused"] == 0
    assert chosen.is_brink or found["mean_risk_over_alpha"] >= 0.5


def test_the_published_results_say_the_same() -> None:
    with (ROOT / "experiments" / "promise" / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {(row["draws"], row["alpha"]) for row in rows} == {("2000", "0.02"), ("2000", "0.1")}
    assert max(int(row["broken"]) for row in rows) <= MOST
    bets = [row for row in rows if row["bound"] == "betting" and not row["world"].startswith("brink")]
    assert len(bets) == 14
    assert min(float(row["mean_risk_over_alpha"]) for row in bets) >= 0.5
