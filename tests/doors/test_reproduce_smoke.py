"""All experiments of the smoke profile, from made data to the report, as a newcomer would run them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kvec.doors import reproducing
from kvec.doors.cli import run
from kvec.reproduce.results import read_results


@pytest.mark.slow
def test_all_experiments_of_the_smoke_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run(["reproduce", "all", "--out", str(out)]) == 0, capsys.readouterr().err
    assert "failed" not in capsys.readouterr().err
    results = read_results(out)
    for name in ("cells", "points", "attention", "halts", "data"):
        assert getattr(results, name).height, name
    assert set(results.points["cell"]) == set(results.cells["cell"])
    assert results.points["accuracy"].is_between(0, 1).all() and results.points["earliness"].is_between(0, 1).all()
    with (out / "cells.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["version"] and row["started"] and float(row["train_seconds"]) > 0 for row in rows)
    assert sum(float(row["train_seconds"]) for row in rows) < 90  # of the processor; all of it stays within minutes
    assert list((out / "report").rglob("*.html")) and list((out / "report").rglob("*.svg"))
    assert run(["reproduce", "all", "--out", str(out), "--list"]) == 0
    assert f"{len(rows)} cells: {len(rows)} done, 0 to do" in capsys.readouterr().out
    assert run(["reproduce", "beyond", "--out", str(out), "--list"]) == 0
    assert "10 cells: 6 done, 4 to do" in capsys.readouterr().out  # what it compares was kept already
    with monkeypatch.context() as patch:
        patch.setattr(reproducing, "_report", lambda folder: 0)  # the last one tells of all
        assert run(["reproduce", "beyond", "--out", str(out), "--jobs", "2"]) == 0, capsys.readouterr().err
        assert run(["reproduce", "visibility", "--out", str(out), "--jobs", "2"]) == 0, capsys.readouterr().err
    assert run(["reproduce", "ratings", "--out", str(out), "--jobs", "2"]) == 0, capsys.readouterr().err
    plain = (out / "report" / "report.md").read_text(encoding="utf-8")
    for title in ("on the same test tangles", "what other keys tell", "items seen and told"):
        assert title in plain
    results = read_results(out)
    beyond = set(results.cells["cell"]) - {row["cell"] for row in rows}
    assert len(beyond) > 4 and beyond <= set(results.prefixes["cell"])
    assert set(results.paired["other"]) >= {"kvec-paper", "srn-fixed", "trees-fixed", "trees-induction", "half"}
    assert results.paired["units"].unique().to_list() == [20]
    assert (results.paired["low"] <= results.paired["high"]).drop_nulls().all()
