"""What runs in Flink's Python workers: thin functions around the rows' parting and the tangles' watcher.

A worker reads the model from its path; nothing of it travels with the job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyflink.common.typeinfo import Types
from pyflink.datastream import OutputTag
from pyflink.datastream.functions import FlatMapFunction, KeyedProcessFunction
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

from kvec.decide.deployed import load_deployed
from kvec.doors.flink.keeping import Keeper, Told
from kvec.doors.flink.parting import Parting, bad_line
from kvec.doors.flink.slices import Endings, Slices
from kvec.doors.flink.watching import Manner, Watcher
from kvec.doors.writing import decision_row
from kvec.words.limits import Limits

END = (1 << 62) - 1  # milliseconds: no event time but the end of all input is as late
BAD = OutputTag("kvec-bad-rows", Types.STRING())


@dataclass(frozen=True)
class Task:
    """All that a worker is told; it is pickled, so it holds no model."""

    model: str
    older: tuple[str, ...] = ()
    at: Mapping[str, Any] | None = None
    threshold: float | None = None
    limits: Limits = field(default_factory=Limits)
    manner: Manner = field(default_factory=Manner)
    parts: int = 1
    by: str = ""


class Reading(FlatMapFunction):  # type: ignore[misc]
    """From the number of a slice to its rows, put together by tangle; behind the last one, all tangles end."""

    def __init__(self, task: Task, slices: Slices) -> None:
        self._task, self._slices = task, slices

    def open(self, runtime_context: Any) -> None:
        """Read the schema that the model keeps."""
        self._schema = load_deployed(self._task.model).schema
        self._part = Parting(self._schema, self._task.parts, self._task.by)
        self._endings = Endings(self._slices, self._schema, self._part)

    def flat_map(self, value: int) -> Iterator[tuple[str, bytes]]:
        """The blocks of one slice."""
        return self._endings.blocks(value)


class Arriving(FlatMapFunction):  # type: ignore[misc]
    """From one row that came, as text, to a block of one."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def open(self, runtime_context: Any) -> None:
        """Read the schema that the model keeps."""
        self._part = Parting(load_deployed(self._task.model).schema, self._task.parts, self._task.by)

    def flat_map(self, value: str) -> Iterator[tuple[str, bytes]]:
        """The block, none where the row is blank."""
        return self._part.blocks(value.encode("utf-8", "backslashreplace").splitlines())


class Deciding(KeyedProcessFunction):  # type: ignore[misc]
    """The streams of all tangles that are this worker's."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def open(self, runtime_context: Any) -> None:
        """Load the models; the state is there by name."""
        task = self._task
        model = load_deployed(task.model, task.at)
        keeper = Keeper(model, [load_deployed(path) for path in task.older], task.limits, task.threshold)
        self._watcher = Watcher(keeper, task.manner)
        self._label_names = model.vocabulary.label_names
        content = Types.PRIMITIVE_ARRAY(Types.BYTE())
        self._kept = _Kept(
            runtime_context.get_state(ValueStateDescriptor("whole", content)),
            runtime_context.get_list_state(ListStateDescriptor("log", content)),
        )

    def process_element(self, value: tuple[str, bytes], ctx: Any) -> Iterator[Any]:
        """Take a block."""
        name, rows = value
        timers = _Timers(ctx.timer_service())
        return self._lines(self._watcher.take(name, rows, self._kept, timers, time.time()))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        """Look at a tangle again, or end it."""
        name = ctx.get_current_key()
        if timestamp == END:
            return self._lines(self._watcher.end(name, self._kept, time.time()))
        timers = _Timers(ctx.timer_service())
        return self._lines(self._watcher.ring(name, self._kept, timers, max(time.time(), timestamp / 1000)))

    def _lines(self, told: Told) -> Iterator[Any]:
        for decision in told.decisions:
            yield json.dumps(decision_row(decision, self._label_names), ensure_ascii=False, separators=(",", ":"))
        for row, problem in told.bad:
            yield BAD, bad_line(row, problem)


class _Kept:
    """Flink's keyed state as the keeper sees it."""

    def __init__(self, whole: Any, log: Any) -> None:
        self._whole, self._log = whole, log

    def whole(self) -> bytes | None:
        found = self._whole.value()
        return None if found is None else bytes(found)

    def log(self) -> Iterable[bytes]:
        return [bytes(entry) for entry in self._log.get() or ()]

    def add(self, entry: bytes) -> None:
        self._log.add(entry)

    def replace(self, whole: bytes) -> None:
        self._whole.update(whole)
        self._log.clear()


class _Timers:
    """Flink's timers as the watcher sees them."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def at(self, wall: float) -> None:
        self._service.register_processing_time_timer(int(wall * 1000))

    def at_end(self) -> None:
        self._service.register_event_time_timer(END)
