"""What `kvec serve` refuses before it serves, and what is exported from its state."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from tests.doors.made import Trained
from tests.doors.service.serviced import opened, rows_of, taken, told

from kvec.doors.cli import run
from kvec.doors.service.bodies import JSON
from kvec.doors.service.bodies import rows_of as read_rows
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.versions import Version


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["{model}", "--host", "0.0.0.0"], "name a file of tokens with --token-file"),
        (["{model}", "{model}"], "name each"),
        (["a=b=c/d"], "no such model folder"),
        (["../x={model}"], "a model's name has letters"),
        (["none"], "no such model folder"),
        (["{model}", "--port", "70000"], "--port is 70000"),
        (["{model}", "--every", "100"], "--every is '100'"),
        (["{model}", "--replay", "x.parquet", "--state", "kept"], "leave out --state"),
        (["{model}", "--replay", "x.parquet", "--speed", "0"], "--speed is 0"),
        (["{model}", "--max-body", "0"], "--max-body is 0"),
        (["{model}", "--expiry", "-1"], "--expiry is -1"),
        (["{model}", "--deadline", "-1"], "--deadline is -1"),
        (["{model}", "--token-file", "none"], "cannot read tokens"),
        (["{model}", "--event-time", "soon"], "--event-time"),
        (["{model}", "--replay", "none.parquet"], "none.parquet"),
        (["{model}", "--at", "earliness=7"], "earliness is 7"),
    ],
)
def test_what_cannot_be_served_is_refused(
    lively: Trained, refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str],
    why: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    port = [] if "--port" in words else ["--port", "0"]
    assert why in refused("serve", *(word.format(model=lively.model) for word in words), *port)


def test_a_port_that_is_taken_is_told(lively: Trained, refused: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert "choose another --port" in refused("serve", lively.model, "--port", str(port))


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_a_hangup_while_it_starts_does_not_end_it() -> None:
    code = (
        "import os, signal; from kvec.doors.cli import run; from kvec.doors.service import serving; "
        "serving.serve = lambda wishes: os.kill(os.getpid(), signal.SIGHUP) or 0; "
        "raise SystemExit(run(['serve', 'model']))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_its_packages_it_says_how_to_install_them(
    lively: Trained, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "uvicorn" else real(name, *rest)
    )
    assert "pip install 'kvec[serve]'" in refused("serve", lively.model)


def test_a_model_that_learns_from_what_was_exported_takes_over(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept" / "default")
    taken(served, rows_of(lively, 2400))
    labels = lively.frame.select("tangle", "key", "label").unique(maintain_order=True).to_dicts()
    served.label(read_rows(orjson.dumps(labels), JSON, Bounds()))
    served.close()
    table = tmp_path / "labelled.parquet"
    assert run(["serve-export", str(tmp_path / "kept"), "-o", str(table)]) == 0
    quick = ["--set", "training.epochs=1", "--set", "encoder.width=16", "--set", "encoder.fusion=16"]
    assert run(["train", str(table), "-o", str(tmp_path / "newer"), *quick]) == 0
    again = opened(lively, tmp_path / "kept" / "default")
    assert again.truths.n_labelled > 0
    again.take_over(Version.read(tmp_path / "newer"))
    assert again.stream.n_models == 2 and again.truths.accuracy is None, "of the newer model nothing is known yet"
    taken(again, rows_of(lively, 3))
    again.close()


def test_labelled_sequences_are_exported(
    lively: Trained, tmp_path: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    served = opened(lively, tmp_path / "kept" / "default")
    taken(served, rows_of(lively, 1500))
    decision = told(served)[-1]
    early = {"tangle": "later", "key": "a", "label": decision["label"]}
    labels: list[dict[str, Any]] = [{**early, "tangle": decision["tangle"], "key": decision["key"]}, early]
    answer = served.label(read_rows(orjson.dumps(labels), JSON, Bounds()))
    assert (answer["taken"], answer["decided"]) == (2, 1)
    served.close()
    assert run(["serve-export", str(tmp_path / "kept"), "-o", str(tmp_path / "labelled.parquet")]) == 0
    assert "; 1 sequence left out, as too little is known of the beginning" in capsys.readouterr().err
    table = pl.read_parquet(tmp_path / "labelled.parquet")
    assert table.columns == ["tangle", "key", "time", "label", "size", "direction"]
    sent = [
        row for row in rows_of(lively, 1500) if (row["tangle"], row["key"]) == (decision["tangle"], decision["key"])
    ]
    assert table["size"].to_list() == [row["size"] for row in sent]
    assert table["label"].unique().to_list() == [decision["label"]]
    again = tmp_path / "again.parquet"
    assert run(["serve-export", str(tmp_path / "kept" / "default"), "-o", str(again)]) == 0
    assert pl.read_parquet(again).equals(table), "the folder of one model in the state is as good"
    assert run(["serve-export", str(tmp_path / "kept"), "-o", str(again)]) == 0, "what it has written it may replace"
    (tmp_path / "kvec.toml").write_text('key = "mine"\n')
    said = refused("serve-export", tmp_path / "kept", "-o", tmp_path / "kvec.parquet")
    assert f"{tmp_path / 'kvec.toml'} is there already and says something else" in said
    assert not (tmp_path / "kvec.parquet").exists()
    assert (tmp_path / "kvec.toml").read_text() == 'key = "mine"\n'
    said = refused("serve-export", tmp_path / "kept" / "default", "--model", "other", "-o", again)
    assert "is the folder of one model; leave out --model" in said
    said = refused("serve-export", tmp_path / "kept", "--model", "other", "-o", again)
    assert "has no labels of 'other'; give --model default" in said
    assert "no labels were kept" in refused("serve-export", tmp_path, "-o", tmp_path / "x.parquet")
