"""The benchmark of fleets finds what is lost, doubled or different."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "nats" / "fleet.py"


@pytest.fixture
def showing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        monkeypatch.setenv(name, "1")  # set by the script, and undone here
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("fleet", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Told:
    """What a server would tell."""

    def __init__(self, **streams: list[tuple[float, dict[str, Any]]]) -> None:
        self.messages = streams.__getitem__


def decision(key: str, n: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"t/{key}/0", "tangle": "t", "key": key, "sequence": 0, "label": "x", "n_observed": n, "reason": "halted",
        "probability": 0.5, **more,
    }  # fmt: skip


def test_faults_are_counted(showing: ModuleType) -> None:
    wanted = {row["id"]: row for row in (decision("a"), decision("b"), decision("c"))}
    found = [(1.0, decision("a")), (2.0, decision("a")), (3.0, decision("b", label="y")), (4.0, decision("d"))]
    counts, _ = showing.checked(Told(decisions=found), wanted)
    assert counts == {"decisions": 4, "lost": 1, "new": 1, "doubled": 1, "different": 1}
    counts, _ = showing.checked(Told(decisions=[(1.0, row) for row in wanted.values()]), wanted)
    assert not any(counts[fault] for fault in showing.FAULTS)


def test_the_time_from_the_item_that_settled_it(showing: ModuleType) -> None:
    items = [(float(i), {"tangle": "t", "key": key}) for i, key in enumerate("aabab")]
    decisions = [(1.25, decision("a", 2)), (4.5, decision("b", 2)), (9.0, decision("c", reason="closed"))]
    said = showing.latencies(Told(items=items), decisions)
    assert (said["p50"], said["max"]) == (375.0, 500.0)
