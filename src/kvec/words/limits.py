"""What a stream may hold at the most, and what it does with items that come late or twice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from kvec.words.errors import SettingError
from kvec.words.plain import require_known

LATE = ("take", "drop")


@dataclass(frozen=True)
class Limits:
    """The bounds of a stream. What they decide depends on arrivals, ticks and end marks alone, never on scores.

    A duplicate has the value and the time, as it was given, of one of the newest 64 items of its open sequence, and
    bears no end mark. Where items have no times there are none.
    """

    max_live_keys: int = 100_000  # sequences watched at once; the one whose last item is oldest goes first
    max_tangles: int = 10_000  # tangles at once; the one whose last item is oldest goes first
    max_cached_items: int = 262_144  # items remembered over all tangles; the oldest goes first
    max_returning_keys: int = 100_000  # ended keys whose next sequence number is remembered
    expiry: float | None = None  # idle time by the items' own clock after which a sequence is over; None: the schema's
    idle: float | None = None  # seconds by the wall clock after which a sequence is over
    late: str = "take"  # an item older than its tangle's clock: take it as if it came on time, or drop it
    reorder: float = 0.0  # seconds that items are held back so that late ones find their place
    duplicates: str = "take"  # duplicates: take or drop

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Limits:
        """The limits that are given by name, and the defaults of the others."""
        require_known(given, [f.name for f in fields(cls)], "limit", "Limits")
        return cls(**given)

    def __post_init__(self) -> None:
        """Check every bound."""
        for field in fields(self):
            given = getattr(self, field.name)
            if field.name.startswith("max_") and not (_is(given, Integral) and given >= 1):
                raise SettingError(f"{field.name} is {given!r}; it must be a whole number of at least 1")
            if field.name in ("expiry", "idle") and given is not None and not (_is(given, Real) and given >= 0):
                raise SettingError(f"{field.name} is {given!r}; it must be at least 0 seconds")
            if field.name == "reorder" and not (_is(given, Real) and 0 <= given < math.inf):
                raise SettingError(f"reorder is {given!r}; it must be at least 0 seconds, and not for ever")
            if field.name in ("late", "duplicates") and given not in LATE:
                raise SettingError(f"{field.name} is {given!r}; it can be {' or '.join(LATE)}")


def _is(given: Any, kind: type) -> bool:
    return isinstance(given, kind) and not isinstance(given, bool)
