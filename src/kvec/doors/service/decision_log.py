"""The newest decisions of a stream by number, in memory and, with a state, as lines in files that are cut back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from kvec.doors.outlets import Outlet
from kvec.words.errors import ModelError

PATTERN = "decisions.*.ndjson"


class DecisionLog:
    """Decisions are numbered from 1; one thread adds, any may read."""

    def __init__(self, keep: int, folder: Path | None = None) -> None:
        self._keep, self._folder = keep, folder
        self._held: tuple[int, list[bytes]] = (1, [])  # number of the first, lines
        self._outlet: Outlet | None = None
        self._per_file = max(keep // 4, 1)
        self._n_in_file = 0

    @property
    def oldest(self) -> int:
        """The number of the oldest decision that is there; where there is none, of the next one."""
        return self._held[0]

    @property
    def newest(self) -> int:
        """The number of the newest decision; 0 where there is none."""
        first, lines = self._held
        return first + len(lines) - 1

    def add(self, lines: Sequence[bytes]) -> None:
        """Add decisions, a line each, without its break; they have the next numbers."""
        first, held = self._held
        held.extend(lines)
        if len(held) > self._keep + self._keep // 4:
            gone = len(held) - self._keep
            self._held = (first + gone, held[gone:])
        if self._folder is not None and lines:
            if self._outlet is None or self._n_in_file >= self._per_file:
                self._begin(self._folder, self.newest - len(lines) + 1)
            assert self._outlet is not None
            self._outlet.write_bytes(b"\n".join(lines) + b"\n")
            self._n_in_file += len(lines)

    def since(self, after: int, most: int = 1024) -> tuple[int, list[bytes]]:
        """Decisions after this number, at most so many, and the number of the first: another where some are gone."""
        first, lines = self._held  # read once: another thread may put others there
        start = max(after + 1 - first, 0)
        return first + start, lines[start : start + most]

    def between(self, first: int, n: int) -> list[bytes]:
        """So many decisions from this number on, as far as they are there."""
        held, lines = self._held
        return lines[max(first - held, 0) : max(first - held + n, 0)]

    # -- files --------------------------------------------------------------------------------------------------

    def place(self) -> dict[str, Any] | None:
        """Where `go_on` can go on; all is on the disk then."""
        if self._folder is None or self._outlet is None:
            return None
        self._outlet.sync()
        return {"newest": self.newest, "outlet": self._outlet.place(), "n_in_file": self._n_in_file}

    def spare(self) -> list[Path]:
        """Files that nobody needs any more, once the place as it is now is on the disk."""
        return [old for old, next_one in pairwise(self._files()) if _first(next_one) <= self.oldest]

    def go_on(self, place: Mapping[str, Any] | None) -> None:
        """Be as when the place was told: what was written behind it is cut off."""
        if self._folder is None:
            return
        name = "" if place is None else Path(place["outlet"]["path"]).name
        for file in self._files():
            if file.name > name:
                file.unlink()
        if place is None:
            return
        self._outlet = Outlet(self._folder / name)
        self._outlet.go_on({**place["outlet"], "path": str((self._folder / name).resolve())})
        self._n_in_file = place["n_in_file"]
        files = self._files()
        lines = [line for file in files for line in file.read_bytes().splitlines()]
        first = _first(files[0])
        if first + len(lines) - 1 != place["newest"]:
            raise ModelError(f"{self._folder}: lines are missing in its decisions; put whole files in their place")
        gone = max(len(lines) - self._keep, 0)
        self._held = (first + gone, lines[gone:])

    def close(self) -> None:
        """Close the file."""
        if self._outlet is not None:
            self._outlet.close()

    def _begin(self, folder: Path, first: int) -> None:
        if self._outlet is not None:
            self._outlet.sync()
            self._outlet.close()
        self._outlet = Outlet(folder / f"decisions.{first:012}.ndjson")
        self._outlet.begin(is_kept=True, is_replaced=False)
        self._n_in_file = 0

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(PATTERN)) if self._folder is not None else []


def _first(file: Path) -> int:
    return int(file.name.split(".")[1])
