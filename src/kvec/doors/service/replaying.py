"""A recorded table that is fed as a live stream: at its own pace or another, paused, stepped and sought."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import polars as pl

from kvec.doors.service.hub import Hub
from kvec.doors.service.problems import Refusal, unless_refused
from kvec.doors.service.served import Served
from kvec.words.errors import DataError
from kvec.words.items import Item

FRAME = 0.02  # seconds between two batches
MOST_ITEMS = 2_048  # of a batch
FASTEST = 1_000.0


class Recording:
    """The items of a table in the order of their times, with the last one of every key marked as its end."""

    def __init__(self, frame: pl.DataFrame, name: str) -> None:
        if "time" not in frame.columns:
            frame = frame.with_columns(time=pl.int_range(pl.len()).cast(pl.Float64) / 100)
        frame = frame.sort("time", maintain_order=True)
        if not frame.height:
            raise DataError(f"{name}: holds no items to replay")
        ends = frame.select(pl.int_range(pl.len()).reverse().over("tangle", "key") == 0).to_series()
        columns = [column for column in frame.columns if column.startswith("value.")]
        self.times: list[float] = frame["time"].to_list()
        self._names = list(zip(frame["tangle"].to_list(), frame["key"].to_list(), ends.to_list(), strict=True))
        self._values = frame.select(pl.col(columns).name.map(lambda text: text.removeprefix("value."))).to_dicts()
        gaps = (self.times[-1] - self.times[0]) / max(len(self.times) - 1, 1)
        self.duration = self.times[-1] - self.times[0] + max(gaps, 0.001)

    def __len__(self) -> int:
        return len(self.times)

    def item(self, index: int, round_: int) -> Item:
        """One item; of a later round, in a tangle of its own, and later."""
        tangle, key, is_end = self._names[index]
        name = f"{tangle} ({round_ + 1})" if round_ else str(tangle)
        return Item(name, str(key), self._values[index], self.times[index] + round_ * self.duration, is_end)


class Replay:
    """Feeds a recording to a model, from a thread of its own."""

    def __init__(self, recording: Recording, served: Served, hub: Hub, speed: float = 1.0, loops: bool = False) -> None:
        self._recording, self._served, self._hub, self._loops = recording, served, hub, loops
        self._speed = _speed(speed)
        self._place = self._round = self._steps = 0
        self._is_playing, self._is_over, self._is_stopping = True, False, False
        self._moment()
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="kvec-replay", daemon=True)

    def start(self) -> None:
        """Begin to play."""
        self._moment()
        self._thread.start()

    def stop(self) -> None:
        """End."""
        with self._moved:
            self._is_stopping = True
            self._moved.notify()
        self._thread.join()

    def is_of(self, served: Served) -> bool:
        """Whether it is this model's."""
        return served is self._served

    def told(self) -> dict[str, Any]:
        """How things stand."""
        recording = self._recording
        at = recording.times[min(self._place, len(recording) - 1)]
        state = "over" if self._is_over else "playing" if self._is_playing else "paused"
        return {
            "state": state, "speed": self._speed, "loops": self._loops, "round": self._round,
            "position": self._place, "length": len(recording), "time": at - recording.times[0],
            "duration": recording.duration, "model": self._served.name,
        }  # fmt: skip

    def control(self, wish: dict[str, Any]) -> dict[str, Any]:
        """Pause, play, step or seek; how things stand then."""
        action, speed, position = wish.get("action"), wish.get("speed"), wish.get("position")
        speed = None if speed is None else _speed(speed)
        with self._moved:
            if action == "pause":
                self._is_playing = False
            elif action == "play":
                if self._is_over:
                    self._seek(0)
                self._is_playing = True
            elif action == "step":
                self._is_playing = False
                self._steps = min(self._steps + 1, MOST_ITEMS)
            elif action == "seek":
                if not isinstance(position, int) or isinstance(position, bool) or position < 0:
                    raise Refusal(422, "seek needs a position, the number of an item from 0 on", field="position")
                self._seek(min(position, len(self._recording) - 1))
            elif action is not None or speed is None:
                raise Refusal(
                    422, "action must be pause, play, step or seek; it can be left out where only speed is given",
                    field="action",
                )  # fmt: skip
            if speed is not None:
                self._speed = speed
            self._moment()
            self._moved.notify()
        return self.told()

    def _seek(self, place: int) -> None:
        """Go on elsewhere; where items come again, in tangles of their own."""
        self._round += place < self._place or self._is_over
        self._place, self._is_over = place, False

    def _run(self) -> None:
        for items in self._batches():
            while not self._is_stopping:
                try:
                    unless_refused(self._hub.call(partial(self._served.feed, items)).result())
                    break
                except Refusal:  # the service is busy, or stopping
                    time.sleep(FRAME)

    def _batches(self) -> Iterator[list[Item]]:
        """What is due, again and again."""
        while True:
            with self._moved:
                if self._is_idle():
                    self._moved.wait_for(lambda: self._is_stopping or not self._is_idle())
                else:
                    self._moved.wait(FRAME)
                if self._is_stopping:
                    return
                if self._steps:
                    items = self._next(self._steps, None)
                    self._steps = 0
                elif self._is_playing:
                    items = self._next(MOST_ITEMS, self._base + (time.monotonic() - self._since) * self._speed)
                else:
                    items = []
            if items:
                yield items

    def _is_idle(self) -> bool:
        return not self._steps and (self._is_over or not self._is_playing)

    def _moment(self) -> None:
        """Let time run from here on: the replay was moved."""
        self._base, self._since = self._due_now(), time.monotonic()

    def _due_now(self) -> float:
        recording = self._recording
        return recording.times[min(self._place, len(recording) - 1)] + self._round * recording.duration

    def _next(self, most: int, until: float | None) -> list[Item]:
        """The next items, at most so many, up to a time."""
        items: list[Item] = []
        while len(items) < most and not self._is_over:
            if until is not None and self._due_now() > until:
                break
            items.append(self._recording.item(self._place, self._round))
            self._place += 1
            if self._place == len(self._recording):
                self._round, self._place = (self._round + 1, 0) if self._loops else (self._round, self._place)
                self._is_over = not self._loops
        return items


def _speed(given: Any) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given <= FASTEST:
        raise Refusal(422, f"speed must be a number above 0 and at most {FASTEST:g}", field="speed")
    return float(given)
