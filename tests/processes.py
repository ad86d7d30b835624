"""Functions that tests run in processes of their own, at the same time."""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

PATIENCE = 300.0  # seconds; on an idle machine all is over in ten


def side_by_side(function: Callable[..., Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What the function returns for each of these arguments, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=_run, args=(n, function, each, answers)) for n, each in enumerate(given)]
    for process in processes:
        process.start()
    found: dict[int, Any] = {}
    until = time.monotonic() + PATIENCE
    while len(found) < len(processes) and time.monotonic() < until:
        try:
            number, answer = answers.get(timeout=0.5)
            found[number] = answer
        except queue.Empty:
            if any(process.exitcode for process in processes):
                break
    for process in processes:
        if len(found) < len(processes):
            process.kill()
        process.join(60)
    assert len(found) == len(processes), [process.exitcode for process in processes]
    return [found[number] for number in range(len(processes))]


def _run(number: int, function: Callable[..., Any], given: tuple[Any, ...], answers: Any) -> None:
    answers.put((number, function(*given)))
