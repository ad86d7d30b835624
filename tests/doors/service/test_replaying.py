"""A recorded table as a live stream: its pace, and how it is paused, stepped and sought."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE
from tests.doors.service.serviced import opened, told

from kvec.doors.service.bounds import Bounds
from kvec.doors.service.hub import Hub
from kvec.doors.service.problems import Refusal
from kvec.doors.service.replaying import Recording, Replay
from kvec.doors.sources import read_by_schema
from kvec.words.errors import DataError
from kvec.words.items import Item


def until(claim: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def recording(lively: Trained) -> Recording:
    table = read_by_schema(Path(lively.items), opened(lively).version.base.schema)
    return Recording(table.frame, "items")


def test_items_come_in_order_with_their_ends(recording: Recording) -> None:
    items = [recording.item(i, 0) for i in range(len(recording))]
    assert [item.time for item in items] == sorted(item.time for item in items if item.time is not None)
    ends = [(item.tangle, item.key) for item in items if item.is_end]
    assert len(ends) == len(set(ends)) == len({(item.tangle, item.key) for item in items})
    again = recording.item(0, 1)
    assert again.tangle == f"{items[0].tangle} (2)" and (again.time or 0) > (items[-1].time or 0)
    with pytest.raises(DataError, match="no items to replay"):
        Recording(pl.DataFrame({"tangle": [], "key": [], "time": []}), "nothing")


def test_a_replay_is_played_paused_stepped_and_sought(
    lively: Trained, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    served = opened(lively)
    hub = Hub({"default": served}, Bounds())
    replay = Replay(recording, served, hub, speed=0.001)
    hub.start()
    replay.start()
    try:
        replay.control({"action": "pause"})
        n = served.counts()["items"]
        for _ in range(3):
            told_of: dict[str, Any] = replay.control({"action": "step"})
        assert told_of["state"] == "paused" and told_of["length"] == len(recording)
        until(lambda: served.counts()["items"] == n + 3)
        assert replay.control({"action": "seek", "position": 100})["position"] == 100
        assert replay.control({"action": "seek", "position": 5})["round"] == 1
        replay.control({"action": "play", "speed": 1000})
        until(lambda: replay.told()["state"] == "over")
        until(lambda: served.counts()["items"] == n + 3 + len(recording) - 5)
        assert served.counts()["waiting"] <= n + 3  # all but those of the first items, from which it went away
        assert all(one["tangle"].endswith("(2)") for one in told(served)[-5:])
        items = next(line for line in served.meters.text().decode().splitlines() if line.startswith("kvec_items_total"))
        assert float(items.split()[-1]) == served.counts()["items"]
        assert "no row so far" not in capsys.readouterr().err
        assert replay.control({"speed": 500})["speed"] == 500
        replay.control({"action": "play"})
        assert replay.told()["round"] == 2
        for wrong in (
            {},
            {"action": "stop"},
            {"action": "play", "speed": 0},
            {"action": "seek"},
            {"action": "seek", "position": -1},
            {"action": "stop", "speed": 7},
        ):
            with pytest.raises(Refusal):
                replay.control(wrong)
        assert replay.told()["speed"] == 500, "a wish that is refused changes nothing"
    finally:
        replay.stop()
        hub.stop()


def test_a_seek_while_items_are_being_fed_does_not_stop_the_replay(lively: Trained, recording: Recording) -> None:
    served = opened(lively)
    hub = Hub({"default": served}, Bounds())
    replay = Replay(recording, served, hub, speed=1000)
    is_fed = threading.Event()
    feed = served.feed

    def sought(items: Sequence[Item]) -> None:
        feed(items)
        if not is_fed.is_set():
            replay.control({"action": "seek", "position": 0})  # the batch is under way
            is_fed.set()

    served.feed = sought  # type: ignore[method-assign]
    hub.start()
    replay.start()
    try:
        until(lambda: replay.told()["state"] == "over")
        assert is_fed.is_set() and replay.told()["round"] == 1
        assert served.counts()["items"] > len(recording)
    finally:
        replay.stop()
        hub.stop()
