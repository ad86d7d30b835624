"""The limits of streams as flags, for every command that runs one."""

from __future__ import annotations

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
