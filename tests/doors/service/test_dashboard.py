"""The examples name what is there: metrics that the service tells, flags and words that it knows, paths and extras."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.doors.made import Trained
from tests.doors.service.serviced import opened, rows_of, taken

from kvec.doors.cli import run
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.hub import Hub
from kvec.doors.service.openapi import PATHS
from kvec.doors.service.serving import Wishes

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "serve"


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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_is_content_with_the_unit(tmp_path: Path) -> None:
    text = (EXAMPLES / "kvec.service").read_text()
    assert text.count("/opt/kvec/bin/kvec") == 1
    unit = tmp_path / "kvec.service"
    unit.write_text(text.replace("/opt/kvec/bin/kvec", shutil.which("true") or "/bin/true"))
    said = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    own = [line for line in said.stderr.splitlines() if "kvec" in line]  # others are about units of this machine
    assert (said.returncode, own) == (0, [])


def test_tokens_that_are_copied_at_the_start_are_told_to_need_a_restart() -> None:
    unit = (EXAMPLES / "kvec.service").read_text()
    assert "LoadCredential=tokens:" in unit and "--token-file %d/tokens" in unit
    for text in (unit, (ROOT / "docs" / "serve.md").read_text()):
        assert "systemctl restart kvec" in text


def test_the_containerfile_names_what_is_there() -> None:
    text = (EXAMPLES / "Containerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    build = next(line for line in text.splitlines() if line.startswith("# podman build"))
    assert "--format docker" in build and (ROOT / build.split("-f ")[1].split()[0]).is_file()
    assert "COPY . /source" in text
    for path in re.findall(r"/source/([\w./-]+)", text):
        assert (ROOT / path).exists(), path
    for extras in re.findall(r"/source\[([\w,-]+)\]", text):
        assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    for version in re.findall(r"FROM python:(\d+\.\d+)", text):
        least = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"])
        assert least and tuple(map(int, version.split("."))) >= (int(least[1]), int(least[2]))
    port, path = re.findall(r"http://127\.0\.0\.1:(\d+)(/[\w/]+)", text)[0]
    assert path in PATHS and f"EXPOSE {port}\n" in text and int(port) == Wishes([]).port
    assert "kvec" in project["scripts"] and '"/opt/kvec/bin/kvec"' in text
