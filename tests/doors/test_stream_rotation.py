"""`kvec stream` and files that are killed, rotated, replaced or lost: each decision once, or a refusal."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.doors.made import Trained
from tests.doors.streamed import assert_same, decided, streamed, written

from kvec.doors import running
from kvec.doors.cli import run

ROWS = 300  # in a file, of which there are two


class Crash(BaseException):
    """What no code expects."""


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """Let something happen once so many chunks of 30 rows were taken."""
    monkeypatch.setattr(running, "MOST_ROWS", 30)
    monkeypatch.setattr(running, "WAIT", 0.01)
    really = running.Loop._look_around

    def plan(n_chunks: int, happen: Callable[[], None]) -> None:
        left = n_chunks

        def look_around(loop: running.Loop) -> None:
            nonlocal left
            really(loop)
            left -= 1
            if left == 0:
                happen()

        monkeypatch.setattr(running.Loop, "_look_around", look_around)

    return plan


def crash() -> None:
    raise Crash


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def followed(lively: Trained, tmp_path: Path) -> list[str]:
    """The arguments of a stream that follows the first of two files."""
    path = written(lively.frame.head(ROWS), tmp_path / "f.ndjson")
    kept = ["--state", str(tmp_path / "kept"), "--every", "90"]
    return ["stream", lively.model, str(path), "--follow", "-o", str(tmp_path / "d.ndjson"), *kept]


@pytest.mark.parametrize("n_chunks", [1, 2, 5])
def test_a_rotation_after_a_crash_loses_nothing(
    lively: Trained, followed: list[str], tmp_path: Path, at: Callable[[int, Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str], n_chunks: int,
) -> None:  # fmt: skip
    """Before the first snapshot that knows rows, and behind one."""
    at(n_chunks, crash)
    with pytest.raises(Crash):
        run(followed)
    (tmp_path / "f.ndjson").rename(tmp_path / "f.ndjson.1")
    written(lively.frame[ROWS : 2 * ROWS], tmp_path / "f.ndjson")
    at(40, stop)
    capsys.readouterr()
    assert run([*followed, "--on-stop", "decide"]) == 0
    told = capsys.readouterr().err
    assert f"which is {tmp_path / 'f.ndjson.1'} now: the rest of that is read first" in told
    assert f"kvec: {2 * ROWS} items" in told
    whole = written(lively.frame.head(2 * ROWS), tmp_path / "whole.ndjson")
    streamed(lively.model, whole, "-o", tmp_path / "wanted.ndjson")
    assert_same(decided(tmp_path / "d.ndjson"), decided(tmp_path / "wanted.ndjson"))


@pytest.mark.parametrize("n_chunks", [2, 5])
def test_where_the_file_is_gone_nothing_is_cut_back(
    lively: Trained, followed: list[str], tmp_path: Path, at: Callable[[int, Callable[[], None]], None],
    refused: Callable[..., str], n_chunks: int,
) -> None:  # fmt: skip
    at(n_chunks, crash)
    with pytest.raises(Crash):
        run(followed)
    before = (tmp_path / "d.ndjson").read_bytes()
    assert before
    (tmp_path / "elsewhere").mkdir()
    gone = (tmp_path / "f.ndjson").rename(tmp_path / "elsewhere" / "f.ndjson.1")
    written(lively.frame[ROWS : 2 * ROWS], tmp_path / "f.ndjson")
    message = refused(*followed)
    assert "is not the file that the state stopped in" in message and "under any name" in message
    assert (tmp_path / "d.ndjson").read_bytes() == before
    shutil.copy(gone, tmp_path / "back")
    at(40, stop)
    assert run(followed) == 0, "the way out works"
    assert decided(tmp_path / "d.ndjson").keys() >= {json.loads(line)["id"] for line in before.splitlines()}


def test_a_file_that_was_replaced_before_the_first_snapshot_is_refused(
    lively: Trained, followed: list[str], tmp_path: Path, at: Callable[[int, Callable[[], None]], None],
    refused: Callable[..., str],
) -> None:  # fmt: skip
    followed.remove("--follow")
    at(2, crash)
    with pytest.raises(Crash):
        run(followed)
    written(lively.frame[ROWS : 2 * ROWS], tmp_path / "f.ndjson")
    assert "is not the file that the state stopped in; name that file, or begin" in refused(*followed)


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_a_first_line_that_is_refused_can_be_mended(
    lively: Trained, tmp_path: Path, refused: Callable[..., str], ending: str
) -> None:
    """No state is there before a row was taken."""
    path = written(lively.frame.head(100), tmp_path / f"f.{ending}")
    good = path.read_text()
    path.write_text(good.replace("size", "sizes", 1) if ending == "csv" else f"no JSON\n{good}")
    command = ["stream", lively.model, str(path), "-o", str(tmp_path / "d.ndjson"), "--state", str(tmp_path / "kept")]
    assert "column 'size'" in (message := refused(*command, "--strict")) or "line 1: is not JSON" in message
    path.write_text(good)
    assert run([*command, "--strict"]) == 0


def test_decisions_that_were_lost_are_missed(lively: Trained, tmp_path: Path, refused: Callable[..., str]) -> None:
    path, sink = written(lively.frame.head(100), tmp_path / "f.ndjson"), tmp_path / "d.ndjson"
    command = ["stream", lively.model, str(path), "-o", str(sink), "--state", str(tmp_path / "kept")]
    assert run(command) == run(command) == 0
    sink.unlink()
    message = refused(*command)
    assert f"{sink}: is gone, but had" in message and message.endswith("or stream it again with a new --state")
    assert run([*command[:-1], str(tmp_path / "anew")]) == 0 and sink.stat().st_size


def test_a_folder_of_other_things_is_no_state(lively: Trained, tmp_path: Path, refused: Callable[..., str]) -> None:
    path = written(lively.frame.head(10), tmp_path / "f.ndjson")
    message = refused("stream", lively.model, path, "-o", tmp_path / "d.ndjson", "--state", tmp_path)
    assert message.endswith(
        f"{tmp_path}: holds other things, such as f.ndjson, and no state; name an empty or a new folder with --state"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["f.ndjson"]


@pytest.mark.parametrize("state", [True, False])
def test_decisions_may_go_to_a_device(
    lively: Trained, tmp_path: Path, capfd: pytest.CaptureFixture[str], state: bool
) -> None:
    path = written(lively.frame.head(100), tmp_path / "f.ndjson")
    kept = ["--state", str(tmp_path / "kept")] if state else []
    assert run(["stream", lively.model, str(path), "-o", os.devnull, "--dead-letters", os.devnull, *kept]) == 0
    out, err = capfd.readouterr()
    assert out == "" and ("come again under the same ids" in err) == state
    for name in ("-", "/dev/stdout"):
        assert run(["stream", lively.model, str(path), "-o", name]) == 0
        assert len(capfd.readouterr().out.splitlines()) > 3
