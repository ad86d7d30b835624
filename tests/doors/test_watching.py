"""The live view of a stream."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from tests.doors.made import Trained
from tests.doors.streamed import written
from tests.read.quiet import Quiet

from kvec.decide.deployed import load_deployed
from kvec.decide.stream import Stream
from kvec.doors.outlets import DeadLetters, Sink
from kvec.doors.running import Loop, Manner
from kvec.doors.watching import Watch, picture, resident
from kvec.read.arriving import RowReader
from kvec.read.arriving_forms import JsonLines
from kvec.read.arriving_sources import Arrived


@pytest.fixture
def loop(lively: Trained) -> Loop:
    model = load_deployed(lively.model)
    source = Quiet("items.ndjson", JsonLines())
    source.take = lambda arrived: None  # type: ignore[method-assign]
    made = Loop(
        Stream(model), source, RowReader(model.schema), Sink(None, ["label"], True), DeadLetters(None), None, Manner()
    )
    lines = lively.frame.head(400).write_ndjson().encode().splitlines()
    made._take([Arrived(number, line) for number, line in enumerate(lines, 1)], 0.0)
    return made


def text_of(loop: Loop, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, height=60)
    console.print(picture(loop, 1234.5))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_view_tells_what_there_is(loop: Loop) -> None:
    text = text_of(loop)
    assert "items.ndjson" in text and "1,234" in text
    assert re.search(rf"watched\s+{loop.stream.n_live} keys in {loop.stream.n_tangles} tangles", text)
    assert re.search(r"memory\s+[\d,]+ MB in all", text)
    assert "from arrival to decision" in text and "s old" not in text, "these times are not of the epoch"
    for name, n in loop.tally.classes.items():
        assert re.search(rf"{name} .*{n}", text)
    assert text.count("halted") == 1 + len(loop.tally.last)
    loop.tally.newest = time.time() - 5
    assert "items are 5.0 s old" in text_of(loop)
    assert all(len(line) <= 60 for line in text_of(loop, 60).splitlines())


def test_names_cannot_play_tricks_on_the_terminal(loop: Loop) -> None:
    loop.source.name = "\x1b[2Jitems"
    loop.tally.classes["[red]\x1b[0m"] = 7
    text = text_of(loop)
    assert "\x1b" not in text and "[red]·[0m" in text


def test_frames_are_drawn_now_and_then(loop: Loop) -> None:
    out = io.StringIO()
    with Watch(Console(file=out, force_terminal=True, width=100, height=50)) as view:
        for _ in range(50):
            view.update(loop)
        assert out.getvalue().count("watched") == 1
        view.update(loop, is_last=True)
    assert out.getvalue().count("watched") >= 2


def test_memory_is_known() -> None:
    assert 10_000_000 < resident() < 100_000_000_000


def test_in_a_real_terminal(lively: Trained, tmp_path: Path) -> None:
    path = written(lively.frame.head(300), tmp_path / "items.ndjson")
    terminal, other = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "kvec",
        "stream",
        lively.model,
        str(path),
        "--table",
        "-o",
        str(tmp_path / "d.ndjson"),
    ]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=other, stderr=subprocess.PIPE, env=environment) as process:
        os.close(other)
        seen = b""
        while True:
            try:
                some = os.read(terminal, 65536)
            except OSError:
                break
            if not some:
                break
            seen += some
        assert process.wait(30) == 0
        assert process.stderr is not None and b"300 items" in process.stderr.read()
    os.close(terminal)
    assert b"watched" in seen and b"closed" in seen
    assert (tmp_path / "d.ndjson").stat().st_size > 0
