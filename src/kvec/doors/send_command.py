"""The words of `kvec send` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kvec.words.errors import SettingError


def send(
    model: Annotated[Path, Argument(metavar="MODEL", help="A model folder; its schema names the tangle.")],
    source: Annotated[str, Argument(metavar="SOURCE", help="An NDJSON or Parquet file, or - for NDJSON lines.")],
    sink: Annotated[str, Option("--sink", metavar="nats://…/items", help="The stream that a fleet reads.")],
    close: Annotated[bool, Option("--close", help="At the end, decide all sequences that are open.")] = False,
    rate: Annotated[
        float | None, Option(metavar="N", help="Items a second; else as fast as it goes.", show_default=False)
    ] = None,
) -> None:
    """Send items to the workers of a fleet: each to the partition of its tangle, in order, each once."""
    from kvec.doors.fleet.places import Place
    from kvec.doors.fleet.sending import Wishes, send_items

    if not sink.startswith("nats://"):
        raise SettingError(f"{sink}: items are sent to nats://server:4222/stream")
    if rate is not None and not rate > 0:
        raise SettingError(f"--rate is {rate:g}; write a number of items a second that is above 0")
    raise typer.Exit(send_items(Wishes(model, source, Place.of(sink), close, rate)))
