"""Few steps for all tests of training."""

from __future__ import annotations

import pytest

from kvec.learn import supply


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch of the 64 planted tangles is 32 batches."""
    monkeypatch.setattr(supply, "LEAST_STEPS", 32)
