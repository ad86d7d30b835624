"""Where a process stands among those that torchrun has started, as the environment tells it."""

from __future__ import annotations

import os

PLACE = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_one_of_many() -> bool:
    """Whether torchrun, or something like it, has started several processes."""
    return all(name in os.environ for name in PLACE) and os.environ["WORLD_SIZE"] != "1"


def rank_here() -> int:
    """The number of this process, from 0 on."""
    return int(os.environ["RANK"]) if is_one_of_many() else 0


def rank_on_host() -> int:
    """Its number on this host alone."""
    return int(os.environ.get("LOCAL_RANK", "0")) if is_one_of_many() else 0


def is_restarted() -> bool:
    """Whether torchrun had to start its processes again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def may_restart() -> bool:
    """Whether torchrun would start its processes again if one died."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0
