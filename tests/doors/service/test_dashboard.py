"""The examples name what is there: metrics that the service tells, flags and words that it knows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.doors.made import Trained
from tests.doors.service.serviced import opened, rows_of, taken

from kvec.doors.cli import run
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.hub import Hub

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "serve"


def queries(found: Any) -> list[str]:
    """Every query of a dashboard, wherever it stands."""
    if isinstance(found, list):
        return [query for one in found for query in queries(one)]
    if isinstance(found, dict):
        own = [found["expr"]] if "expr" in found else []
        own += [found["query"]] if str(found.get("query", "")).startswith("label_values(") else []
        return own + [query for one in found.values() for query in queries(one)]
    return []


def test_every_metric_of_the_dashboard_is_told(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept", expiry=1.0)
    served.meters.read(Hub({"default": served}, Bounds()).facts, lambda: 0)
    taken(served, rows_of(lively, 1500), [{}])
    served.meters.answered("/v1/items", 200)
    told_names = set()
    for family in text_string_to_metric_families(served.meters.text().decode()):
        told_names |= {family.name} | {sample.name for sample in family.samples}
    served.close()
    asked = queries(json.loads((EXAMPLES / "grafana.json").read_text()))
    names = {name for query in asked for name in re.findall(r"\b(?:kvec|process|python)_\w+", query)}
    assert len(asked) > 10 and len(names) > 10
    assert names <= told_names


@pytest.mark.parametrize("name", ["kvec.service", "Containerfile"])
def test_flags_of_the_examples_are_known(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = next(line for line in (EXAMPLES / name).read_text().splitlines() if "kvec" in line and "--state" in line)
    flags = set(re.findall(r"--[a-z-]+", command))
    assert run(["serve", "--help"]) == 0
    shown = capsys.readouterr().out
    assert {"--state", "--token-file"} <= flags and all(flag in shown for flag in flags)
