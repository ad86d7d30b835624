"""Where a process stands, as torchrun tells it."""

from __future__ import annotations

import pytest

from kvec.words.processes import is_one_of_many, is_restarted, may_restart, rank_here, rank_on_host


def test_where_a_process_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    assert (is_one_of_many(), rank_here(), rank_on_host(), is_restarted()) == (False, 0, 0, False)
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    assert rank_here() == 0, "of some other program"
    monkeypatch.setenv("MASTER_ADDR", "here")
    monkeypatch.setenv("MASTER_PORT", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert (is_one_of_many(), rank_here(), rank_on_host(), is_restarted()) == (True, 3, 1, True)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not is_one_of_many()


def test_whether_processes_would_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_MAX_RESTARTS", raising=False)
    assert not may_restart()
    for restarts in (0, 3):
        monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", str(restarts))
        assert may_restart() == bool(restarts)
