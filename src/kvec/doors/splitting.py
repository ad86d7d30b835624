"""Packets sorted into one capture file per label; those of flows that are not decided yet wait in memory."""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kvec.words.errors import SettingError

MOST_WAITING = 256 << 20  # bytes of memory that packets take while they wait for a decision
AROUND = 200  # bytes that a packet takes beside its own
LONGEST_STEM = 180  # bytes of a file's name, before its number and ending
MOST_LABELLED = 1_000_000  # flows whose label is remembered
UNNAMED = "unnamed.pcapng"  # the file of packets without a flow, and of those that could not wait
_NAME = re.compile(r"[^\w.+-]+")

Raw = tuple[int, int, int, bytes]  # link type, time in ns, bytes on the wire, bytes captured


class Splitter:
    """Writes `FOLDER/label.pcapng` for every label."""

    def __init__(self, folder: Path, most_waiting: int = MOST_WAITING) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            is_empty = not any(folder.iterdir())
        except OSError as error:
            raise SettingError(f"{folder}: packets cannot be written there: {error.strerror}") from None
        if not is_empty:
            raise SettingError(f"{folder}: holds something already; name an empty or new folder for the packets")
        self._folder, self._most = folder, most_waiting
        self._files: dict[str | None, _File] = {}
        self._labels: OrderedDict[str, str] = OrderedDict()
        self._waiting: OrderedDict[str, list[Raw]] = OrderedDict()
        self._n_waiting = 0
        self.n_early = 0  # packets that had to be let go before their flow was decided

    def take(self, key: str | None, packet: Raw) -> None:
        """Take a packet of a flow, or of none."""
        if key is None:
            self._write(None, [packet])
        elif key in self._labels:
            self._labels.move_to_end(key)
            self._write(self._labels[key], [packet])
        else:
            self._waiting.setdefault(key, []).append(packet)
            self._n_waiting += len(packet[3]) + AROUND
            while self._n_waiting > self._most:
                _, old = self._waiting.popitem(last=False)
                self._let_go(None, old)
                self.n_early += len(old)

    def decided(self, key: str, label: str) -> None:
        """Write what a flow has waiting, and what comes of it from now on, to its label's file."""
        self._labels[key] = label
        self._labels.move_to_end(key)
        if len(self._labels) > MOST_LABELLED:
            self._labels.popitem(last=False)
        self._let_go(label, self._waiting.pop(key, []))

    def counts(self) -> dict[str, int]:
        """Packets in each file."""
        return {file.path.name: file.n for file in self._files.values()}

    def close(self) -> None:
        """Write what still waits, and close all files."""
        for packets in self._waiting.values():
            self._write(None, packets)
        self._waiting.clear()
        for file in self._files.values():
            file.close()

    def _let_go(self, label: str | None, packets: list[Raw]) -> None:
        self._n_waiting -= sum(len(packet[3]) + AROUND for packet in packets)
        self._write(label, packets)

    def _write(self, label: str | None, packets: Iterable[Raw]) -> None:
        if label not in self._files:
            self._files[label] = _File(self._free(label))
        for packet in packets:
            self._files[label].add(packet)

    def _free(self, label: str | None) -> Path:
        """A file name for a label that no other label has."""
        if label is None:
            return self._folder / UNNAMED
        whole = _NAME.sub("_", label).strip("._").encode()
        stem = whole[:LONGEST_STEM].decode(errors="ignore") or "label"
        taken = {UNNAMED, *self.counts()}
        number, name = 1, f"{stem}.pcapng"
        while name in taken:
            number += 1
            name = f"{stem}-{number}.pcapng"
        return self._folder / name


class _File:
    """A pcapng file: one interface per link type, times in nanoseconds."""

    def __init__(self, path: Path) -> None:
        self.path, self.n = path, 0
        self._links: dict[int, int] = {}
        self._file: IO[bytes] = path.open("wb")
        self._block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))

    def add(self, packet: Raw) -> None:
        """Add one packet."""
        link, time, wire, data = packet
        if link not in self._links:
            self._links[link] = len(self._links)
            resolution = struct.pack("<HHBxxxHH", 9, 1, 9, 0, 0)  # option if_tsresol: 10^-9 s; end of options
            self._block(1, struct.pack("<HHI", link, 0, 0) + resolution)
        head = struct.pack("<IIIII", self._links[link], time >> 32 & 0xFFFFFFFF, time & 0xFFFFFFFF, len(data), wire)
        self._block(6, head + data + b"\0" * (-len(data) % 4))
        self.n += 1

    def close(self) -> None:
        """Close it."""
        with self._named():
            self._file.close()

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("<I", len(body) + 12)
        with self._named():
            self._file.write(struct.pack("<I", kind) + length + body + length)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say which file it is that cannot be written."""
        try:
            yield
        except OSError as error:
            raise SettingError(f"{self.path}: cannot be written: {error.strerror}") from None
