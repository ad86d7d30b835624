"""The words of `kvec label` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from kvec.doors.packet_flags import Captures, Idle, Keyed


def label(
    captures: Captures,
    by: Annotated[
        str,
        Option(
            metavar="sni|dns|port|ndpi",
            help="What names a flow: the server name of its TLS or QUIC hello, the DNS answer before it, "
            "its server's port, or nDPI.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="The .csv file for the labels.")] = Path(
        "labels.csv"
    ),
    min_flows: Annotated[int, Option(metavar="N", help="Leave labels of fewer flows out.")] = 10,
    level: Annotated[
        str | None,
        Option(
            metavar="domain|host|app|category",
            show_default=False,
            help="How fine: domain (or host) for sni and dns, app (or category) for ndpi.",
        ),
    ] = None,
    idle: Idle = 120.0,
    keyed: Keyed = "inner",
) -> None:
    """Label the flows of captures that have no labels: what the network itself gives away names them."""
    from kvec.doors.labelling import Wishes, label_captures

    print(label_captures(Wishes(tuple(captures), by, output, min_flows, level, idle, keyed)))
