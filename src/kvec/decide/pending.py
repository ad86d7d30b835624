"""What an engine still waits for: since when, and until when."""

from __future__ import annotations

import math

from kvec.decide.engine import Engine
from kvec.words.items import TangleId


def open_since(engine: Engine, tangle: TangleId) -> float | None:
    """The time before which no decision of a tangle falls any more; None where the engine has let go of it."""
    state = engine.arrivals.tangles.get(tangle)
    if state is None:
        return -math.inf if tangle in engine.held else None
    return next((live.time for live in state.live.values() if live.decision is None), state.clock)


def spans(engine: Engine) -> dict[TangleId, tuple[float, float]]:
    """When each tangle that is watched or held back began, and the time of its newest item; -infinity without times."""
    found = {
        name: (-math.inf if state.began is None else state.began, state.clock)
        for name, state in engine.arrivals.tangles.items()
    }
    for name, held in engine.held.items():
        times = [one[0] for one in held.heap]
        began, newest = found.get(name, (min(times), -math.inf))
        found[name] = began, max(newest, *times)
    return found


def due(engine: Engine) -> tuple[float, float]:
    """By the items' clock and by the wall clock: when what has been silent for longest is over; never: infinity."""
    limits = engine.limits
    alive = next(iter(engine.arrivals.live.values()), None)
    tangle = next(iter(engine.arrivals.tangles.values()), None)
    now = wall = math.inf
    for time, came in ([(alive.time, alive.wall)] if alive is not None else []) + (
        [(tangle.clock, tangle.wall)] if tangle is not None else []
    ):
        if limits.expiry is not None and engine.model.has_time:
            now = min(now, time + limits.expiry + limits.reorder)
        if limits.idle is not None:
            wall = min(wall, came + limits.idle)
    for held in engine.held.values():
        now = min(now, held.heap[0][0] + limits.reorder)
        wall = min(wall, held.wall + limits.idle) if limits.idle is not None else wall
    return now, wall
