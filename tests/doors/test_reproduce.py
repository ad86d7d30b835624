from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from tests.reproduce.fake import WORK, cell, outcome, profile

from kvec.doors import reproducing
from kvec.doors.cli import run
from kvec.doors.reproduce_view import CellsView
from kvec.reproduce import datasets
from kvec.reproduce.plan import Sizes
from kvec.reproduce.pool import Finished
from kvec.reproduce.store import Store
from kvec.reproduce.timing import Timing, Took

ROOT = Path(__file__).resolve().parents[2]
ABLATION = ["kvec", "kvec-no-key", "kvec-no-value", "kvec-no-time", "kvec-no-membership", "kvec-window"]
SCRIPT = f"""
if __name__ == "__main__":
    import sys
    from kvec.doors import cli, reproducing

    reproducing.WORK = {WORK!r}
    reproducing.make_report = lambda folder, out: out
    reproducing.find_datasets = lambda given: {{"planted": "", **dict(each.split("=") for each in given)}}
    sys.exit(cli.run(sys.argv[1:]))
"""


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the command with cells that are over at once; keywords say what cells of a training do instead."""
    monkeypatch.setattr(reproducing, "WORK", WORK)
    monkeypatch.setattr(reproducing, "make_report", lambda folder, out: out / "index.html")

    def fake(*words: str | Path, **wishes: str) -> int:
        found = {"planted": "", **{name.replace("_", "-"): wish for name, wish in wishes.items()}}
        monkeypatch.setattr(reproducing, "find_datasets", lambda given: found)
        return run(["reproduce", *map(str, words)])

    return fake


def done(folder: Path) -> list[str]:
    if not (folder / "cells.csv").is_file():
        return []
    with (folder / "cells.csv").open(encoding="utf-8", newline="") as file:
        return [row["training"] for row in csv.DictReader(file)]


def begun(out: Path, *words: str) -> subprocess.Popen[str]:
    """The command in a process, and a process group, of its own."""
    script = out.with_name("script.py")
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, script, "reproduce", *words, "--out", out], env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_cells_are_run_once(faked: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert faked("ablation", "--out", tmp_path, "--jobs", "1") == 0
    assert done(tmp_path) == ABLATION
    first = capsys.readouterr().err
    assert re.search(r"planted/kvec/0 done in 0:0\d \(1 of 6, about 0:\d\d left\)", first)
    assert re.search(r"planted/kvec-window/0 done in 0:00 \(6 of 6\)", first)
    assert f"the report is in {tmp_path}/report/index.html" in first
    assert faked("ablation", "--out", tmp_path) == 0
    again = capsys.readouterr().err
    assert "6 of 6 cells are done already" in again and "done in" not in again
    assert done(tmp_path) == ABLATION


def test_statistics_are_counted_once_for_a_part(
    faked: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str, Sizes]] = []

    def count(*given: object) -> dict[str, object]:
        asked.append(given)  # type: ignore[arg-type]
        return {"dataset": given[0], "keys": 3, "digest": datasets.digest_of(asked[-1][2])}

    monkeypatch.setattr(reproducing, "statistics", count)
    for _ in range(2):
        assert faked("data", "--out", tmp_path) == 0
    assert [(name, path) for name, path, _ in asked] == [("planted", "")]
    digest = datasets.digest_of(asked[0][2])
    assert "left out: made-early, made-late not found, or not whole; give the folder" in capsys.readouterr().err
    assert (tmp_path / "data.csv").read_text() == f"dataset,keys,digest\nplanted,3,{digest}\n"
    (tmp_path / "data.csv").write_text("dataset,keys,digest\nplanted,2,other\n")
    assert faked("data", "--out", tmp_path) == 0
    assert len(asked) == 2 and (tmp_path / "data.csv").read_text() == f"dataset,keys,digest\nplanted,3,{digest}\n"


def test_a_cell_that_fails_is_told_and_the_others_go_on(
    faked: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert faked("ablation", "--out", tmp_path, kvec_no_key="fails", kvec_window="dies") == 1
    assert sorted(done(tmp_path)) == sorted({*ABLATION} - {"kvec-no-key", "kvec-window"})
    told = capsys.readouterr().err
    assert re.search(
        r"planted/kvec-no-key/0 failed after 0:0\d: ValueError: two lines \(fake.py, line \d+\) \(\d of 6", told
    )
    assert told.splitlines()[-4] == "kvec: 2 cells failed, and will be tried again when the command is repeated:"
    assert told.splitlines()[-1].startswith("kvec: the report is in ")
    assert "kvec: planted/kvec-window/0: its process was ended by SIGKILL" in told
    assert faked("ablation", "--out", tmp_path) == 0
    assert sorted(done(tmp_path)) == sorted(ABLATION)


def test_there_is_no_report_of_nothing(
    faked: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert faked("ablation", "--out", tmp_path, "--only", "no-key", kvec_no_key="fails") == 1
    assert "report" not in capsys.readouterr().err


def test_killed_at_any_moment_it_goes_on(faked: Callable[..., int], tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed = begun(out, "ablation", "--jobs", "2", "--data", "kvec-window=lasts", "--data", f"folder={tmp_path}")
    wait_for(lambda: len(done(out)) == 5)
    assert faked("ablation", "--out", out) == 2  # the folder is taken
    killed.kill()
    killed.communicate()
    with (out / "points.csv").open("a") as file:
        file.write("planted/kvec-window/0,kvec-window,chosen,0.5,0.1\nplanted/kv")
    assert faked("ablation", "--out", out) == 0
    assert sorted(done(out)) == sorted(ABLATION)
    assert len((out / "points.csv").read_text().splitlines()) == 1 + 2 * len(ABLATION)


def test_ctrl_c_stops_at_once_and_keeps_what_is_done(faked: Callable[..., int], tmp_path: Path) -> None:
    out = tmp_path / "out"
    stopped = begun(out, "ablation", "--jobs", "2", "--data", "kvec-no-value=lasts", "--data", f"folder={tmp_path}")
    wait_for(lambda: len(done(out)) == 5)
    os.killpg(stopped.pid, signal.SIGINT)
    began = time.monotonic()
    _, told = stopped.communicate()
    assert time.monotonic() - began < 30
    assert stopped.returncode == 130
    assert told.splitlines()[-1] == f"kvec: stopped; 5 of 6 cells are kept in {out}; repeat the command to go on"
    assert "Traceback" not in told
    assert faked("ablation", "--out", out) == 0
    assert sorted(done(out)) == sorted(ABLATION)


def test_two_runs_cannot_write_one_folder(
    faked: Callable[..., int], refused: Callable[..., str], tmp_path: Path
) -> None:
    with Store(tmp_path):
        assert f"process {os.getpid()}, writes here" in refused("reproduce", "ablation", "--out", tmp_path)
        assert faked("ablation", "--out", tmp_path, "--list") == 0


def test_the_plan_is_listed(faked: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert faked("ablation", "--out", tmp_path / "out", "--list") == 0
    listed = capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    assert "to do  planted/kvec-no-key/0  about 0:0" in listed
    assert re.search(r"6 cells: 0 done, 6 to do, about 0:\d\d with", listed)
    assert faked("ablation", "--out", tmp_path / "out", "--only", "no-key") == 0
    capsys.readouterr()
    assert faked("all", "--out", tmp_path / "out", "--list", "--jobs", "1") == 0
    listed = capsys.readouterr().out
    assert "ablation           6     1" in listed
    assert "done   planted/kvec-no-key/0  0:00" in listed
    assert re.search(r"\d+ cells: 1 done, \d+ to do, about 0:\d\d with 1 job\n", listed)


def test_stale_cells_are_told_and_run_again(
    faked: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert faked("ablation", "--out", tmp_path, "--only", "no-key") == 0
    longer = dataclasses.replace(reproducing.read_profile("smoke").sizes_of("planted"), train_seconds=2.0)
    monkeypatch.setattr(
        reproducing, "read_profile", lambda name: dataclasses.replace(profile(sizes=longer), name="smoke")
    )
    capsys.readouterr()
    assert faked("ablation", "--out", tmp_path, "--list") == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "1 cell to do again, stale (1: other defaults, or other sizes of the profile)"
    )
    assert faked("ablation", "--out", tmp_path, "--only", "no-key") == 0
    assert "planted/kvec-no-key/0 done in" in capsys.readouterr().err and done(tmp_path) == ["kvec-no-key"]


def test_one_training_of_two_names_is_run_once(
    faked: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.toml"
    run_of = "[[runs]]\ntrainings = ['kvec-paper']\ndatasets = ['planted']\n"
    mine.write_text(
        run_of + "setting = 'training.alpha'\nvalues = [1, 2]\nsettings = { training.beta = 0.02 }\n"
        + run_of + "setting = 'training.beta'\nvalues = [0.02]\n"
    )  # fmt: skip
    assert faked(mine, "--out", tmp_path / "out", "--jobs", "1") == 0
    told = capsys.readouterr().err
    assert "kvec-paper alpha=1/0 done in" in told and "(2 of 2)" in told and "beta=0.02/0 done" not in told
    assert done(tmp_path / "out") == ["kvec-paper"] * 3
    assert faked(mine, "--out", tmp_path / "other", "--only", "alpha=1") == 0
    capsys.readouterr()
    assert faked(mine, "--out", tmp_path / "other", "--only", "beta=") == 0
    assert "1 of 1 cell is done already" in capsys.readouterr().err, "it was run under its other name"


def test_seeds_and_parts_can_be_chosen(faked: Callable[..., int], tmp_path: Path) -> None:
    assert faked("ablation", "--out", tmp_path, "--seeds", "3,5", "--only", "kvec-no-t", "--jobs", "1") == 0
    assert [line.split(",")[0] for line in (tmp_path / "cells.csv").read_text().splitlines()[1:]] == [
        "planted/kvec-no-time/3", "planted/kvec-no-time/5",
    ]  # fmt: skip


def test_no_cell_is_started_that_would_end_too_late(
    faked: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert faked("ablation", "--out", tmp_path, "--minutes", "0.01") == 0
    assert done(tmp_path) == []
    assert "6 cells would have ended too late; repeat the command to go on" in capsys.readouterr().err


def test_an_experiment_of_ones_own(
    faked: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[[runs]]\ntrainings = ['kvec']\ndatasets = ['planted']\nsettings.encoder.blocks = 1\n")
    assert faked("ablation", "--out", tmp_path, "--only", "kvec/") == 0
    assert faked(mine, "--out", tmp_path) == 0  # other settings, so it is run again
    assert done(tmp_path) == ["kvec"]
    assert "encoder.blocks=1" in (tmp_path / "cells.csv").read_text()


def test_the_report_alone(faked: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert faked("all", "--out", tmp_path, "--report-only") == 0
    assert capsys.readouterr().err == f"kvec: the report is in {tmp_path}/report/index.html\n"
    assert done(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["curve"], "unknown experiment 'curve'; known: data, curves"),
        (["all", "--profile", "huge"], "--profile is 'huge'; it can be smoke, small, paper"),
        (["all", "--jobs", "0"], "--jobs is 0; at least one process is needed"),
        (["all", "--seeds", "0,x"], "--seeds is '0,x'; write whole numbers"),
        (["all", "--profile", "paper", "--seeds", "5"], "--seeds is '5'; the profile paper has the folds 0 to 4"),
        (["all", "--only", "nothing"], "no cell has 'nothing' in its name; there are planted/kvec/0, "),
        (["all", "--only", "nothing"], " and others; --list without --only shows them"),
        (["curves", "--profile", "small", "--only", "nothing"], "no cell has 'nothing' in its name; there are "),
        (["curves", "--profile", "small", "--only", "fgnet"], "nothing can be run: fgnet-d1 not found"),
        (
            ["curves", "--profile", "small"],
            "the profile small wants real data, and none of traffic-fg, fgnet-d1, movielens-1m, ",
        ),
        (["curves", "--profile", "small"], "or run synthetic-early and synthetic-late alone: --only synthetic"),
        (["keys", "--profile", "small"], "nothing can be run: traffic-fg not found, or not whole; give the folder"),
    ],
)
def test_what_cannot_be_run_is_refused(
    refused: Callable[..., str], tmp_path: Path, words: list[str], told: str
) -> None:
    assert told in refused("reproduce", *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_made_data_of_a_profile_can_be_run_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "curves", "--profile", "small", "--out", str(tmp_path / "out")]
    assert run([*words, "--list"]) == 0, "to look costs nothing"
    assert "left out: traffic-fg" in capsys.readouterr().err
    assert run([*words, "--only", "synthetic", "--minutes", "0.001"]) == 0
    told = capsys.readouterr().err
    assert "cells would have ended too late" in told and "left out" not in told


def test_an_experiment_without_cells_in_a_profile_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[[runs]]\ntrainings = ['kvec']\ndatasets = ['sepsis']\n")
    told = refused("reproduce", mine)
    assert "has nothing for the profile smoke, whose data sets are planted, made-early, made-late; choose" in told


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for word in ("kvec reproduce all", "--data traffic-fg=", "smoke", "--report-only", "repeat the command to go on"):
        assert word in told


def test_a_terminal_shows_what_runs_and_the_time_left() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    a, b, c = cell("a"), cell("b"), cell("c")
    timing = Timing({"planted/x/0": Took(60.0)})
    with CellsView([a, b, c], profile(), timing, 1, console) as view:
        view.started(a)
        view.finished(Finished(a, outcome(a), "", 61.0))
        view.started(b)
        drawn = Console(file=io.StringIO(), width=100, color_system=None)
        drawn.print(view.picture())
    shown = drawn.file.getvalue()  # type: ignore[attr-defined]
    assert "1 of 3 cells, about 2:00 left" in shown
    assert re.search(r"planted/b/0 +0:00", shown)
    assert "planted/a/0 done in 1:01 (1 of 3, about 1:00 left)" not in shown
    assert "planted/a/0 done in 1:01 (1 of 3, about 2:00 left)" in console.file.getvalue()  # type: ignore[attr-defined]


def test_no_time_is_told_where_none_is_known() -> None:
    console = Console(file=io.StringIO(), width=100)
    a, b = cell("a"), cell("b")
    with CellsView([a, b], profile(sizes=Sizes()), Timing({}), 1, console) as view:
        view.started(a)
        view.finished(Finished(a, None, "why", 1.0))
    assert console.file.getvalue() == "planted/a/0 failed after 0:01: why (1 of 2)\n"  # type: ignore[attr-defined]
