"""The loop of a stream: killed at any write and gone on with, it decides as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.doors.made import Trained
from tests.doors.streamed import assert_same, decided

from kvec.decide.deployed import Deployed, load_deployed
from kvec.decide.operating import NEVER
from kvec.decide.stream import Stream
from kvec.doors import running
from kvec.doors.journal import Entry
from kvec.doors.keeping import Keeper
from kvec.doors.outlets import DeadLetters, Sink
from kvec.doors.running import Loop, Manner, Stopping
from kvec.read.arriving import RowReader
from kvec.read.arriving_forms import JsonLines
from kvec.read.arriving_sources import Arrived, Source
from kvec.words.limits import Limits


class Crash(BaseException):
    """What no code expects."""


class Sender(Source):
    """Lines that come once, from one who sends again what was not taken."""

    kind = "socket"
    is_live = True
    is_replayable = False

    def __init__(self, lines: Sequence[bytes]) -> None:
        super().__init__("sender", JsonLines())
        self.lines, self.n_taken = lines, 0

    def start(self, position: Mapping[str, Any]) -> None:
        self.n_taken = position.get("line", 0)

    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        some = self.lines[self.n_taken : self.n_taken + most]
        return [Arrived(number, line) for number, line in enumerate(some, self.n_taken + 1)] or None

    def take(self, arrived: Sequence[Arrived]) -> None:
        self.n_taken += len(arrived)

    def position(self) -> dict[str, Any]:
        return {"line": self.n_taken}


class Replayed(Sender):
    """Lines that can be had again."""

    kind = "file"
    is_live = False
    is_replayable = True


@pytest.fixture(scope="module")
def model(lively: Trained) -> Deployed:
    return load_deployed(lively.model)


@pytest.fixture(scope="module")
def lines(lively: Trained) -> list[bytes]:
    found = lively.frame.head(300).write_ndjson().encode().splitlines()
    return [*found[:150], b"no JSON", *found[150:]]


def go_on(folder: Path, model: Deployed, source: Source, manner: Manner, limits: Limits | None = None) -> Loop:
    """Run a stream with its state in a folder, from wherever it is."""
    keeper = Keeper(folder / "kept")
    sink, letters = Sink(folder / "decisions.ndjson", ["label"]), DeadLetters(folder / "letters.ndjson")
    try:
        stream = keeper.resume()
        is_new = stream is None
        stream = stream or Stream(model, limits)
        source.start(stream.note.get("position", {}))
        for outlet, name in ((sink.outlet, "sink"), (letters.outlet, "letters")):
            if is_new:
                outlet.begin(is_kept=True, is_replaced=False)
            else:
                outlet.go_on(stream.note[name])
        loop = Loop(stream, source, RowReader(model.schema), sink, letters, keeper, manner)
        loop.recover()
        loop.save()
        with Stopping() as stopping:
            loop.run(stopping)
        return loop
    finally:
        keeper.close()
        sink.outlet.close()
        letters.outlet.close()


@pytest.mark.parametrize("kind", [Sender, Replayed])
def test_killed_at_any_write_and_gone_on_with(
    kind: type[Sender], model: Deployed, lines: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MOST_ROWS", 24)
    manner = Manner(every_items=64)
    (tmp_path / "whole").mkdir()
    go_on(tmp_path / "whole", model, kind(lines), manner)
    wanted = decided(tmp_path / "whole" / "decisions.ndjson")
    assert {row["reason"] for row in wanted.values()} == {"halted", "closed"}
    really = os.fsync
    left = 0

    def fsync(file: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash
        really(file)

    monkeypatch.setattr(os, "fsync", fsync)
    n_crashes = 0
    for at in range(1, 200, 3):
        folder = tmp_path / str(at)
        folder.mkdir()
        left = at
        try:
            go_on(folder, model, kind(lines), manner)
        except Crash:
            n_crashes += 1
            left = at  # and again at a later place
            try:
                go_on(folder, model, kind(lines), manner)
            except Crash:
                left = -1
                go_on(folder, model, kind(lines), manner)
        assert_same(decided(folder / "decisions.ndjson"), wanted)
        (letter,) = (folder / "letters.ndjson").read_text().splitlines()
        assert json.loads(letter)["number"] == 151
        if left > 0:
            break
    assert n_crashes > 5 and left > 0, "in the end there were fewer writes than that"


def test_the_journal_holds_what_came_since_the_snapshot(
    model: Deployed, lines: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "MOST_ROWS", 50)
    counts = []
    save = Loop.save

    def counted(loop: Loop, is_finished: bool = False) -> None:
        assert loop._keeper is not None
        counts.append(sum(len(entry.arrived) for entry in loop._keeper.journal.entries()))
        save(loop, is_finished)

    monkeypatch.setattr(Loop, "save", counted)
    go_on(tmp_path, model, Sender(lines), Manner(every_items=100))
    assert counts == [0, 100, 100, 100, 1], "301 rows"
    assert [file.name for file in (tmp_path / "kept").glob("journal.*")] == [], "an empty one is not even made"


@pytest.mark.parametrize(("by", "limits"), [("idle", Limits(idle=0.05)), ("wall", Limits(expiry=0.05))])
def test_time_passes_while_nothing_comes_and_is_journalled(
    model: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, limits: Limits
) -> None:
    monkeypatch.setattr(running, "TICK", 0.01)
    now = time.time()
    rows = [{"tangle": 0, "key": key, "time": now, "size": 40, "direction": 1} for key in ("a", "b")]
    source = Sender([json.dumps(row).encode() for row in rows])
    read, crashed = source.read, False

    def read_on(most: int, seconds: float) -> list[Arrived] | None:
        nonlocal crashed
        found = read(most, seconds)
        if found:
            return found
        if crashed:
            raise Crash
        time.sleep(0.01)
        crashed = (tmp_path / "decisions.ndjson").stat().st_size > 0
        return []

    monkeypatch.setattr(source, "read", read_on)
    manner = Manner(by_wall=by == "wall", decide_on_stop=False)
    with pytest.raises(Crash):
        go_on(tmp_path, replace(model, threshold=NEVER), source, manner, limits)
    first = decided(tmp_path / "decisions.ndjson")
    assert {row["reason"] for row in first.values()} == {"expired"}
    monkeypatch.setattr(running, "TICK", 1000.0)
    go_on(tmp_path, model, Sender(source.lines), manner, limits)
    again = decided(tmp_path / "decisions.ndjson")
    assert first.items() <= again.items(), "the ticks came from the journal"


def test_a_plain_file_knows_no_wall_clock(
    model: Deployed, lines: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "TICK", 0.0)
    monkeypatch.setattr(running, "MOST_ROWS", 10)
    loop = go_on(tmp_path, model, Replayed(lines), Manner(by_wall=True), Limits(idle=1e-9))
    assert loop.stream.reasons["expired"] == 0


def test_the_second_wish_to_stop_is_granted_at_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stopping() as stopping:
        assert not stopping.is_asked
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.is_asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("decides", [True, False])
def test_open_sequences_are_decided_or_kept_on_a_stop(
    model: Deployed, lines: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decides: bool
) -> None:
    monkeypatch.setattr(running, "MOST_ROWS", 50)
    source = Sender(lines)
    read = source.read

    def read_and_stop(most: int, seconds: float) -> list[Arrived] | None:
        if source.n_taken == 100:
            os.kill(os.getpid(), signal.SIGTERM)
        return read(most, seconds)

    monkeypatch.setattr(source, "read", read_and_stop)
    loop = go_on(tmp_path, model, source, Manner(decide_on_stop=decides))
    assert source.n_taken == 150, "what was read counts"
    assert (loop.stream.n_live == 0) == decides
    assert (loop.stream.reasons["closed"] > 0) == decides
    go_on(tmp_path, model, Sender(lines), Manner())
    (tmp_path / "whole").mkdir()
    go_on(tmp_path / "whole", model, Sender(lines), Manner())
    if not decides:
        assert_same(decided(tmp_path / "decisions.ndjson"), decided(tmp_path / "whole" / "decisions.ndjson"))


def test_what_was_told_before_a_crash_is_not_told_again(
    model: Deployed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper, letters = Keeper(tmp_path / "kept"), DeadLetters(None)
    keeper.journal.add(Entry(1.0, [Arrived(1, b"no JSON"), Arrived(2, b"nor this")]))
    loop = Loop(Stream(model), Sender([]), RowReader(model.schema), Sink(None, ["label"]), letters, keeper, Manner())
    assert loop.recover() == 2 and letters.count == 2
    assert capsys.readouterr().err == ""
    keeper.close()
