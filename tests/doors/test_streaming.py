"""`kvec stream` from the outside: the decisions of `kvec decide`, whatever happens on the way."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doors.made import FLAGS, TINY, Trained
from tests.doors.streamed import assert_same, decided, streamed, written

from kvec.decide.folder import digest
from kvec.doors import running
from kvec.doors.cli import run

HEAD = 400  # items of a short stream


@pytest.fixture(scope="module")
def wanted(lively: Trained) -> dict[str, Any]:
    """What `kvec decide` says of all items."""
    path = lively.folder / "wanted.ndjson"
    assert run(["decide", lively.model, lively.items, "-o", str(path)]) == 0
    return decided(path)


@pytest.fixture(scope="module", autouse=True)
def first_items(lively: Trained) -> Path:
    """The first items as a file, whichever tests of this module a process runs."""
    return written(lively.frame.head(HEAD), lively.folder / "short.ndjson")


@pytest.fixture(scope="module")
def short(lively: Trained, first_items: Path) -> dict[str, Any]:
    """What an unbroken stream says of the first items."""
    streamed(lively.model, first_items, "-o", lively.folder / "short_decisions.ndjson")
    return decided(lively.folder / "short_decisions.ndjson")


@pytest.mark.parametrize("ending", ["ndjson", "csv", "parquet", "csv.gz"])
def test_the_same_decisions_as_decide(
    lively: Trained, wanted: dict[str, Any], tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(lively.frame, tmp_path / f"items.{ending.removesuffix('.gz')}")
    if ending.endswith("gz"):
        (tmp_path / "items.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = tmp_path / "items.csv.gz"
    capsys.readouterr()
    streamed(lively.model, path, "-o", tmp_path / "decisions.ndjson")
    assert_same(decided(tmp_path / "decisions.ndjson"), wanted)
    assert {row["reason"] for row in wanted.values()} == {"halted", "closed"}
    out, err = capsys.readouterr()
    assert out == ""
    first, second, *_ = err.splitlines()
    assert first == "kvec: no --state is kept: after a crash, the file must be read again from its beginning"
    assert second.startswith(f"kvec: {lively.frame.height:,} items, {len(wanted)} decisions (")


def test_as_it_is_decide_makes_no_other_tangles(lively: Trained, wanted: dict[str, Any], tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(lively.model, model)
    card = json.loads((model / "kvec.json").read_text())
    card["schema"]["tangling"] = {"number": 3, "of": "key", "clock": "common"}
    (model / "kvec.json").write_text(json.dumps(card))
    assert run(["decide", str(model), lively.items, "--as-it-is", "-o", str(tmp_path / "as_it_is.ndjson")]) == 0
    assert_same(decided(tmp_path / "as_it_is.ndjson"), wanted)
    assert run(["decide", str(model), lively.items, "-o", str(tmp_path / "others.ndjson")]) == 0
    assert decided(tmp_path / "others.ndjson").keys() != wanted.keys()


def test_decisions_go_to_the_standard_output(
    lively: Trained, short: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    streamed(lively.model, lively.folder / "short.ndjson")
    out = capfd.readouterr().out
    assert {json.loads(line)["id"] for line in out.splitlines()} == short.keys()


def test_a_threshold_and_limits(lively: Trained, short: dict[str, Any], tmp_path: Path) -> None:
    streamed(lively.model, lively.folder / "short.ndjson", "-o", tmp_path / "d.ndjson", "--threshold", "0")
    assert {row["n_observed"] for row in decided(tmp_path / "d.ndjson").values()} == {1}
    limits = ("--max-live-keys", "5", "--max-tangles", "3", "--max-cached-items", "50", "--late", "drop",
              "--reorder", "0.5", "--duplicates", "drop", "--expiry", "30")  # fmt: skip
    streamed(lively.model, lively.folder / "short.ndjson", "-o", tmp_path / "d.ndjson", *limits)
    assert "evicted" in {row["reason"] for row in decided(tmp_path / "d.ndjson").values()}


BAD = ["no JSON", '{"key": "x"}', '{"tangle": 1, "key": "x", "time": "soon", "size": 1, "direction": 1}', "[]"]


def spoilt(lively: Trained, path: Path) -> list[str]:
    """The short stream with bad lines in between."""
    lines = (lively.folder / "short.ndjson").read_text().splitlines()
    for number, line in enumerate(BAD):
        lines.insert(50 * (number + 1), line)
    path.write_text("\n".join(lines) + "\n")
    return lines


def test_bad_lines_are_told_and_passed_over(
    lively: Trained, short: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "items.ndjson"
    spoilt(lively, path)
    capsys.readouterr()
    streamed(lively.model, path, "-o", tmp_path / "d.ndjson")
    assert_same(decided(tmp_path / "d.ndjson"), short)
    told = capsys.readouterr().err.splitlines()
    assert told[1] == f"kvec: {path}, line 51: is not JSON: Expecting value at character 1"
    assert told[2].startswith(f"kvec: {path}, line 101: column 'tangle': is empty or not there")
    assert told[3].startswith(f"kvec: {path}, line 151: column 'time': 'soon' is no time")
    assert told[-1] == "kvec: 4 rows could not be used; --dead-letters FILE keeps them"
    streamed(lively.model, path, "-o", tmp_path / "d.ndjson", "--dead-letters", tmp_path / "letters.ndjson")
    letters = [json.loads(line) for line in (tmp_path / "letters.ndjson").read_text().splitlines()]
    assert [letter["raw"] for letter in letters] == BAD
    assert [letter["number"] for letter in letters] == [51, 101, 151, 201]


def test_strictly_a_bad_line_stops_the_stream_and_nothing_is_lost(
    lively: Trained, short: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "items.ndjson"
    lines = spoilt(lively, path)
    kept = ("-o", tmp_path / "d.ndjson", "--state", tmp_path / "kept", "--strict")
    for number in range(1, len(BAD) + 1):
        capsys.readouterr()
        streamed(lively.model, path, *kept, code=2)
        *_, told = capsys.readouterr().err.splitlines()
        assert f"{path}, line {50 * number + 1}: " in told
        assert told.endswith("mend it, or leave out --strict; the state is saved up to the row before")
        lines[50 * number] = ""
        path.write_text("\n".join(lines) + "\n")
    streamed(lively.model, path, *kept)
    assert_same(decided(tmp_path / "d.ndjson"), short)


def test_a_source_of_which_nothing_can_be_used_is_a_failure(
    lively: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = lively.frame.head(20).write_csv()
    (tmp_path / "items.log").write_text(table)
    capsys.readouterr()
    streamed(lively.model, tmp_path / "items.log", "--format", "ndjson", "-o", tmp_path / "d.ndjson", code=2)
    *_, last = capsys.readouterr().err.splitlines()
    assert last == (
        f"kvec: none of the 21 rows could be used; {tmp_path / 'items.log'}, line 1: is not JSON: Expecting value at "
        "character 1; if this is CSV, say --format csv"
    )
    short = (lively.model, lively.folder / "short.ndjson", "--max-line", "20", "-o", tmp_path / "d.ndjson")
    streamed(*short, "--state", tmp_path / "kept", code=2)
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith(f"kvec: none of the {HEAD} rows could be used; ")
    assert last.endswith("is longer than 20 bytes; allow longer lines with --max-line; then begin with a new --state")
    streamed(lively.model, tmp_path / "items.log", "--format", "csv", "-o", tmp_path / "d.ndjson")
    assert "could" not in capsys.readouterr().err


def test_text_is_a_value_of_a_categorical_field_and_no_number(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/stream.md has it."""
    flags = [*FLAGS, "--kind", "size=binned", "--kind", "direction=categorical"]
    model = tmp_path / "model"
    assert run(["train", trained.items, *flags, *TINY, "-o", str(model), "--quiet"]) == 0
    rows = [{"tangle": 1, "key": "a", "time": n, "size": 40, "direction": 1} for n in range(3)]
    rows[1]["direction"] = rows[2]["size"] = "abc"
    (tmp_path / "items.ndjson").write_text("\n".join(map(json.dumps, rows)))
    capsys.readouterr()
    streamed(model, tmp_path / "items.ndjson", "-o", tmp_path / "d.ndjson")
    told = capsys.readouterr().err
    assert "line 3: column 'size': 'abc' is no number" in told and "line 2" not in told
    assert "kvec: 2 items, " in told and "1 value unknown to the model" in told and "1 row could not be used" in told


def test_a_field_that_is_misspelt_in_every_row_is_named(
    lively: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(lively.frame.head(50).rename({"size": "sizes"}), tmp_path / "items.ndjson")
    streamed(lively.model, path, "-o", tmp_path / "d.ndjson")
    *_, last = capsys.readouterr().err.splitlines()
    assert last == "kvec: field 'size' was in no row"


def test_a_header_without_rows_is_told(lively: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(lively.frame.head(0), tmp_path / "items.csv")
    streamed(lively.model, path, "-o", tmp_path / "d.ndjson")
    assert capsys.readouterr().err.endswith(f"kvec: {path}: no rows came\n")


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let someone press Ctrl-C once so many chunks were taken."""
    look_around, left = running.Loop._look_around, after

    def press(loop: running.Loop) -> None:
        nonlocal left
        look_around(loop)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(running.Loop, "_look_around", press)


def test_stopped_and_gone_on_with(
    lively: Trained, short: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = lively.folder / "short.ndjson"
    kept = (lively.model, path, "-o", tmp_path / "d.ndjson", "--state", tmp_path / "kept")
    monkeypatch.setattr(running, "MOST_ROWS", 30)
    for _ in range(3):
        with monkeypatch.context() as patch:
            interrupted(patch, 3)
            capsys.readouterr()
            streamed(*kept, code=130)
            assert f"are kept in {tmp_path / 'kept'}; the same command goes on" in capsys.readouterr().err
    assert 0 < len(decided(tmp_path / "d.ndjson")) < len(short)
    streamed(*kept)
    assert_same(decided(tmp_path / "d.ndjson"), short)
    assert f"{tmp_path / 'kept'} is gone on with, after 270 items" in capsys.readouterr().err
    before = (tmp_path / "d.ndjson").read_bytes()
    streamed(*kept)
    assert "is finished: there is nothing new in it" in capsys.readouterr().err
    assert (tmp_path / "d.ndjson").read_bytes() == before


def test_a_stop_decides_what_is_open_where_nothing_is_kept(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MOST_ROWS", 30)
    interrupted(monkeypatch, 2)
    streamed(lively.model, lively.folder / "short.ndjson", "-o", tmp_path / "d.ndjson", code=130)
    found = decided(tmp_path / "d.ndjson")
    assert len(found) == lively.frame.head(60).select("tangle", "key").n_unique()
    assert "closed" in {row["reason"] for row in found.values()}


def test_a_finished_file_that_has_grown_is_gone_on_with(lively: Trained, tmp_path: Path) -> None:
    path = written(lively.frame.head(100), tmp_path / "items.ndjson")
    kept = (lively.model, path, "-o", tmp_path / "d.ndjson", "--state", tmp_path / "kept")
    streamed(*kept)
    first = decided(tmp_path / "d.ndjson")
    with path.open("a") as out:
        out.write(lively.frame[100:200].write_ndjson())
    streamed(*kept)
    assert first.items() < decided(tmp_path / "d.ndjson").items()


@pytest.fixture
def kept(lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a stream that was stopped."""
    monkeypatch.setattr(running, "MOST_ROWS", 30)
    path = shutil.copy(lively.folder / "short.ndjson", tmp_path / "items.ndjson")
    arguments = [lively.model, str(path), "-o", str(tmp_path / "d.ndjson"), "--state", str(tmp_path / "kept")]
    with monkeypatch.context() as patch:
        interrupted(patch, 5)
        streamed(*arguments, code=130)
    return arguments


def other_model(lively: Trained, folder: Path, change: Callable[[dict[str, Any]], None] = lambda card: None) -> Path:
    """A model of the same kind with other weights: what was known by one name is now known by another."""
    model = Path(shutil.copytree(lively.model, folder / "other"))
    words = json.loads((model / "vocabulary.json").read_text())
    words["labels"]["label"] = [f"new {name}" for name in words["labels"]["label"]]
    (model / "vocabulary.json").write_text(json.dumps(words))
    card = json.loads((model / "kvec.json").read_text())
    card["blake2b"]["vocabulary.json"] = digest((model / "vocabulary.json").read_bytes())
    change(card)
    (model / "kvec.json").write_text(json.dumps(card))
    return model


def test_another_model_is_refused_or_takes_over(
    lively: Trained, kept: list[str], short: dict[str, Any], tmp_path: Path, refused: Callable[..., str]
) -> None:
    model = other_model(lively, tmp_path)
    message = refused("stream", model, *kept[1:])
    assert "is not the model in" in message and message.endswith("with --take-over")
    streamed(model, *kept[1:], "--take-over")
    found = decided(tmp_path / "d.ndjson")
    assert found.keys() == short.keys()
    labels = {name: row["label"].startswith("new ") for name, row in found.items()}
    assert any(labels.values()) and not all(labels.values())
    assert [name for name in short if short[name]["label"] == found[name]["label"]], "open ones kept the old model"


def test_a_model_that_reads_other_items_cannot_take_over(
    lively: Trained, kept: list[str], tmp_path: Path, refused: Callable[..., str]
) -> None:
    model = other_model(lively, tmp_path, lambda card: card["schema"].update(key=["key", "direction"]))
    message = refused("stream", model, *kept[1:], "--take-over")
    assert "reads other items than the model in" in message and "schema.key differs" in message


def test_what_does_not_fit_a_state_is_refused(
    lively: Trained, kept: list[str], tmp_path: Path, refused: Callable[..., str]
) -> None:
    assert "--max-live-keys is 7, but 100000 in" in refused("stream", *kept, "--max-live-keys", "7")
    assert "--threshold cannot change in" in refused("stream", *kept, "--threshold", "0.7")
    assert "belongs to a file, not to tcp://127.0.0.1:0" in refused("stream", kept[0], "tcp://:0", *kept[2:])
    assert "is not the file that the state stopped in" in refused(
        "stream", kept[0], written(lively.frame[5:], tmp_path / "else.ndjson"), *kept[2:]
    )
    sink = tmp_path / "d.ndjson"
    content = sink.read_bytes()
    sink.write_bytes(content[:-1])
    assert f"has {len(content) - 1:,} bytes, but had {len(content):,}" in refused("stream", *kept)
    sink.write_bytes(content)
    (tmp_path / "kept" / "stream.state").write_bytes(b"no state")
    assert "is damaged, or not the state of a stream" in refused("stream", *kept)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--every", "soon"], "--every is 'soon'; write a number of rows, as in 10000, or a time, as in 30s"),
        (["--every", "0"], "--every is '0'"),
        (["--every", "nans"], "--every is 'nans'"),
        (["--on-stop", "save"], "--on-stop save needs a state; name its folder with --state"),
        (["--take-over"], "kvec: --take-over needs a state; name"),
        (["--every", "7"], "kvec: --every needs a state; name"),
        (["--on-stop", "wait"], "--on-stop is 'wait'; it can be decide, save"),
        (["--event-time", "sun"], "--event-time is 'sun'; it can be items, wall"),
        (["--max-line", "0"], "--max-line is 0"),
        (["--table"], "--table draws in a terminal, but the standard output goes elsewhere"),
        (["--idle", "5"], "--idle goes by the wall clock, which a file does not have; use --expiry"),
        (["--event-time", "wall"], "--event-time wall is for sources that wait for more"),
        (["--late", "never"], "kvec: --late is 'never'; it can be take or drop"),
        (["--max-live-keys", "0"], "kvec: --max-live-keys is 0; it must be a whole number of at least 1"),
        (["--expiry", "soon"], ". See kvec stream --help."),
        (["--threshold", "2"], "the threshold is 2.0; it must lie between 0 and 1"),
        (["-o", "d.parquet"], "it may end in .ndjson, .jsonl"),
        (["--dead-letters", "no/such/place"], "there is no folder"),
    ],
)
def test_wishes_that_cannot_be_are_refused(
    lively: Trained, short: dict[str, Any], refused: Callable[..., str], flags: list[str], message: str
) -> None:
    assert message in refused("stream", lively.model, lively.folder / "short.ndjson", *flags)


def test_no_model_and_a_full_sink_are_refused(
    lively: Trained, short: dict[str, Any], tmp_path: Path, refused: Callable[..., str]
) -> None:
    assert "no such model folder" in refused("stream", tmp_path / "none", "items.ndjson")
    items = lively.folder / "short.ndjson"
    assert "not all different files" in refused("stream", lively.model, items, "-o", items)
    assert items.stat().st_size > 0
    (tmp_path / "d.ndjson").write_text("old decisions\n")
    arguments = (lively.model, lively.folder / "short.ndjson", "-o", tmp_path / "d.ndjson")
    assert "holds something already" in refused("stream", *arguments, "--state", tmp_path / "kept")
    assert (tmp_path / "d.ndjson").read_text() == "old decisions\n"


CODE = """
import sys
from kvec.doors.cli import run
code = run(sys.argv[1:])
print("torch" in sys.modules, code, file=sys.stderr)
"""


def test_the_standard_input_without_torch(lively: Trained, short: dict[str, Any], tmp_path: Path) -> None:
    command = [sys.executable, "-c", CODE, "stream", lively.model, "-o", str(tmp_path / "d.ndjson")]
    content = (lively.folder / "short.ndjson").read_bytes()
    done = subprocess.run(command, input=content, capture_output=True, check=True, timeout=60)
    assert done.stderr.splitlines()[-1] == b"False 0"
    assert_same(decided(tmp_path / "d.ndjson"), short)


def test_a_reader_that_goes_away_is_no_failure(lively: Trained, short: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "kvec", "stream", lively.model, str(lively.folder / "short.ndjson")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(60) == 141


def test_a_followed_file_is_decided_at_once_and_stopped_cleanly(
    lively: Trained, short: dict[str, Any], tmp_path: Path
) -> None:
    lines = (lively.folder / "short.ndjson").read_bytes().splitlines(keepends=True)
    path, sink = tmp_path / "items.ndjson", tmp_path / "d.ndjson"
    path.write_bytes(b"".join(lines[:200]))
    command = [sys.executable, "-m", "kvec", "stream", lively.model, str(path), "--follow", "-o", str(sink)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            wait_for(sink)
            early = len(decided(sink))
            with path.open("ab") as out:
                out.write(b"".join(lines[200:]))
            until = time.monotonic() + 20
            while len(decided(sink)) < sum(row["reason"] == "halted" for row in short.values()):
                assert time.monotonic() < until
                time.sleep(0.02)
            assert early < len(decided(sink))
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()
    assert_same(decided(sink), short)


def wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(0.1)
