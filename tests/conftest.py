"""Set-up of all tests: hypothesis without deadlines and without luck, torch on one thread."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that tests may share `tests.paper.slow`

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """More threads than one slow small matrices down, and add their sums up in another order."""
    import torch

    torch.set_num_threads(1)
