"""`kvec stream`: what was wished for is checked, opened and, where a state says so, gone on with."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvec.decide.deployed import Deployed, load_deployed
from kvec.decide.models import is_newly_promised, named
from kvec.decide.stream import Stream
from kvec.doors.incoming import open_source
from kvec.doors.keeping import Keeper
from kvec.doors.messages import say
from kvec.doors.outlets import DeadLetters, Outlet, Sink
from kvec.doors.promises import Watcher, promise_lines, unknown_lines
from kvec.doors.running import Loop, Manner, Stopping
from kvec.doors.succeeding import limits_of, require_same_items, require_same_limits
from kvec.doors.summary import counted, is_useless, summary
from kvec.doors.watching import Watch
from kvec.doors.writing import require_place
from kvec.read.arriving import RowReader
from kvec.read.arriving_sources import Source
from kvec.words.errors import ModelError, SettingError
from kvec.words.plain import require_choice

EVERY = "30s"
STDOUT = ("-", "/dev/stdout")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
LOSSES = {
    "file": "the file must be read again from its beginning",
    "parquet": "the file must be read again from its beginning",
    "stdin": "all sequences that are not decided yet are lost, and what they have seen",
    "socket": "all sequences that are not decided yet are lost, and what they have seen",
    "kafka": "all sequences that are not decided yet are lost, and what they have seen",
}

KINDS = {
    "file": "a file", "parquet": "a Parquet file", "stdin": "the standard input", "socket": "a socket",
    "kafka": "a Kafka topic",
}  # fmt: skip


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line."""

    model: Path
    source: str = ""
    output: Path | None = None
    form: str | None = None
    follow: bool = False
    state: Path | None = None
    every: str | None = None  # 30s
    take_over: bool = False
    on_stop: str | None = None  # decide or save
    table: bool = False
    strict: bool = False
    dead_letters: Path | None = None
    max_line: int = 1 << 20
    event_time: str = "items"  # or wall
    threshold: float | None = None
    at: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] | None = None  # those that were given


def stream_items(wishes: Wishes) -> int:
    """Stream until the source ends or someone stops it; the exit code."""
    if str(wishes.output) in STDOUT:
        wishes = replace(wishes, output=None)
    _check(wishes)
    limits = dict(wishes.limits or {})
    fresh_limits = limits_of(limits)
    model = load_deployed(wishes.model, wishes.at)
    keeper = None if wishes.state is None else Keeper(wishes.state)
    try:
        stream = None if keeper is None else keeper.resume()
        is_new = stream is None
        if stream is None:
            stream = Stream(model, fresh_limits, wishes.threshold)
        newer = None if is_new else _newer(stream, model, wishes, limits)
        return _open_and_run(stream, is_new, newer, wishes, keeper)
    except BrokenPipeError:  # nobody reads the decisions any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    finally:
        if keeper is not None:
            keeper.close()


def every(text: str) -> tuple[int | None, float | None]:
    """After how many rows, or after how many seconds, a state is saved.

    >>> every("10000"), every("30s"), every("1.5m")
    ((10000, None), (None, 30.0), (None, 90.0))
    """
    unit = UNITS.get(text[-1:])
    try:
        number = float(text[:-1]) if unit else int(text)
    except ValueError:
        number = 0
    if not 0 < number < math.inf:
        raise SettingError(f"--every is {text!r}; write a number of rows, as in 10000, or a time, as in 30s")
    return (None, number * unit) if unit else (int(number), None)


def _check(wishes: Wishes) -> None:
    """Refuse what cannot be, before anything is opened."""
    files = [file for file in (wishes.output, wishes.dead_letters) if file is not None and Outlet(file).is_file]
    require_place(wishes.output, (".ndjson", ".jsonl") if wishes.output in files else ())
    require_place(wishes.dead_letters)
    every(wishes.every or EVERY)
    require_choice(wishes.event_time, ("items", "wall"), "--event-time")
    if wishes.on_stop is not None:
        require_choice(wishes.on_stop, ("decide", "save"), "--on-stop")
    needy = {"--on-stop save": wishes.on_stop == "save", "--take-over": wishes.take_over, "--every": wishes.every}
    if wishes.state is None and any(needy.values()):
        flag = next(flag for flag, is_given in needy.items() if is_given)
        raise SettingError(f"{flag} needs a state; name its folder with --state")
    if wishes.max_line < 1:
        raise SettingError(f"--max-line is {wishes.max_line}; at least 1 byte is needed")
    if wishes.table and not sys.stdout.isatty():
        raise SettingError("--table draws in a terminal, but the standard output goes elsewhere; use -o FILE instead")
    files.append(Path(wishes.source))
    if len({file.resolve() for file in files}) < len(files):
        raise SettingError("SOURCE, --output and --dead-letters are not all different files; give each its own")


def _newer(stream: Stream, model: Deployed, wishes: Wishes, limits: Mapping[str, Any]) -> Deployed | None:
    """A state is gone on with by what it was made with; only a model that is to take over may differ, or a promise."""
    require_same_limits(stream.limits, limits, str(wishes.state))
    is_same = named(stream.model) == named(model)
    if wishes.take_over and not is_same:
        require_same_items(stream.model.schema, model.schema, str(wishes.model), str(wishes.state))
        return model
    if not is_same and stream.model.hash == model.hash:
        raise ModelError(
            f"{wishes.model} stands at {model.operating_point} now, but at {stream.model.operating_point} in "
            f"{wishes.state}; give the same --at, or let the new one decide all new sequences with --take-over"
        )
    if not is_same:
        raise ModelError(
            f"{wishes.model} is not the model in {wishes.state}; go on with that one, or let this one decide all new "
            "sequences with --take-over"
        )
    if wishes.threshold is not None and wishes.threshold != stream.note.get("threshold"):
        raise SettingError(f"--threshold cannot change in {wishes.state}; leave it out, or name a new --state")
    is_moved = stream.threshold != stream.model.threshold
    return model if not is_moved and is_newly_promised(model, stream.model) else None


def _open_and_run(stream: Stream, is_new: bool, newer: Deployed | None, wishes: Wishes, keeper: Keeper | None) -> int:
    note = stream.note
    source, reader = open_source(wishes.source, stream.model, wishes.form, wishes.follow, wishes.max_line)
    if not is_new and note["kind"] != source.kind:
        raise SettingError(f"{wishes.state} belongs to {KINDS[note['kind']]}, not to {source.name}; name a new --state")
    if stream.limits.idle is not None and not source.is_live:
        raise SettingError("--idle goes by the wall clock, which a file does not have; use --expiry")
    if wishes.event_time == "wall" and not source.is_live:
        raise SettingError(
            "--event-time wall is for sources that wait for more; a file has the time of its items alone"
        )
    if not is_new:
        reader.restore(note["reader"])
    source.start(note.get("position", {}))
    if source.notice:
        say(source.notice)
    try:
        if note.get("is_finished") and not source.is_live and not source.has_more():
            Outlet(wishes.output).require(note["sink"], "stream it again with a new --state")
            say(f"{source.name} was streamed to its end, and {wishes.state} is finished: there is nothing new in it")
            return 0
        return _run(stream, is_new, newer, source, wishes, keeper, reader)
    finally:
        source.close()


def _run(
    stream: Stream, is_new: bool, newer: Deployed | None, source: Source, wishes: Wishes, keeper: Keeper | None,
    reader: RowReader,
) -> int:  # fmt: skip
    note = stream.note
    sink = Sink(wishes.output, stream.model.vocabulary.label_names, wishes.table)
    letters = DeadLetters(wishes.dead_letters, note.get("n_letters", 0), source.kind in ("file", "stdin"))
    for outlet, name in ((sink.outlet, "sink"), (letters.outlet, "letters")):
        if is_new:
            outlet.begin(is_kept=keeper is not None, is_replaced=not source.is_live)
        else:
            outlet.go_on(note[name])
    items, seconds = every(wishes.every or EVERY)
    is_same = newer is None or named(newer) == named(stream.model)
    manner = Manner(
        items, seconds, wishes.strict, wishes.event_time == "wall",
        decide_on_stop=wishes.on_stop == "decide" or (wishes.on_stop is None and keeper is None),
        threshold=note.get("threshold") if wishes.threshold is None and is_same else wishes.threshold,
    )  # fmt: skip
    loop = Loop(stream, source, reader, sink, letters, keeper, manner)
    loop.tally.classes.update(note.get("classes", {}))
    try:
        with Stopping() as stopping:
            _greet(source, wishes, stream.counters.items, sink.outlet.is_file)
            n_rows = loop.recover()
            if n_rows:
                say(f"taken again from the journal, behind the snapshot: {counted(n_rows, 'row')}")
            if newer is not None:
                loop.write(stream.take_over(newer, manner.threshold))
                loop.watcher = Watcher.of(stream)
                what = "the promise of {} counts for" if is_same else "{} takes over: it decides"
                say(f"{what.format(wishes.model)} the sequences that open from now on")
            for line in (*promise_lines(stream.model, stream.threshold), *unknown_lines(stream.model.unknown)):
                say(line)
            if keeper is not None and (n_rows or newer is not None):
                loop.save()
            if source.kind == "stdin" and not is_new:
                say(f"{source.position()['line']:,} lines of the standard input were taken; only new ones may come now")
            with Watch() if wishes.table else nullcontext() as view:
                is_over = loop.run(stopping, view)
    finally:
        sink.outlet.close()
        letters.outlet.close()
    for line in summary(loop, wishes.state, is_over, manner.decide_on_stop):
        say(line)
    if is_useless(loop):
        return 2
    return 0 if is_over or source.is_live else 130


def _greet(source: Source, wishes: Wishes, n_items: int, is_cut_back: bool) -> None:
    """Say what is good to know at the start."""
    if source.kind == "socket":
        say(f"listening at {source.name}")
    if wishes.state is None:
        say(f"no --state is kept: after a crash, {LOSSES[source.kind]}")
        return
    if n_items:
        say(f"{wishes.state} is gone on with, after {n_items:,} items")
    if not is_cut_back:
        say("after a crash, decisions since the last snapshot come again under the same ids")
