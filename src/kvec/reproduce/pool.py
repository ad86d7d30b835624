"""Cells in processes of their own, one thread each: they end with their parent, and one that fails harms no other.

This module is imported by those processes before they know how many threads they may have: it must stay light.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from kvec.reproduce.plan import Cell, Outcome, Sizes
from kvec.words.errors import KvecError

WORK = "kvec.reproduce.cell:run_cell"
_THREADS = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS",
)  # fmt: skip


@dataclass(frozen=True)
class Started:
    """A cell began."""

    cell: Cell


@dataclass(frozen=True)
class Finished:
    """A cell is over: with what came out of it, or with the reason why nothing did."""

    cell: Cell
    outcome: Outcome | None
    error: str
    seconds: float


def default_jobs() -> int:
    """As many processes as there are cores for this one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_cells(
    cells: Sequence[tuple[Cell, Sizes]],
    data: Mapping[str, str],
    jobs: int,
    may_start: Callable[[Cell], bool] = lambda cell: True,
    work: str = WORK,
) -> Generator[Started | Finished]:
    """Run cells in their order, `jobs` at a time, and tell of each; to close the iterator ends them at once."""
    waiting = list(reversed(cells))
    workers: list[_Worker] = []
    try:
        while True:
            for worker in _free(workers, jobs, len(waiting)):
                while waiting and not may_start(waiting[-1][0]):
                    waiting.pop()
                if waiting:
                    cell, sizes = waiting.pop()
                    worker = worker or _Worker(work, dict(data))
                    if worker not in workers:
                        workers.append(worker)
                    worker.start(cell, sizes)
                    yield Started(cell)
            busy = [worker for worker in workers if worker.cell is not None]
            if not busy:
                return
            ready = wait([worker.pipe for worker in busy])
            for worker in busy:
                if worker.pipe in ready:
                    yield worker.finish()
                    if not worker.is_usable:
                        workers.remove(worker)
    finally:
        for worker in workers:
            worker.end()


def _free(workers: Sequence[_Worker], jobs: int, needed: int) -> list[_Worker | None]:
    """Who can take a cell: workers without one, and None for each that may still be made."""
    idle: list[_Worker | None] = [worker for worker in workers if worker.cell is None]
    return [*idle, *([None] * (jobs - len(workers)))][:needed]


class _Worker:
    """A process that runs one cell after another."""

    def __init__(self, work: str, data: dict[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=_serve, args=(theirs, work, data), daemon=True)
        with _without_interrupts():
            self._process.start()
        theirs.close()
        self.cell: Cell | None = None
        self.is_usable = True

    def start(self, cell: Cell, sizes: Sizes) -> None:
        self.cell, self._since = cell, time.monotonic()
        try:
            self.pipe.send((cell, sizes))
        except OSError:
            pass  # it has ended; what is read from it next will say so

    def finish(self) -> Finished:
        """What the process has sent of its cell; if it ended instead, that."""
        cell, self.cell = self.cell, None
        assert cell is not None
        outcome, error = None, ""
        try:
            outcome, error = self.pipe.recv()
        except (EOFError, OSError):
            self.is_usable = False
            self._process.join()
            error = _ending(self._process.exitcode or 0)
            self.end()
        return Finished(cell, outcome, error, time.monotonic() - self._since)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back; processes that are started meanwhile never hear of it, be it in their first moment."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else it starts with the first process, and lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ending(code: int) -> str:
    """Why a process ended, by its exit code."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    hint = "; perhaps the memory was full: try fewer --jobs" if -code == getattr(signal, "SIGKILL", 9) else ""
    return f"its process was ended by {signal.Signals(-code).name}{hint}"


def _serve(pipe: Connection, work: str, data: dict[str, str]) -> None:
    """The life of a worker process: cell after cell, until its parent has no more or is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name in _THREADS:
        os.environ[name] = "1"
    module, _, function = work.partition(":")
    run: Callable[[Cell, Sizes, Mapping[str, str]], Outcome] | None = None
    while True:
        try:
            cell, sizes = pipe.recv()
        except EOFError:
            return
        answer: tuple[Any, str]
        try:
            run = run or getattr(importlib.import_module(module), function)
            answer = (run(cell, sizes, data), "")
        except Exception as error:
            answer = (None, _told(error))
        pipe.send(answer)


def _told(error: Exception) -> str:
    """An error in one line, with the place where it was raised, unless it is one that a user can act on."""
    text = " ".join(str(error).split())
    if isinstance(error, KvecError):
        return text
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({os.path.basename(last.filename)}, line {last.lineno})"


def _end_with_parent() -> None:
    """Leave when the parent has left in any way, be it killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
