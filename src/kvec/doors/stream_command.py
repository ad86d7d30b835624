"""The words of `kvec stream` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kvec.doors.dialing import At, target_of
from kvec.doors.limit_flags import (
    Duplicates,
    Expiry,
    Idle,
    Late,
    MaxCachedItems,
    MaxLiveKeys,
    MaxTangles,
    Reorder,
    given,
    one_thread,
)
from kvec.words.errors import SettingError

_STATE = "Stopping and going on"


def stream(
    model: Annotated[Path, Argument(metavar="MODEL", help="A folder that kvec train has written.")],
    source: Annotated[
        str,
        Argument(
            metavar="SOURCE",
            show_default=False,
            help="A file (.ndjson, .csv, .csv.gz, .parquet), - for the standard input, tcp://:9000, "
            "unix:///run/kvec.sock, kafka://broker:9092/topic or nats://server:4222/stream.",
        ),
    ] = "-",
    source_too: Annotated[
        str | None, Option("--source", metavar="SOURCE", help="The same, by name.", show_default=False)
    ] = None,
    output: Annotated[
        str | None,
        Option(
            "-o",
            "--output",
            "--sink",
            metavar="FILE",
            help="A .ndjson file for the decisions, else (or -) the standard output. With a new --state it must not "
            "hold anything yet. Of items on NATS: nats://server:4222/stream.",
        ),
    ] = None,
    form: Annotated[
        str | None,
        Option("--format", metavar="ndjson|csv|tsv|parquet", help="The form of the rows.", show_default=False),
    ] = None,
    follow: Annotated[bool, Option("--follow", help="Wait for more at the end of the file.")] = False,
    table: Annotated[bool, Option("--table", help="Show a live view in the terminal.")] = False,
    threshold: Annotated[
        float | None, Option(metavar="θ", help="Decide at this halting score, not the model's.", show_default=False)
    ] = None,
    at: At = None,
    strict: Annotated[
        bool, Option("--strict", help="Stop at a row that cannot be used; else it is passed over.")
    ] = False,
    dead_letters: Annotated[
        Path | None, Option(metavar="FILE", help="Where such rows go, as NDJSON; else the first are told.")
    ] = None,
    max_line: Annotated[int, Option(metavar="BYTES", help="Longer lines cannot be used.")] = 1 << 20,
    event_time: Annotated[
        str, Option(metavar="items|wall", help="Whether the wall clock moves the items' clock while none comes.")
    ] = "items",
    state: Annotated[
        Path | None, Option(metavar="DIR", help="Keep the stream here, and go on with it.", rich_help_panel=_STATE)
    ] = None,
    every: Annotated[
        str | None,
        Option(metavar="N|30s", help="How often, in rows or seconds.", rich_help_panel=_STATE, show_default="30s"),
    ] = None,
    on_stop: Annotated[
        str | None,
        Option(
            metavar="decide|save",
            rich_help_panel=_STATE,
            show_default=False,
            help="What becomes of open sequences on Ctrl-C or SIGTERM; with --state they are saved, else decided.",
        ),
    ] = None,
    take_over: Annotated[
        bool, Option("--take-over", help="Let MODEL take over a state of another.", rich_help_panel=_STATE)
    ] = False,
    max_live_keys: MaxLiveKeys = None,
    max_tangles: MaxTangles = None,
    max_cached_items: MaxCachedItems = None,
    expiry: Expiry = None,
    idle: Idle = None,
    late: Late = None,
    reorder: Reorder = None,
    duplicates: Duplicates = None,
) -> None:
    """Decide while items arrive: each sequence once, as soon as the model is sure.

    Rows are items in the order of their arrival; decisions are written as NDJSON the moment they fall.
    """  # fmt: skip
    one_thread()
    from kvec.doors.streaming import Wishes, stream_items

    limits = given(
        max_live_keys=max_live_keys, max_tangles=max_tangles, max_cached_items=max_cached_items, expiry=expiry,
        idle=idle, late=late, reorder=reorder, duplicates=duplicates,
    )  # fmt: skip
    if source_too is not None and source != "-":
        raise SettingError(f"the source is {source} and {source_too}; name one")
    source = source_too or source
    is_far = output is not None and "://" in output
    wishes = Wishes(
        model, source, None if output is None or is_far else Path(output), form, follow, state, every, take_over,
        on_stop, table, strict, dead_letters, max_line, event_time, threshold, target_of(at, threshold), limits,
    )  # fmt: skip
    if is_far or source.startswith("nats://"):
        from kvec.doors.fleet.opening import run_worker

        raise typer.Exit(run_worker(wishes, output))
    code = stream_items(wishes)
    raise typer.Exit(code)
