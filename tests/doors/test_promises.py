"""A stream watches its model's promise, from its first item to its last, and over a stop."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.decide.made_promise import promise
from tests.doors.made import Trained

from kvec.decide.deployed import load_deployed
from kvec.decide.drift import LATE, SURE
from kvec.decide.stream import Stream
from kvec.doors.cli import run
from kvec.doors.promises import Watcher, promise_lines
from kvec.read.synthetic import demo_traffic
from kvec.words.items import Decision, Item, Reason
from kvec.words.limits import Limits


@pytest.fixture(scope="module")
def promised(lively: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("promised")
    demo_traffic(60, seed=77, keys=4).write_parquet(folder / "unseen.parquet")
    model = Path(shutil.copytree(lively.model, folder / "model"))
    assert run(["guarantee", str(model), str(folder / "unseen.parquet"), "--max-early-error", "0.1"]) == 0
    return model


def new_items(folder: Path, change: pl.Expr | None = None) -> Path:
    items = demo_traffic(40, seed=78, keys=4).sort("time", maintain_order=True)
    path = folder / "items.ndjson"
    (items if change is None else items.with_columns(change)).write_ndjson(path)
    return path


def test_a_stream_is_watched(promised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items, out = str(new_items(tmp_path)), str(tmp_path / "decisions.ndjson")
    assert run(["stream", str(promised), items, "-o", out]) == 0
    err = capsys.readouterr().err
    assert "kvec: promised: at most 10%" in err
    assert "nothing speaks against the promise so far: 160 decisions in 40 whole units" in err
    assert run(["stream", str(promised), items, "-o", out, "--threshold", "0.9"]) == 0
    err = capsys.readouterr().err
    assert "is void" in err and "speaks against" not in err, "another threshold"


def test_a_changed_stream_is_told(promised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = new_items(tmp_path, pl.lit(99_999).alias("size"))
    assert run(["stream", str(promised), str(items), "-o", str(tmp_path / "decisions.ndjson")]) == 0
    err = capsys.readouterr().err
    assert "warning: the promise does not hold any more: " in err


def test_what_was_watched_survives_a_stop(promised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = new_items(tmp_path)
    lines = items.read_text().splitlines(keepends=True)
    first = tmp_path / "first"
    first.mkdir()
    half = first / "items.ndjson"
    half.write_text("".join(lines[: len(lines) // 2]))
    given = ["-o", str(tmp_path / "decisions.ndjson"), "--state", str(tmp_path / "state")]
    assert run(["stream", str(promised), str(half), *given]) == 0
    capsys.readouterr()
    half.write_text("".join(lines))
    assert run(["stream", str(promised), str(half), *given]) == 0
    told = capsys.readouterr().err
    n_decisions = len((tmp_path / "decisions.ndjson").read_text().splitlines())
    assert f"{n_decisions:,} decisions in " in told, "those of both runs"


def test_tangles_that_are_let_go_are_over(promised: Path) -> None:
    stream = Stream(load_deployed(promised), Limits(expiry=10.0))
    watcher = Watcher.of(stream)
    assert watcher is not None

    def feed(tangle: str, time: float) -> None:
        items = [Item(tangle, "k", {"size": 40, "direction": 0}, time)]
        decisions = stream.feed_many(items)
        watcher.arrived(items)
        watcher.observe(decisions, time)

    feed("a", 0.0)
    watcher.look(stream)
    assert stream.watches("a") and not stream.watches("b")
    watcher.observe(stream.tick(now=100.0), 100.0)
    watcher.look(stream)
    assert not stream.watches("a")
    assert watcher.line().endswith("1 decisions in 1 whole units")
    feed("b", 101.0)
    again = Watcher.of(stream, watcher.to_plain())
    assert again is not None and again.to_plain() == watcher.to_plain()


def test_what_the_end_of_a_tangle_shows_is_told_once(promised: Path) -> None:
    model = load_deployed(promised)
    assert model.promised is not None
    odd = replace(model.promised, reference={SURE: "0:500", LATE: "0:500"})  # none was ever so sure, or took so long
    for is_told_by in ("look", "close"):
        stream, watcher = Stream(model), Watcher(odd)
        told = []
        for number in range(60):
            decision = Decision(number, 0, 0, ("web",), (0.999,), 50, None, Reason.HALTED)
            watcher.arrived([Item(number, 0, {})])
            told.append(watcher.observe([decision], None))
            if is_told_by == "look":
                told.append(watcher.look(stream))
        told.append(watcher.close())
        (warning,) = [line for line in told if line]
        assert warning.startswith("warning: the promise does not hold any more: ")
        assert (told[-1] == warning) == (is_told_by == "close")


def test_blocks_without_times_are_not_watched(promised: Path) -> None:
    watcher = Watcher(promise({SURE: "1:5", LATE: "1:5"}, block=60.0))
    assert watcher.observe([], None) == ""


def test_what_is_said(promised: Path) -> None:
    model = load_deployed(promised)
    (line,) = promise_lines(model)
    assert line.startswith("promised: ")
    assert promise_lines(model, model.threshold) == [line]
    assert promise_lines(replace(model, promise=None)) == []
    (void,) = promise_lines(model, model.threshold / 2)
    assert "is void: it was made for θ = " in void
    assert Watcher.of(Stream(replace(model, promise=None))) is None
