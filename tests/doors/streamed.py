"""What the tests of streams share: rows as files, decisions by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kvec.doors.cli import run


def written(frame: pl.DataFrame, path: Path) -> Path:
    """Rows as a file, by its ending."""
    getattr(frame, f"write_{path.suffix.removeprefix('.')}")(path)
    return path


def decided(path: Path) -> dict[str, dict[str, Any]]:
    """The decisions in a file by name, each of them there once."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    named = {row["id"]: row for row in rows}
    assert len(named) == len(rows), "a decision is there twice"
    return named


def assert_same(found: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]]) -> None:
    """The same decisions, up to rounding."""
    assert found.keys() == wanted.keys()
    for name, one in found.items():
        for column in ("tangle", "key", "sequence", "label", "n_observed", "reason"):
            assert one[column] == wanted[name][column], (name, column)
        assert one["probability"] == pytest.approx(wanted[name]["probability"], abs=1e-5)


def streamed(*arguments: str | Path, code: int = 0) -> None:
    """Run `kvec stream`."""
    assert run(["stream", *map(str, arguments)]) == code
