"""`kvec stream` on NATS: what was wished for is checked, and a worker of the fleet is started."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kvec.decide.deployed import load_deployed
from kvec.doors.fleet.crew import Duty, Worker
from kvec.doors.fleet.places import Place
from kvec.doors.fleet.work import Manner, Tally, settled
from kvec.doors.messages import say
from kvec.doors.promises import promise_lines, unknown_lines
from kvec.doors.running import Stopping
from kvec.doors.streaming import EVERY, Wishes, every
from kvec.doors.succeeding import limits_of
from kvec.doors.summary import counted
from kvec.words.errors import SettingError
from kvec.words.plain import require_choice

SCHEME = "nats://"


def is_fleet(given: str | None) -> bool:
    """Whether an address is one of NATS."""
    return given is not None and given.startswith(SCHEME)


def run_worker(wishes: Wishes, output: str | None) -> int:
    """Work in a fleet until someone stops it; the exit code."""
    place, sink = _places(wishes, output)
    model = load_deployed(wishes.model, wishes.at)
    limits = limits_of(dict(wishes.limits or {}))
    manner = Manner(
        model, limits, wishes.threshold, *every(wishes.every or EVERY), wishes.max_line, wishes.event_time == "wall"
    )
    terms: dict[str, Any] = {
        "source": place.stream, "sink": sink, "model": settled(model), "threshold": wishes.threshold,
        "event_time": wishes.event_time, **asdict(limits),
    }  # fmt: skip
    for line in (*promise_lines(model, wishes.threshold), *unknown_lines(model.unknown)):
        say(line)
    worker = Worker(Duty(place, sink, manner, terms, wishes.take_over), _name())
    with Stopping() as stopping:
        asyncio.run(worker.run(stopping))
    say(summary(worker.tally))
    return 0


def summary(tally: Tally) -> str:
    """What a worker has done, on one line."""
    said = [counted(tally.items, "item"), counted(tally.decisions, "decision")]
    if tally.again:
        said.append(f"{counted(tally.again, 'decision')} that an earlier worker had sent")
    if tally.letters:
        said.append(f"{counted(tally.letters, 'item')} that could not be used")
    return ", ".join(said)


def _places(wishes: Wishes, output: str | None) -> tuple[Place, str]:
    """Where items come from and decisions go; what a fleet does otherwise is refused."""
    if output is not None and "://" in output and not is_fleet(output):
        raise SettingError(f"{output}: decisions go to a file, to the standard output or to nats://")
    if not is_fleet(wishes.source):
        raise SettingError(f"{output}: decisions go there from a fleet; name items on NATS with --source, or -o FILE")
    if not is_fleet(output):
        raise SettingError(
            f"{wishes.source}: decisions of a fleet go to a stream beside the items; write --sink nats://…/decisions"
        )
    place, sink = Place.of(wishes.source), Place.of(output or "")
    if sink.servers != place.servers:
        raise SettingError(f"{sink.name}: items and decisions must be on the same servers, {', '.join(place.servers)}")
    if sink != Place(sink.name, sink.servers, sink.stream):
        raise SettingError(f"{sink.name}: say all settings in the source; the sink is a server and a stream")
    if sink.stream == place.stream:
        raise SettingError(f"{sink.name}: items and decisions need streams of their own")
    letters = f"{sink.stream}.letters.*"
    refused: Mapping[str, tuple[bool, str]] = {
        "--state": (wishes.state is not None, "a fleet keeps its states on the server"),
        "--table": (wishes.table, "a fleet has no view of its own; watch the stream of decisions"),
        "--follow": (wishes.follow, "a stream is followed anyway"),
        "--format": (wishes.form not in (None, "ndjson"), "its items are JSON"),
        "--strict": (wishes.strict, f"items that cannot be used go to {letters}"),
        "--dead-letters": (wishes.dead_letters is not None, f"items that cannot be used go to {letters}"),
        "--on-stop decide": (
            wishes.on_stop == "decide", "others go on with what is open; kvec send --close decides it"
        ),
    }  # fmt: skip
    for flag, (is_given, why) in refused.items():
        if is_given:
            raise SettingError(f"leave out {flag}: {why}")
    require_choice(wishes.event_time, ("items", "wall"), "--event-time")
    if wishes.max_line < 1:
        raise SettingError(f"--max-line is {wishes.max_line}; at least 1 byte is needed")
    return place, sink.stream


def _name() -> str:
    """A name for a worker that no other has, and that the bucket's keys allow."""
    host = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
