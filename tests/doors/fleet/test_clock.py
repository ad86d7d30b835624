"""The server's clock as messages tell it."""

from __future__ import annotations

import time

import pytest

from kvec.doors.fleet.clock import LAG, ServerClock


def test_the_message_that_came_quickest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    here = 50.0  # this host's clock knows nothing of the year
    monkeypatch.setattr(time, "monotonic", lambda: here)
    clock = ServerClock()
    clock.hear(1000.0)
    assert clock.now() == 1000.0 - LAG
    here = 60.0
    clock.hear(1009.5)  # half a second on its way
    assert clock.now() == 1010.0 - LAG
    here = 90.0
    clock.hear(1040.25)  # quicker than all before
    assert clock.now() == 1040.25 - LAG
