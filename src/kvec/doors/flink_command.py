"""The words of `kvec flink` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kvec.doors.dialing import At, target_of
from kvec.doors.flink.wishes import FlinkWishes
from kvec.doors.limit_flags import (
    Duplicates,
    Expiry,
    Idle,
    Late,
    MaxCachedItems,
    MaxLiveKeys,
    Reorder,
    given,
    one_thread,
)

_STATE = "State, and going on"
_LARGE = "One large tangle (see docs/flink.md)"


def flink(
    model: Annotated[Path, Argument(metavar="MODEL", help="A folder that kvec train has written.")],
    source: Annotated[
        str,
        Option(
            metavar="SOURCE",
            help="A file (.ndjson, .parquet) or a folder of such, socket://host:port or kafka://broker:9092/topic.",
        ),
    ],
    sink: Annotated[
        str,
        Option(metavar="SINK", help="A folder for files, kafka://broker:9092/topic, or - (workers' output)."),
    ],
    sink_format: Annotated[
        str, Option(metavar="ndjson|parquet", help="What kind of files a folder gets.")
    ] = FlinkWishes.sink_format,
    cluster: Annotated[
        str, Option(metavar="HOST:PORT", help="The JobManager's REST address; local: a small cluster in this process.")
    ] = FlinkWishes.cluster,
    parallelism: Annotated[
        int, Option("-p", "--parallelism", metavar="N", help="Workers that decide.")
    ] = FlinkWishes.parallelism,
    linger: Annotated[
        float, Option(metavar="SECONDS", help="How long single rows wait for others of their tangle.")
    ] = FlinkWishes.linger,
    event_time: Annotated[
        str, Option(metavar="items|wall", help="Whether the wall clock moves the items' clock while none comes.")
    ] = FlinkWishes.event_time,
    dead_letters: Annotated[
        str | None, Option(metavar="FOLDER", help="Where rows that cannot be used go; else they are left out.")
    ] = FlinkWishes.dead_letters,
    threshold: Annotated[
        float | None, Option(metavar="θ", help="Decide at this halting score, not the model's.", show_default=False)
    ] = FlinkWishes.threshold,
    at: At = None,
    jars: Annotated[
        list[Path] | None, Option("--jar", metavar="FILE", help="A connector of Flink's; can be repeated.")
    ] = None,
    settings: Annotated[
        list[str] | None, Option("--set", metavar="NAME=VALUE", help="A setting of Flink's; can be repeated.")
    ] = None,
    python: Annotated[
        str, Option(metavar="FILE", help="The workers' Python, where kvec is installed.", show_default="this one")
    ] = FlinkWishes.python,
    detach: Annotated[bool, Option("--detach", help="Leave when the job runs.")] = FlinkWishes.detach,
    checkpoints: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Where checkpoints go; all workers must reach it.", rich_help_panel=_STATE),
    ] = FlinkWishes.checkpoints,
    every: Annotated[str, Option(metavar="30s", help="How often.", rich_help_panel=_STATE)] = FlinkWishes.every,
    start_from: Annotated[
        Path | None,
        Option(
            "--from",
            metavar="FOLDER",
            help="Go on from a savepoint or checkpoint, or from the newest whole one in a folder.",
            rich_help_panel=_STATE,
        ),
    ] = FlinkWishes.start_from,
    take_over_from: Annotated[
        list[Path] | None,
        Option(metavar="MODEL", help="The model of the state, which decides what it began.", rich_help_panel=_STATE),
    ] = None,
    split_tangles: Annotated[
        int, Option(metavar="N", help="Part each tangle into N by key.", rich_help_panel=_LARGE)
    ] = FlinkWishes.split_tangles,
    split_by: Annotated[
        str,
        Option(metavar="COLUMN", help="By this column instead; it has one value for a key.", rich_help_panel=_LARGE),
    ] = FlinkWishes.split_by,
    max_live_keys: MaxLiveKeys = None,
    max_cached_items: MaxCachedItems = None,
    expiry: Expiry = None,
    idle: Idle = None,
    late: Late = None,
    reorder: Reorder = None,
    duplicates: Duplicates = None,
) -> None:
    """Decide on Apache Flink: the same stream, keyed by tangle, on as many machines as the cluster has.

    Limits hold for each tangle by itself.
    """
    one_thread()
    from kvec.doors.flink.submitting import submit

    limits = given(
        max_live_keys=max_live_keys, max_cached_items=max_cached_items, expiry=expiry, idle=idle, late=late,
        reorder=reorder, duplicates=duplicates,
    )  # fmt: skip
    wishes = FlinkWishes(
        model, source, sink, sink_format=sink_format, cluster=cluster, parallelism=parallelism,
        checkpoints=checkpoints, every=every, start_from=start_from, take_over_from=tuple(take_over_from or ()),
        split_tangles=split_tangles, split_by=split_by, linger=linger, event_time=event_time,
        dead_letters=dead_letters, jars=tuple(jars or ()), settings=tuple(settings or ()), python=python,
        detach=detach, threshold=threshold, at=target_of(at, threshold), limits=limits,
    )  # fmt: skip
    raise typer.Exit(submit(wishes))
