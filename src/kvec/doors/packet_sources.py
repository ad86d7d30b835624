"""Where packets come from: captures one after the other, at any speed, or an interface."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np

from kvec.doors.messages import say
from kvec.read.packets.captures import Packets
from kvec.read.packets.filtering import Filter
from kvec.read.packets.flows import Flows
from kvec.read.packets.layers import dissect
from kvec.read.packets.listening import Listener
from kvec.read.packets.rights import drop_rights
from kvec.read.packets.tables import each_capture
from kvec.words.errors import DataError, SettingError
from kvec.words.flows import FlowSettings

TICK = 1.0  # seconds between two looks at the kernel's counters
LONGEST = 60 * 10**9  # ns without a packet, or by which a clock steps, that a replay waits for
PAUSE = 0.2  # seconds without a packet after which an empty block says that time passes


class PacketSource(Protocol):
    """Blocks of packets, each with the name of its capture; an empty block says only that time passes."""

    name: str
    is_live: bool
    counters: Counter[str]  # what could not be read, by reason
    problem: DataError | None  # what ended the packets early

    def blocks(self, is_over: Callable[[], bool]) -> Iterator[tuple[str, Packets]]:
        """The blocks as they come, until someone says that it is over."""


class Files:
    """Captures, as fast as they can be read or `speed` times as fast as they were taken.

    The first one is opened at once; where a later one cannot be, what came before counts.
    """

    is_live = False

    def __init__(self, paths: Sequence[Path], speed: float | None = None, filter: Filter | None = None) -> None:
        self.name = ", ".join(map(str, paths[:3])) + (", …" if len(paths) > 3 else "")
        self.counters: Counter[str] = Counter()
        self.problem: DataError | None = None
        self._speed, self._filter = speed, filter
        found = each_capture(paths, lambda problem: say(f"warning: passed over: {problem}"))
        self._captures = chain([next(found)], found)  # what cannot be opened is refused before anything is written

    def blocks(self, is_over: Callable[[], bool] = lambda: False) -> Iterator[tuple[str, Packets]]:
        """The captures one after the other, once."""
        try:
            yield from self._read(is_over)
        except DataError as error:
            self.problem = error

    def _read(self, is_over: Callable[[], bool]) -> Iterator[tuple[str, Packets]]:
        for name, _, capture in self._captures:
            pace = None if self._speed is None else _Pace(self._speed)
            try:
                for packets in capture if self._filter is None else map(self._filter.passing, capture):
                    for part in [packets] if pace is None else pace.parts(packets):
                        yield name, part
                        if is_over():
                            return
            finally:  # also where someone stops
                self.counters += capture.counters
                if self._filter is not None:
                    self.counters += self._filter.lost
                    self._filter.lost.clear()


class _Pace:
    """Lets packets out when they are due; a silence, or a step of the clock, of more than a minute is left out."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._started = -1
        self._last = self._due = 0  # ns: the last packet's time, and when it was due after the first

    def parts(self, packets: Packets) -> Iterator[Packets]:
        """A block in parts, each when its packets are due; while none is, empty ones."""
        if not len(packets):
            return
        if self._started < 0:
            self._started, self._last = time.monotonic_ns(), int(packets.times[0])
        steps = np.diff(packets.times, prepend=self._last)
        steps[(steps > LONGEST) | (steps < -LONGEST)] = 0
        dues = self._due + np.cumsum(steps)
        self._last, self._due = int(packets.times[-1]), int(dues[-1])
        at = 0
        while at < len(packets):
            reached = int((time.monotonic_ns() - self._started) * self._speed)
            late = dues[at:] > reached
            until = at + (int(late.argmax()) if late.any() else len(late))
            yield packets.some(slice(at, until))
            at = until
            if at < len(packets):
                due = (int(dues[at]) - reached) / self._speed / 1e9
                time.sleep(min(max(due, 0.0), PAUSE))


class Interface:
    """A network interface that is listened to until someone stops, or it is gone: what came before counts."""

    is_live = True

    def __init__(self, interface: str, filter: str, snap: int, promiscuous: bool) -> None:
        self.name = interface
        self.counters: Counter[str] = Counter()
        self.problem: DataError | None = None
        self._listener = Listener(interface, filter, snap, promiscuous)
        warm_up()
        rights = drop_rights()
        say(f"listening to {interface} {rights}; stop with Ctrl-C")

    def blocks(self, is_over: Callable[[], bool]) -> Iterator[tuple[str, Packets]]:
        """What passes until it is over, and an empty block now and then while nothing does."""
        with self._listener:
            try:
                yield from self._heard(is_over)
            except DataError as error:
                self.problem = error

    def _heard(self, is_over: Callable[[], bool]) -> Iterator[tuple[str, Packets]]:
        asked = time.monotonic()
        while not is_over():
            yield self.name, self._listener.packets(PAUSE)
            if time.monotonic() - asked > TICK:
                asked = time.monotonic()
                self._listener.counters()  # the kernel's counters begin anew after a while
        end = time.time_ns()  # what came before it may still wait in the kernel
        while len(packets := self._listener.packets(0.0)) and packets.times[0] <= end:
            yield self.name, packets

    @property
    def lost(self) -> str:
        """What the kernel counted."""
        c = self._listener.counters()
        return (
            f"{c.received:,} packets passed the filter, {c.dropped + c.dropped_by_interface:,} were lost by the kernel"
        )


def warm_up() -> None:
    """Compile all that packets go through: before the first one, and while the compiled code can still be kept."""
    head = "020000000002020000000001 0800 4500001c0000000040110000 0a000001 0a000002"
    for n in (1, 2):  # flows; the columns of a single one lie otherwise in memory
        udp = bytearray.fromhex("".join(f"{head} {port:04x}003500080000" for port in range(n)))
        sizes = np.full(n, len(udp) // n, np.int32)
        packets = Packets(
            np.frombuffer(udp, np.uint8), np.cumsum(sizes, dtype=np.int64) - sizes, sizes, sizes,
            np.zeros(n, np.int64), np.ones(n, np.uint16),
        )  # fmt: skip
        Flows(FlowSettings()).take(packets, dissect(packets))


def open_packets(
    paths: Sequence[Path], interface: str | None, filter: str, speed: str, snap: int, promiscuous: bool
) -> Files | Interface:
    """The source that is meant."""
    if (interface is None) == (not paths):
        raise SettingError("name captures, or an interface with -i, and not both")
    if interface is not None:
        if speed != "full":
            raise SettingError("--speed is for captures; an interface has the speed it has")
        return Interface(interface, filter, snap, promiscuous)
    return Files(paths, speed_of(speed), Filter(filter) if filter else None)


def require_seconds(seconds: float | None) -> None:
    """Refuse a time to listen that is none."""
    if seconds is not None and not seconds > 0:
        raise SettingError(f"--seconds is {seconds}; it must be more than 0")


def speed_of(text: str) -> float | None:
    """How many times as fast as it was taken a capture is replayed; None for as fast as can be.

    >>> speed_of("full"), speed_of("real"), speed_of("10")
    (None, 1.0, 10.0)
    """
    if text == "full":
        return None
    try:
        speed = 1.0 if text == "real" else float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise SettingError(f"--speed is {text!r}; it can be real, full, or a number such as 10 for ten times as fast")
    return speed
