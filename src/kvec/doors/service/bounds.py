"""What the service takes and keeps at the most, so that nobody can fill its memory or hold it up."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from kvec.words.errors import SettingError


@dataclass(frozen=True)
class Bounds:
    """The bounds of a service; what goes beyond them is refused, or the oldest is let go."""

    max_body: int = 8 << 20  # bytes of a request
    max_line: int = 1 << 20  # bytes of a line of NDJSON
    max_items: int = 10_000  # rows of a request
    max_text: int = 1_024  # characters of a name or of a text cell
    max_queue: int = 1_024  # requests that wait; more are answered with 429
    max_connections: int = 2_000
    timeout: float = 30.0  # seconds that a client may be silent in the middle of something
    keep_decisions: int = 100_000  # the newest, that can be read again
    keep_ids: int = 10_000  # the newest idempotency keys
    keep_traces: int = 2_000  # the newest keys of which every item is kept with what was said of it

    def __post_init__(self) -> None:
        """Check every bound."""
        for field in fields(self):
            given = getattr(self, field.name)
            if not (given > 0 and math.isfinite(given)):
                raise SettingError(f"--{field.name.replace('_', '-')} is {given}; it must be above 0")
