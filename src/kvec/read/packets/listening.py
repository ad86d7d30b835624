"""Packets off a network interface while they pass, a block at a time, by libpcap."""

from __future__ import annotations

import selectors
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from kvec.read.packets.captures import BLOCK, MOST_PACKETS, Packets
from kvec.words.errors import DataError, MissingExtra, SettingError

BUFFER = 1 << 25  # bytes that the kernel may hold for us while we do something else
LEAST_SNAP, MOST_SNAP = 64, 1 << 18
RAW = {12: 101, 14: 101}  # the one link type of ours that capture files call by another number
TURN = 1 << 32  # libpcap counts so far, then from 0


@dataclass(frozen=True, slots=True)
class Counters:
    """What a listener has met; `received` passed the filter, `dropped` of these found the kernel's buffer full."""

    received: int
    dropped: int
    dropped_by_interface: int


class Listener:
    """An interface that is listened to from its opening on; of each packet the first `snap` bytes are kept.

    Whoever opens it needs the right to (root, or CAP_NET_RAW), and no longer once it is open: `rights.drop_rights`.
    """

    def __init__(
        self, interface: str, filter: str = "", snap: int = 256, promiscuous: bool = False, buffer: int = BUFFER
    ) -> None:
        if not LEAST_SNAP <= snap <= MOST_SNAP:
            raise SettingError(f"snap is {snap}; it can be from {LEAST_SNAP} to {MOST_SNAP} bytes of a packet")
        self.interface = interface
        self._cypcap = _load()
        self._handle = self._open(snap, promiscuous, buffer)
        try:
            self._set(filter)
            self._handle.setnonblock(True)
            link = int(self._handle.datalink())
            self._waiting = selectors.DefaultSelector()
            self._waiting.register(self._handle.get_selectable_fd(), selectors.EVENT_READ)
        except BaseException:
            self._handle.close()
            raise
        self.link = RAW.get(link, link)
        self._most = max(1, min(MOST_PACKETS, BLOCK // snap))  # packets of a block
        self._last, self._totals = self._counts(), (0, 0, 0)  # from here on: some came before the filter was set
        self._is_open = True

    def packets(self, timeout: float) -> Packets:
        """What has passed since the last call; waits up to `timeout` seconds for a first packet, and may be empty."""
        if not self._is_open:
            raise DataError(f"{self.interface}: no longer listened to")
        kept: list[tuple[Any, bytes]] = []
        try:
            self._handle.dispatch(self._most, lambda head, data: kept.append((head, data)))
            if not kept and self._waiting.select(timeout):
                self._handle.dispatch(self._most, lambda head, data: kept.append((head, data)))
        except self._cypcap.Error as error:
            raise DataError(f"{self.interface}: {_said(error)}; is it still up?") from None
        return _block(kept, self.link)

    def counters(self) -> Counters:
        """How many packets passed the filter, and how many of them were lost, since the opening.

        To be asked now and then: what libpcap counts begins anew after 2³² packets.
        """
        if self._is_open:
            try:
                now = self._counts()
            except self._cypcap.Error:
                return Counters(*self._totals)  # an interface that has gone counts no more
            new = [(after - before) % TURN for before, after in zip(self._last, now, strict=True)]
            self._last = now
            self._totals = (self._totals[0] + new[0], self._totals[1] + new[1], self._totals[2] + new[2])
        return Counters(*self._totals)

    def close(self) -> None:
        """Listen no more; the counters stay as they are then."""
        if self._is_open:
            self.counters()
            self._is_open = False
            self._waiting.close()
            self._handle.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _counts(self) -> tuple[int, int, int]:
        stats = self._handle.stats()
        return stats.recv, stats.drop, stats.ifdrop

    def _open(self, snap: int, promiscuous: bool, buffer: int) -> Any:
        code = self._cypcap.ErrorCode
        handle = self._cypcap.create(self.interface)
        try:
            handle.set_snaplen(snap)
            handle.set_promisc(promiscuous)
            handle.set_buffer_size(buffer)
            handle.set_immediate_mode(True)  # else packets come late, in bundles
            handle.activate()
        except self._cypcap.Error as error:
            handle.close()
            if error.args[0] in (code.PERM_DENIED, code.PROMISC_PERM_DENIED):
                raise SettingError(_lacking(self.interface)) from None
            if error.args[0] == code.NO_SUCH_DEVICE:
                raise SettingError(f"no interface {self.interface!r}; there are: {', '.join(interfaces())}") from None
            if error.args[0] == code.IFACE_NOT_UP:
                way = f"sudo ip link set {self.interface} up"
                raise SettingError(f"{self.interface}: the interface is down; bring it up with: {way}") from None
            raise SettingError(f"{self.interface}: {_said(error)}") from None
        return handle

    def _set(self, filter: str) -> None:
        try:
            # a netmask must be given: looking it up, cypcap 0.6.3 prints it to the standard output
            self._handle.setfilter(self._handle.compile(filter, True, self._cypcap.NETMASK_UNKNOWN))
        except self._cypcap.Error as error:
            raise SettingError(f"filter {filter!r}: {_said(error)}; its language: man pcap-filter") from None


def interfaces() -> list[str]:
    """The names of what can be listened to here, the likeliest first."""
    return [device.name for device in _load().findalldevs()]


def _load() -> Any:
    try:
        import cypcap
    except ImportError:
        raise MissingExtra("listening to an interface needs cypcap; pip install 'kvec[packets]'") from None
    return cypcap


def _said(error: Exception) -> str:
    """The words of libpcap on one line."""
    return " ".join(str(error.args[-1]).split())


def _lacking(interface: str) -> str:
    if sys.platform == "linux":
        python = Path(sys.executable).resolve()
        way = f"run it with sudo, or allow this Python once and for all: sudo setcap cap_net_raw+ep {python}"
        return f"{interface}: listening needs the right CAP_NET_RAW, which this process does not have; {way}"
    return f"{interface}: listening needs a right that this process does not have; run it with sudo"


def _block(kept: list[tuple[Any, bytes]], link: int) -> Packets:
    n = len(kept)
    sizes = np.fromiter((len(data) for _, data in kept), np.int32, n)
    wire = np.fromiter((head.len for head, _ in kept), np.int64, n)
    seconds = np.fromiter((head.ts for head, _ in kept), np.float64, n)  # exact to the microsecond until 2255
    return Packets(
        data=np.frombuffer(bytearray().join(data for _, data in kept), np.uint8),
        starts=np.cumsum(sizes, dtype=np.int64) - sizes,
        sizes=sizes,
        wire=np.clip(wire, sizes, np.iinfo(np.int32).max).astype(np.int32),
        times=np.rint(seconds * 1e6).astype(np.int64) * 1000,
        links=np.full(n, link, np.uint16),
    )
