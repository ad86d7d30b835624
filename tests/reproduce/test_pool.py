from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.reproduce.fake import WORK, cell

from kvec.reproduce.plan import Cell, Sizes
from kvec.reproduce.pool import Finished, Started, default_jobs, run_cells

ROOT = Path(__file__).resolve().parents[2]


def all_of(*cells: Cell, jobs: int = 1, **more: Callable[[Cell], bool]) -> list[Started | Finished]:
    return list(run_cells([(each, Sizes()) for each in cells], {}, jobs, work=WORK, **more))


def finished(events: list[Started | Finished]) -> dict[str, Finished]:
    return {event.cell.training: event for event in events if isinstance(event, Finished)}


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_cells_run_in_their_order() -> None:
    a, b = cell("a"), cell("b")
    events = all_of(a, b)
    assert [type(event) for event in events] == [Started, Finished, Started, Finished]
    assert [event.cell for event in events] == [a, a, b, b]
    assert all(each.outcome and each.outcome.cell["n_train"] == 7 for each in finished(events).values())


def test_nothing_to_do_is_done_at_once() -> None:
    assert all_of() == []


def test_a_cell_that_fails_or_takes_its_process_along_harms_no_other() -> None:
    names = ("fails", "refuses", "dies", "good", "leaves", "better")
    over = finished(all_of(*map(cell, names), jobs=2))
    assert {name for name, event in over.items() if event.outcome is None} == {"fails", "refuses", "dies", "leaves"}
    assert over["fails"].error.startswith("ValueError: two lines (fake.py, line ")
    assert over["refuses"].error == "there is no such file"
    assert over["dies"].error == ("its process was ended by SIGKILL; perhaps the memory was full: try fewer --jobs")
    assert over["leaves"].error == "its process ended with exit code 3"


def test_each_process_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    outcome = finished(all_of(cell("threads")))["threads"].outcome
    assert outcome is not None and outcome.cell["commit"] == "11"


def test_cells_that_may_not_start_are_passed_over() -> None:
    events = all_of(cell("a"), cell("b"), cell("c"), may_start=lambda each: each.training != "b")
    assert list(finished(events)) == ["a", "c"]


def test_as_many_as_there_are_jobs_run_at_a_time(tmp_path: Path) -> None:
    cells = [(cell("lasts", seed), Sizes()) for seed in range(3)]
    events = run_cells(cells, {"folder": str(tmp_path)}, 2, work=WORK)
    assert [next(events), next(events)] == [Started(cells[0][0]), Started(cells[1][0])]
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    workers = [int(path.stem) for path in tmp_path.iterdir()]
    assert all(map(is_alive, workers))
    events.close()
    assert not any(map(is_alive, workers))
    assert default_jobs() >= 1


def test_an_interrupt_is_for_the_parent_alone() -> None:
    events = run_cells([(cell("a"), Sizes())], {}, 1, work=WORK)
    next(events)
    for child in multiprocessing.active_children():  # which may not have run a line of Python yet
        assert child.pid is not None
        os.kill(child.pid, signal.SIGINT)
    (last,) = events
    assert isinstance(last, Finished) and last.outcome is not None
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_their_parent_however_it_ends(tmp_path: Path, ending: signal.Signals) -> None:
    code = (
        "import sys\nfrom tests.reproduce.fake import WORK, cell\nfrom kvec.reproduce.plan import Sizes\n"
        "from kvec.reproduce.pool import run_cells\n"
        "list(run_cells([(cell('lasts', s), Sizes()) for s in (0, 1)], {'folder': sys.argv[1]}, 2, work=WORK))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, tmp_path], cwd=ROOT)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    os.kill(parent.pid, ending)
    assert parent.wait() == -ending
    for worker in [int(path.stem) for path in tmp_path.iterdir()]:
        wait_for(lambda worker=worker: not is_alive(worker))  # type: ignore[misc]
