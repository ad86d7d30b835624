"""What runs in Flink's Python workers: thin functions around the rows' parting and the tangles' watcher.

A worker reads the model from its path; nothing of it travels with the job.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvec.decide.deployed import load_deployed
from kvec.doors.flink.keeping import Keeper, Told
from kvec.doors.flink.parting import Parting, bad_line, written
from kvec.doors.flink.slices import Endings, Slices
from kvec.doors.flink.watching import Manner, Watcher
from kvec.doors.messages import is_told
from kvec.doors.writing import decision_row
from kvec.words.extras import need
from kvec.words.limits import Limits

END = (1 << 62) - 1  # milliseconds: no event time but the end of all input is as late


_LOG = logging.getLogger(__name__)  # goes to the TaskManager's log


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
    keeps_bad: bool = False  # rows that cannot be used go somewhere


def pyflink(module: str = "") -> Any:
    """A module of PyFlink, which only those have who run jobs."""
    apart = (
        " in an environment of its own, since it wants older packages (in a clone: make flink, then "
        ".venv-flink/bin/kvec flink)"
    )
    return need(f"pyflink.{module}" if module else "pyflink", "kvec flink needs", "flink", apart)


def bad_rows() -> Any:
    """The name under which rows that cannot be used leave the job."""
    return pyflink("datastream").OutputTag("kvec-bad-rows", pyflink("common").Types.STRING())


class _Function:
    """What Flink asks of all functions."""

    def close(self) -> None:
        """Nothing is open."""


class Reading(_Function):
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


class Arriving(_Function):
    """From one row that came, as text, to a block of one."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def open(self, runtime_context: Any) -> None:
        """Read the schema that the model keeps."""
        self._part = Parting(load_deployed(self._task.model).schema, self._task.parts, self._task.by)

    def flat_map(self, value: str) -> Iterator[tuple[str, bytes]]:
        """The block, none where the row is blank."""
        return self._part.blocks(value.encode("utf-8", "backslashreplace").splitlines())


class Deciding(_Function):
    """The streams of all tangles that are this worker's."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def open(self, runtime_context: Any) -> None:
        """Load the models; the state is there by name."""
        task = self._task
        model = load_deployed(task.model, task.at)
        keeper = Keeper(model, [load_deployed(path) for path in task.older], task.limits, task.threshold)
        self._watcher = Watcher(keeper, task.manner)
        self._part = Parting(model.schema, task.parts, task.by)
        self._label_names = model.vocabulary.label_names
        self._bad, self._n_bad = bad_rows() if task.keeps_bad else None, 0
        types, state = pyflink("common").Types, pyflink("datastream.state")
        content = types.PRIMITIVE_ARRAY(types.BYTE())
        self._kept = _Kept(
            runtime_context.get_state(state.ValueStateDescriptor("whole", content)),
            runtime_context.get_list_state(state.ListStateDescriptor("log", content)),
        )

    def process_element(self, value: tuple[str, bytes], ctx: Any) -> Iterator[Any]:
        """Take a block; rows that are nobody's are told."""
        name, rows = value
        if not name:
            return self._lines(Told(bad=self._part.refused(rows)))
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
            plain = decision_row(decision, self._label_names)
            yield written(json.dumps(plain, ensure_ascii=False, separators=(",", ":")))
        for row, problem in told.bad:
            if self._bad is not None:
                yield self._bad, bad_line(row, problem)
            self._n_bad += 1
            if is_told(self._n_bad):
                _LOG.warning("a row cannot be used: %s (%d so far)", written(problem), self._n_bad)


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
