"""What `kvec demo --web` shows at once: the model that comes with kvec, and a stream of traffic that it never saw."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import polars as pl
import pytest
from tests.doors.service.processes import PATIENCE

from kvec.decide.folder import FILES
from kvec.doors import demo_model, demo_web
from kvec.doors.cli import run
from kvec.doors.measuring import evaluate_model
from kvec.estimator import load
from kvec.read.rows import read_table
from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic


def test_the_model_that_comes_with_kvec_is_small_and_good() -> None:
    found = {path.name: path.stat().st_size for path in demo_web.MODEL.iterdir()}
    assert set(found) == {"kvec.json", *FILES}  # safetensors and text
    assert sum(found.values()) < 700_000
    model = load(demo_web.MODEL)
    tangles = model.tangles(read_table(demo_traffic(40, seed=11), DEMO_SCHEMA))
    (evaluation,) = evaluate_model(model, tangles, model.scores(tangles))
    assert evaluation.halting.hm == pytest.approx(0.8638, abs=0.005)
    assert evaluation.fixed.hm == pytest.approx(0.7679, abs=0.005)


def test_how_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_model, "TANGLES", (16, 4))
    monkeypatch.setattr(demo_model, "SETTINGS", ("training.epochs=1", "encoder.width=16", "encoder.fusion=16"))
    demo_model.make(tmp_path / "model")
    assert load(tmp_path / "model").model_.schema == load(demo_web.MODEL).model_.schema
    assert demo_web.SEED not in demo_model.SEEDS


def test_the_stream_is_unseen_traffic_at_its_own_pace(tmp_path: Path) -> None:
    model, stream = demo_web.prepare(tmp_path / "none", tmp_path)
    assert model == demo_web.MODEL and not (tmp_path / "none").exists()
    flows = ("tangle", "key")
    lasting = pl.col("time").max() - pl.col("time").min()
    played = pl.read_parquet(stream)
    made = demo_traffic(demo_web.TANGLES, demo_web.SEED)
    assert played["time"].is_sorted() and played.height == made.height
    same = played.group_by(flows).agg(lasting).join(made.group_by(flows).agg(lasting), on=flows, suffix=" made")
    assert (same["time"] - same["time made"]).abs().max() == pytest.approx(0, abs=1e-9)
    begins = played.group_by("tangle").agg(pl.col("time").min()).sort("tangle")["time"].to_list()
    assert max(begins[: demo_web.AT_ONCE]) < 2 < begins[-1]


def test_the_model_of_an_earlier_demo_is_shown(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "kvec.json").write_text("{}")
    demo_traffic(2, seed=8).write_parquet(tmp_path / "unseen.parquet")
    (tmp_path / "work").mkdir()
    model, stream = demo_web.prepare(tmp_path, tmp_path / "work")
    assert model == tmp_path / "model"
    assert pl.read_parquet(stream)["tangle"].n_unique() == 2


def test_one_command_shows_decisions(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    words = ["demo", "--web", "--no-open", "--port", "0", "--out", str(tmp_path / "none")]
    process = subprocess.Popen([sys.executable, "-m", "kvec", *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = next(one for line in process.stderr if (one := re.search(r"the page is at (\S+)/ ", line)))
        assert httpx.get(f"{found[1]}/", timeout=PATIENCE).status_code == 200
        replay = httpx.get(f"{found[1]}/v1/replay", timeout=PATIENCE).json()
        assert (replay["speed"], replay["loops"]) == (0.1, True)
        until = time.monotonic() + PATIENCE
        while httpx.get(f"{found[1]}/v1/model", timeout=PATIENCE).json()["counts"]["decisions"] < 3:
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)
        process.stderr.close()
    assert code == 0
    assert list(tmp_path.iterdir()) == []  # nothing is left


def test_a_folder_is_not_needed_but_the_extra_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kvec.doors.serve_command.PACKAGES", ("no_such_package_of_all",))
    assert run(["demo", "--web"]) == 2
    assert "kvec[serve]" in capsys.readouterr().err
