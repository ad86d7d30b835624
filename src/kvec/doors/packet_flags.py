"""The words that commands about packets share on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

LIVE = "Listening to an interface"
_CAPTURES = Argument(
    metavar="CAPTURES",
    help="Captures (pcap, pcapng, also compressed or in .7z), or folders of them.",
    show_default=False,
)

Captures = Annotated[list[Path], _CAPTURES]
MaybeCaptures = Annotated[list[Path] | None, _CAPTURES]
Interface = Annotated[
    str | None,
    Option("-i", "--interface", metavar="IFACE", help="Listen here.", rich_help_panel=LIVE, show_default=False),
]
Filter = Annotated[str, Option(metavar="BPF", help="Only these packets, as in 'tcp port 443'.", show_default=False)]
Seconds = Annotated[float | None, Option(help="Stop after so long.", rich_help_panel=LIVE, show_default=False)]
Idle = Annotated[float, Option(metavar="SECONDS", help="After so long a silence a flow is over.")]
Keyed = Annotated[str, Option(metavar="inner|outer", help="Which addresses name a flow inside a tunnel.")]
