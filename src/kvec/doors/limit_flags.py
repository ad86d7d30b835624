"""The limits of streams as flags, and what else every command that runs one has to do first."""

from __future__ import annotations

import os
from typing import Annotated, Any

from typer import Option

from kvec.words.limits import Limits

_PANEL = "Limits (see docs/stream.md)"


def _limit(flag: str, metavar: str, help: str, default: str = "") -> Any:
    """A limit; where nothing is said of its default, it is the one that limits have."""
    default = default or str(getattr(Limits, flag.removeprefix("--").replace("-", "_")))
    return Option(flag, metavar=metavar, help=help, rich_help_panel=_PANEL, show_default=default)


MaxLiveKeys = Annotated[int | None, _limit("--max-live-keys", "N", "Sequences watched at once.")]
MaxTangles = Annotated[int | None, _limit("--max-tangles", "N", "Tangles watched at once.")]
MaxCachedItems = Annotated[int | None, _limit("--max-cached-items", "N", "Items that others may still see.")]
Expiry = Annotated[
    float | None,
    _limit("--expiry", "SECONDS", "After so long a silence by the items' clock a sequence is over.", "the schema's"),
]
Idle = Annotated[float | None, _limit("--idle", "SECONDS", "The same by the wall clock.", "never")]
Late = Annotated[str | None, _limit("--late", "take|drop", "Items older than their tangle's clock.")]
Reorder = Annotated[float | None, _limit("--reorder", "SECONDS", "Hold items back so that late ones find their place.")]
Duplicates = Annotated[str | None, _limit("--duplicates", "take|drop", "Items that come twice at one time.")]


def given(**limits: Any) -> dict[str, Any]:
    """Those of the flags that were given."""
    return {name: value for name, value in limits.items() if value is not None}


def one_thread(*more: str) -> None:
    """Let NumPy use one thread, before it is there: its matrices are small in streams, and threads slow them."""
    for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", *more):
        os.environ.setdefault(threads, "1")
