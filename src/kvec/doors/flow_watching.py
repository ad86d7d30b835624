"""`kvec watch`: packets become items, items become decisions, and flows are named while they run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvec.decide.deployed import Deployed, load_deployed
from kvec.decide.stream import Stream
from kvec.doors.flow_book import FlowBook
from kvec.doors.flow_view import FlowView
from kvec.doors.messages import say
from kvec.doors.outlets import Outlet
from kvec.doors.packet_sources import Files, Interface, open_packets, require_seconds
from kvec.doors.promises import promise_lines
from kvec.doors.running import Stopping
from kvec.doors.splitting import Splitter
from kvec.doors.summary import counted
from kvec.doors.writing import decision_row, require_place
from kvec.read.packets.captures import Packets
from kvec.read.packets.flows import Arrived, Flows
from kvec.read.packets.layers import dissect
from kvec.read.packets.tables import FIELDS, no_flows, unread
from kvec.report.text import plain, table
from kvec.words.errors import ModelError, SettingError
from kvec.words.flows import FlowSettings
from kvec.words.items import Decision, Item
from kvec.words.limits import Limits

TICK = 1.0  # seconds between ticks of the wall clock
TOLD = 8  # reasons that are told at the end


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line."""

    model: Path
    captures: tuple[Path, ...] = ()
    interface: str | None = None
    filter: str = ""
    speed: str = "full"
    output: Path | None = None
    form: str | None = None  # table or ndjson
    pcap_out: Path | None = None
    threshold: float | None = None
    at: Mapping[str, Any] | None = None
    seconds: float | None = None  # stop listening after so long
    snap: int = 256
    promiscuous: bool = False
    limits: Mapping[str, Any] | None = None


def watch_packets(wishes: Wishes) -> int:
    """Watch until the captures end or someone stops; the exit code."""
    require_place(wishes.output, (".ndjson", ".jsonl"), wishes.captures)
    form = wishes.form or ("table" if sys.stdout.isatty() else "ndjson")
    if form not in ("table", "ndjson"):
        raise SettingError(f"--format is {form!r}; it can be table or ndjson")
    require_seconds(wishes.seconds)
    model = load_deployed(wishes.model, wishes.at)
    fields = packet_fields(model, wishes.model)
    if model.schema.packets is None:
        say(f"warning: {wishes.model} was not trained on captures; its sizes and directions may mean something else")
    settings = model.schema.packets or FlowSettings()
    limits = ({"expiry": settings.idle} if model.schema.expiry is None else {}) | dict(wishes.limits or {})
    stream = Stream(model, Limits.of(limits), wishes.threshold)
    for line in promise_lines(model, stream.threshold):
        say(line)
    source = open_packets(
        wishes.captures, wishes.interface, wishes.filter, wishes.speed, wishes.snap, wishes.promiscuous
    )
    try:
        with ExitStack() as stack:
            stopping = stack.enter_context(Stopping())
            view = stack.enter_context(FlowView()) if form == "table" else None
            watch = _Watch(stream, source, fields, settings, wishes, is_shown=form == "table")
            stack.callback(watch.close)
            watch.run(stopping, view)
    except BrokenPipeError:  # nobody reads the decisions any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    print(watch.summary(), file=sys.stderr)
    if lost := unread(source.counters):
        say(f"warning: {lost}")
    if source.problem is not None:
        raise source.problem
    if not (source.is_live or watch.book.n_flows or stopping.is_asked):
        raise no_flows(source.name, source.counters)
    return 0


def packet_fields(model: Deployed, path: Path) -> tuple[str, ...]:
    """The fields of packets that a model looks at, each by the name of its column."""
    strange = [field.source for field in model.schema.values if field.source not in FIELDS]
    if strange or model.schema.key != ("key",):
        what = f"field {strange[0]!r}" if strange else f"key {', '.join(model.schema.key)}"
        raise ModelError(
            f"{path}: was not trained on packets: no packet has the {what}; train one with: kvec train CAPTURES "
            "--labels by-file -o model"
        )
    return tuple(field.source for field in model.schema.values)


def items_of(capture: str, arrived: Arrived, fields: Sequence[str]) -> Iterator[Item]:
    """The packets of flows as items, as `kvec flows` writes them."""
    columns = [getattr(arrived, name).tolist() for name in fields]
    for key, when, is_end, *cells in zip(
        arrived.key.to_list(), arrived.time.tolist(), arrived.is_end.tolist(), *columns, strict=True
    ):
        yield Item(capture, key, dict(zip(fields, cells, strict=True)), when, is_end)


class _Watch:
    """One run."""

    def __init__(
        self, stream: Stream, source: Files | Interface, fields: Sequence[str], settings: FlowSettings, wishes: Wishes,
        is_shown: bool,
    ) -> None:  # fmt: skip
        self.stream, self.source, self.book = stream, source, FlowBook()
        self._fields, self._settings = fields, settings
        self._is_silent = is_shown and wishes.output is None
        self._splitter = None if wishes.pcap_out is None else Splitter(wishes.pcap_out)
        self._outlet = Outlet(wishes.output)
        self._outlet.begin(is_kept=False, is_replaced=True)  # last: it empties the file
        self._flows: Flows | None = None
        self._capture = ""
        self._started = self._ticked = time.monotonic()
        self._until = self._started + (wishes.seconds or float("inf"))

    def run(self, stopping: Stopping, view: FlowView | None) -> None:
        """Watch until there is nothing more, or someone stops."""
        for capture, packets in self.source.blocks(lambda: stopping.is_asked or time.monotonic() > self._until):
            if capture != self._capture or self._flows is None:
                self._begin(capture)
            if len(packets):
                self._take(capture, packets)
            self._look_around()
            if view is not None:
                view.update(self.book, self.stream, self.source)
        self._write(self.stream.close())
        self._end()
        if view is not None:
            view.update(self.book, self.stream, self.source, is_last=True)

    def summary(self) -> str:
        """What was seen and named, for the end."""
        book, took = self.book, max(time.monotonic() - self._started, 1e-9)
        lines = [
            f"{counted(book.packets, 'packet')} ({book.bytes:,} bytes) of {counted(book.n_flows, 'flow')} in "
            f"{took:,.1f} s; {counted(book.n_decided, 'flow')} named"
        ]
        tables: list[str] = []
        if isinstance(self.source, Interface):
            lines.append(self.source.lost)
        if book.labels:
            named = [
                (plain(label, 40), f"{n:,}", f"{book.mean_observed(label):.1f}")
                for label, n in book.labels.most_common(40)
            ]
            tables.append(table(named, ("label", "flows", "packets needed"), right=(1, 2)))
        if self.source.counters:
            lost = [(reason, f"{n:,}") for reason, n in self.source.counters.most_common(TOLD)]
            tables.append(table(lost, ("noticed", "number"), right=(1,)))
        if self._splitter is not None:
            files = [(name, f"{n:,}") for name, n in sorted(self._splitter.counts().items())]
            tables.append(table(files, ("file", "packets"), right=(1,)))
            if self._splitter.n_early:
                lines.append(f"{self._splitter.n_early:,} packets could not wait for their flow's name in memory")
        return "\n\n".join(["\n".join(lines), *tables])

    def close(self) -> None:
        """Close the files."""
        self._outlet.close()
        if self._splitter is not None:
            self._splitter.close()

    def _begin(self, capture: str) -> None:
        self._end()
        self._capture, self._flows = capture, Flows(self._settings)

    def _end(self) -> None:
        if self._flows is not None:
            self.source.counters.update(self._flows.counters)
            self._flows = None

    def _take(self, capture: str, packets: Packets) -> None:
        assert self._flows is not None
        arrived = self._flows.take(packets, dissect(packets, self._settings.keyed))
        self.book.take(capture, arrived)
        if self._splitter is not None:
            self._split(capture, packets, arrived)
        self._write(self.stream.feed_many(items_of(capture, arrived, self._fields), self._wall()))

    def _split(self, capture: str, packets: Packets, arrived: Arrived) -> None:
        assert self._splitter is not None
        keys = dict(zip(arrived.row.tolist(), arrived.key.to_list(), strict=True))
        data = packets.data
        columns = (packets.links, packets.times, packets.wire, packets.starts, packets.sizes)
        for row, (link, when, wire, start, size) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            key = keys.get(row)
            name = None if key is None else f"{capture}\n{key}"
            self._splitter.take(name, (link, when, wire, data[start : start + size].tobytes()))

    def _write(self, decisions: Sequence[Decision]) -> None:
        if not decisions:
            return
        known = self.book.decided(decisions)
        if self._splitter is not None:
            for one in decisions:
                self._splitter.decided(f"{one.tangle}\n{one.key}", one.shown_label)
        if not self._is_silent:
            names = self.stream.model.vocabulary.label_names
            self._outlet.write([decision_row(one, names) | more for one, more in zip(decisions, known, strict=True)])

    def _look_around(self) -> None:
        if self.source.is_live and time.monotonic() - self._ticked >= TICK:
            self._ticked = time.monotonic()
            self._write(self.stream.tick(time.time(), time.time()))

    def _wall(self) -> float:
        return time.time() if self.source.is_live else 0.0
