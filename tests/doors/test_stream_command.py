"""The flags of `kvec stream`."""

from __future__ import annotations

import re
import resource
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from kvec.doors import streaming
from kvec.doors.cli import app, run
from kvec.doors.streaming import Wishes
from kvec.words.limits import Limits

ROOT = Path(__file__).resolve().parents[2]

CODE = "import sys; from kvec.doors.cli import run; run(['stream', '--help']); print(sorted(sys.modules))"


def test_help_is_quick_and_needs_no_heavy_rooms() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "kvec stream model items.ndjson" in done.stdout
    for heavy in ("torch", "polars", "numpy", "numba", "confluent_kafka"):
        assert f"'{heavy}'" not in done.stdout
    assert after.ru_utime - before.ru_utime < 2, "seconds of work; on an idle machine it takes a third of one"


def test_the_page_keeps_pace_with_the_flags() -> None:
    page = (ROOT / "docs" / "stream.md").read_text(encoding="utf-8")
    command = typer.main.get_command(app).commands["stream"]  # type: ignore[attr-defined]
    flags = [flag for parameter in command.params for flag in parameter.opts if flag.startswith("--")]
    assert len(flags) > 20
    for flag in flags:
        assert flag in page or flag in ("--output", "--help"), flag
    told = dict(re.findall(r"^\| `--([\w-]+)` \| `?(.*?)`? \|", page, re.MULTILINE))
    for limit in fields(Limits):
        if f"--{limit.name.replace('_', '-')}" in flags and limit.default is not None:
            assert told[limit.name.replace("_", "-")] == str(limit.default)
    for command_line in re.findall(r"(?:^|\| )(kvec stream [^#|\n]*)", page, re.MULTILINE):
        _, _, *arguments = shlex.split(command_line)
        command.make_context("stream", arguments)


def test_help_and_page_say_that_a_new_state_wants_an_empty_sink() -> None:
    command = typer.main.get_command(app).commands["stream"]  # type: ignore[attr-defined]
    (output,) = (parameter for parameter in command.params if "--output" in parameter.opts)
    assert "With a new --state it must not hold anything yet" in output.help
    page = (ROOT / "docs" / "stream.md").read_text(encoding="utf-8")
    assert "With a new `--state` FILE must not hold anything yet" in page


def test_help_tells_the_defaults_of_the_limits() -> None:
    command = typer.main.get_command(app).commands["stream"]  # type: ignore[attr-defined]
    shown = {parameter.name: parameter.show_default for parameter in command.params}
    for limit in fields(Limits):
        if limit.name in shown and limit.default is not None:
            assert shown[limit.name] == str(limit.default)
    assert (shown["expiry"], shown["idle"], shown["every"]) == ("the schema's", "never", "30s")


def test_every_flag_reaches_its_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Wishes] = []

    def note(wishes: Wishes) -> int:
        given.append(wishes)
        return 0

    monkeypatch.setattr(streaming, "stream_items", note)
    flags: dict[str, Any] = {
        "--output": "d.ndjson", "--format": "csv", "--follow": None, "--state": "kept", "--every": "7",
        "--take-over": None, "--on-stop": "save", "--table": None, "--strict": None, "--dead-letters": "l.ndjson",
        "--max-line": 99, "--event-time": "wall", "--threshold": 0.25, "--at": "abstain_below=0.5",
        "--max-live-keys": 1, "--max-tangles": 2,
        "--max-cached-items": 3, "--expiry": 4.0, "--idle": 5.0, "--late": "drop", "--reorder": 6.0,
        "--duplicates": "drop",
    }  # fmt: skip
    arguments = [str(part) for flag in flags.items() for part in flag if part is not None]
    assert run(["stream", "model", "items.csv", *arguments]) == 0
    assert run(["stream", "model"]) == 0
    wishes, plain = given
    assert wishes == Wishes(
        Path("model"), "items.csv", Path("d.ndjson"), "csv", True, Path("kept"), "7", True, "save", True, True,
        Path("l.ndjson"), 99, "wall", 0.25, {"abstain_below": 0.5},
        {"max_live_keys": 1, "max_tangles": 2, "max_cached_items": 3, "expiry": 4.0, "idle": 5.0, "late": "drop",
         "reorder": 6.0, "duplicates": "drop"},
    )  # fmt: skip
    assert plain == Wishes(Path("model"), "-", at={}, limits={})
    assert len(flags) == len(fields(Wishes)) - 3 + len(wishes.limits or ())
