"""The functions that Flink calls, with a Flink that is not there."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.doors.flink.made import Kept
from tests.properties.stories import MODEL

from kvec.doors.flink import worker
from kvec.doors.flink.worker import Deciding, Task


class _States:
    """Flink's two states of one tangle, over one in memory."""

    def __init__(self) -> None:
        self.kept = Kept()

    def get_state(self, _: Any) -> Any:
        return SimpleNamespace(value=self.kept.whole, update=self.kept.replace)

    def get_list_state(self, _: Any) -> Any:
        return SimpleNamespace(get=self.kept.log, add=self.kept.add, clear=self.kept.entries.clear)


@pytest.fixture
def flink(monkeypatch: pytest.MonkeyPatch) -> _States:
    monkeypatch.setattr(worker, "pyflink", lambda module="": MagicMock())
    monkeypatch.setattr(worker, "load_deployed", lambda path, at=None: MODEL)
    return _States()


def lines(task: Task, states: _States, *blocks: tuple[str, bytes]) -> list[Any]:
    function = Deciding(task)
    function.open(states)
    return [line for block in blocks for line in function.process_element(block, MagicMock())]


def test_half_a_surrogate_pair_comes_out_as_json_writes_it(flink: _States) -> None:
    row = rb'{"tangle": "\ud800", "key": "\ud801", "time": 1.0, "size": 1, "way": "in", "load": 0.5, "rate": 0.25}'
    [line] = lines(Task("model", threshold=0.0), flink, (r"\ud800", row), (r"\ud800", b""))
    told = json.loads(line.encode())
    assert (told["tangle"], told["key"]) == ("\ud800", "\ud801")


def test_a_row_that_is_of_no_part_is_told_and_not_decided(flink: _States) -> None:
    row = b'{"tangle": 7, "key": 1, "time": 1.0, "size": 1, "load": 0.5, "rate": 0.25}'
    [(_, bad)] = lines(Task("model", threshold=0.0, parts=4, by="way", keeps_bad=True), flink, ("", row), ("", b""))
    told = json.loads(bad)
    assert told["raw"] == row.decode() and "'way' (--split-by)" in told["problem"]
    assert flink.kept == Kept(), "nothing of it is kept"
