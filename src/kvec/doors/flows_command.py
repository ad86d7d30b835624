"""The words of `kvec flows` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from kvec.doors.packet_flags import Filter, Idle, Interface, Keyed, MaybeCaptures, Seconds


def flows(
    captures: MaybeCaptures = None,
    interface: Interface = None,
    filter: Filter = "",
    seconds: Seconds = None,
    output: Annotated[
        Path | None,
        Option(
            "-o", "--output", metavar="FILE", help="A .parquet or .ndjson file for the items, else the flows are shown."
        ),
    ] = None,
    form: Annotated[
        str,
        Option("--format", metavar="table|ndjson|json", help="What is printed: flows as a table or JSON, or items."),
    ] = "table",
    fields: Annotated[
        str,
        Option(
            metavar="FIELDS",
            help="What is told of a packet: size, direction, gap, flags, payload, ttl, client_port, server_port.",
        ),
    ] = "size,direction",
    labels: Annotated[
        str | None,
        Option(metavar="by-file|by-folder|FILE", help="Add the labels of flows to the items.", show_default=False),
    ] = None,
    min_packets: Annotated[int, Option(metavar="N", help="Leave labelled flows of fewer packets out.")] = 1,
    keyed: Keyed = "inner",
    idle: Idle = 120.0,
    active: Annotated[
        float | None, Option(metavar="SECONDS", help="A flow that lasts longer is cut.", show_default=False)
    ] = None,
) -> None:
    """Turn packets into items: one row per packet, one key per flow, with the ends of flows marked."""
    from kvec.doors.flowing import Wishes, show_flows

    show_flows(Wishes(
        tuple(captures or ()), interface, filter, seconds, output, form, fields, labels, min_packets, keyed, idle,
        active,
    ))  # fmt: skip
