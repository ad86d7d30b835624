"""A source without rows, for what all sources have in common."""

from __future__ import annotations

from collections.abc import Sequence

from kvec.read.arriving_sources import Arrived, Source


class Quiet(Source):
    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        return None

    def take(self, arrived: Sequence[Arrived]) -> None:
        pass
