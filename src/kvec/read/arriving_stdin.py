"""The standard input as a source of rows, which come once."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from kvec.read.arriving_forms import CsvLines, JsonLines
from kvec.read.arriving_lines import MOST_BYTES, Splitter
from kvec.read.arriving_sources import Arrived, Source

BLOCK = 1 << 16  # bytes that are read at once
AHEAD = 16  # blocks that may wait


class StandardInput(Source):
    """The lines of the standard input, read ahead by a thread."""

    kind = "stdin"
    is_live = True
    is_replayable = False

    def __init__(self, decoder: JsonLines | CsvLines, most_bytes: int = MOST_BYTES, file: int = 0) -> None:
        super().__init__("stdin", decoder)
        self._file = file
        self._splitter = Splitter(most_bytes, has_quotes=isinstance(decoder, CsvLines))
        self._blocks: queue.Queue[bytes] = queue.Queue(AHEAD)
        self._waiting: deque[Arrived] = deque()
        self._line = self._taken = 0
        self._is_over = False

    def start(self, position: Mapping[str, Any]) -> None:
        """Begin to read; lines are counted on."""
        super().start(position)
        self._line = self._taken = position.get("line", 0)
        threading.Thread(target=self._pump, daemon=True).start()

    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        """The lines that are there."""
        until = time.monotonic() + seconds
        while len(self._waiting) < most and not self._is_over:
            left = 0 if self._waiting else max(until - time.monotonic(), 0)
            try:
                self._add(self._blocks.get(left > 0, left))
            except queue.Empty:
                break
        if not self._waiting and self._is_over:
            return None
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def take(self, arrived: Sequence[Arrived]) -> None:
        """Count the lines."""
        if arrived:
            self._taken = arrived[-1].last
            self._line = max(self._line, self._taken)

    def position(self) -> dict[str, Any]:
        """How many lines were taken."""
        return super().position() | {"line": self._taken}

    def _add(self, block: bytes) -> None:
        self._is_over = not block
        for piece in self._splitter.feed(block) if block else self._splitter.finish():
            self._line += piece.lines
            self._waiting.append(Arrived(self._line - piece.lines + 1, piece.content, 0, "", piece.problem))

    def _pump(self) -> None:
        block = b"."
        while block:
            try:
                block = os.read(self._file, BLOCK)
            except OSError:
                block = b""
            self._blocks.put(block)
