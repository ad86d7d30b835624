"""The words of `kvec watch` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kvec.doors.dialing import At, target_of
from kvec.doors.limit_flags import one_thread
from kvec.doors.packet_flags import LIVE, Filter, Interface, MaybeCaptures, Seconds


def watch(
    model: Annotated[Path, Argument(metavar="MODEL", help="A folder that kvec train has written, of packets.")],
    captures: MaybeCaptures = None,
    interface: Interface = None,
    filter: Filter = "",
    seconds: Seconds = None,
    snap: Annotated[
        int, Option(metavar="BYTES", help="Of each packet, take the first so many.", rich_help_panel=LIVE)
    ] = 256,
    promiscuous: Annotated[
        bool, Option("--promiscuous", help="Also packets that are not for this machine.", rich_help_panel=LIVE)
    ] = False,
    speed: Annotated[
        str, Option(metavar="full|real|N", help="Replay captures as fast as can be, as they were, or N times as fast.")
    ] = "full",
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="FILE", help="A .ndjson file for the decisions.")
    ] = None,
    form: Annotated[
        str | None,
        Option(
            "--format",
            metavar="table|ndjson",
            help="What is shown: a live table in a terminal, else a line per decision.",
            show_default=False,
        ),
    ] = None,
    pcap_out: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Sort the packets into a capture per label here.", show_default=False),
    ] = None,
    threshold: Annotated[
        float | None, Option(metavar="θ", help="Decide at this halting score, not the model's.", show_default=False)
    ] = None,
    at: At = None,
    max_live_keys: Annotated[int | None, Option(metavar="N", help="Flows watched at once.", show_default=False)] = None,
) -> None:
    """Name flows while they run: from captures, replayed at any speed, or live from an interface."""
    one_thread()
    from kvec.doors.flow_watching import Wishes, watch_packets

    limits = {} if max_live_keys is None else {"max_live_keys": max_live_keys}
    code = watch_packets(Wishes(
        model, tuple(captures or ()), interface, filter, speed, output, form, pcap_out, threshold,
        target_of(at, threshold), seconds, snap, promiscuous, limits,
    ))  # fmt: skip
    raise typer.Exit(code)
