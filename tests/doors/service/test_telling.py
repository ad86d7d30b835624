"""Decisions as the service tells and keeps them."""

from __future__ import annotations

import tracemalloc

from kvec.doors.service.telling import decision_line
from kvec.words.items import Decision, Reason


def test_a_kept_line_takes_its_own_length_alone() -> None:
    decisions = [Decision("t", f"k{i}", 0, ("video",), (0.9,), 3, None, Reason.HALTED) for i in range(500)]
    tracemalloc.start()
    try:
        lines = [decision_line(one, n, "default", ["label"], 1.5e9) for n, one in enumerate(decisions)]
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 1.5 * sum(map(len, lines))
