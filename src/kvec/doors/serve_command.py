"""The words of `kvec serve` and `kvec serve-export` on the command line."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path
from typing import Annotated, Any

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
from kvec.doors.messages import say
from kvec.words.errors import DataError, MissingExtra, SettingError

PACKAGES = ("starlette", "uvicorn", "httptools", "websockets", "orjson", "prometheus_client")
_STATE = "State and models"
_BOUNDS = "Bounds of requests (see docs/serve.md)"
_REPLAY = "Replay"


def require_extra() -> None:
    """Say how to install the service where it is missing."""
    if any(importlib.util.find_spec(name) is None for name in PACKAGES):
        raise MissingExtra("the service needs some more packages; install them with: pip install 'kvec[serve]'")


def _bound(flag: str, metavar: str, help: str, default: str) -> Any:
    return Option(flag, metavar=metavar, help=help, rich_help_panel=_BOUNDS, show_default=default)


def serve(
    models: Annotated[
        list[str],
        Argument(metavar="MODEL|NAME=MODEL", help="Folders that kvec train has written; the first is the default."),
    ],
    host: Annotated[
        str, Option(metavar="ADDRESS", help="Where to listen; other than this machine needs --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(metavar="PORT", help="0: any that is free.")] = 8765,
    token_file: Annotated[
        Path | None, Option(metavar="FILE", help="Tokens, one on each line; whoever asks must know one.")
    ] = None,
    at: At = None,
    event_time: Annotated[
        str, Option(metavar="items|wall", help="Whether the wall clock moves the items' clock while none comes.")
    ] = "items",
    state: Annotated[
        Path | None,
        Option(metavar="DIR", help="Keep the streams here, and go on with them.", rich_help_panel=_STATE),
    ] = None,
    every: Annotated[
        str, Option(metavar="30s", help="How often a snapshot is written.", rich_help_panel=_STATE)
    ] = "30s",
    deadline: Annotated[
        float,
        Option(
            metavar="SECONDS",
            rich_help_panel=_STATE,
            help="When a newer model or another point takes over, decide what is still open after so long.",
        ),
    ] = 600.0,
    replay: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Feed a recorded table to the first model as a live stream.", rich_help_panel=_REPLAY
        ),
    ] = None,
    speed: Annotated[
        float, Option(metavar="X", help="So many times as fast as it was.", rich_help_panel=_REPLAY)
    ] = 1.0,
    loop: Annotated[bool, Option("--loop", help="Again and again.", rich_help_panel=_REPLAY)] = False,
    max_body: Annotated[int | None, _bound("--max-body", "BYTES", "Of a request.", "8 MB")] = None,
    max_line: Annotated[int | None, _bound("--max-line", "BYTES", "Of a line of NDJSON.", "1 MB")] = None,
    max_items: Annotated[int | None, _bound("--max-items", "N", "Rows of a request.", "10000")] = None,
    max_text: Annotated[int | None, _bound("--max-text", "N", "Characters of a key or a text.", "1024")] = None,
    max_queue: Annotated[int | None, _bound("--max-queue", "N", "Requests that wait; more get 429.", "1024")] = None,
    max_connections: Annotated[int | None, _bound("--max-connections", "N", "At once.", "2000")] = None,
    timeout: Annotated[
        float | None, _bound("--timeout", "SECONDS", "That a client may be silent in the middle of something.", "30")
    ] = None,
    keep_decisions: Annotated[
        int | None, _bound("--keep-decisions", "N", "The newest, that can be read again.", "100000")
    ] = None,
    keep_ids: Annotated[int | None, _bound("--keep-ids", "N", "The newest idempotency keys.", "10000")] = None,
    keep_traces: Annotated[
        int | None, _bound("--keep-traces", "N", "The newest keys with what was said of each item.", "2000")
    ] = None,
    max_live_keys: MaxLiveKeys = None,
    max_tangles: MaxTangles = None,
    max_cached_items: MaxCachedItems = None,
    expiry: Expiry = None,
    idle: Idle = None,
    late: Late = None,
    reorder: Reorder = None,
    duplicates: Duplicates = None,
) -> None:
    """Serve models day and night: items come by HTTP, decisions go out as they fall, and a page shows the stream.

    Stops on Ctrl-C or SIGTERM after what was taken; reads the model folders again on SIGHUP.
    """
    require_extra()
    one_thread("POLARS_MAX_THREADS")
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the server hears it; what it means is being done anyway
    from kvec.doors.service.bounds import Bounds
    from kvec.doors.service.serving import Wishes
    from kvec.doors.service.serving import serve as serve_models

    bounds = given(
        max_body=max_body, max_line=max_line, max_items=max_items, max_text=max_text, max_queue=max_queue,
        max_connections=max_connections, timeout=timeout, keep_decisions=keep_decisions, keep_ids=keep_ids,
        keep_traces=keep_traces,
    )  # fmt: skip
    limits = given(
        max_live_keys=max_live_keys, max_tangles=max_tangles, max_cached_items=max_cached_items, expiry=expiry,
        idle=idle, late=late, reorder=reorder, duplicates=duplicates,
    )  # fmt: skip
    code = serve_models(Wishes(
        models, host, port, state, every, token_file, target_of(at), deadline, event_time, replay, speed, loop,
        Bounds(**bounds), limits,
    ))  # fmt: skip
    raise typer.Exit(code)


def serve_export(
    state: Annotated[Path, Argument(metavar="STATE", help="The --state folder of kvec serve, or one model's in it.")],
    output: Annotated[Path, Option("-o", "--output", metavar="FILE", help="A .parquet, .csv or .ndjson file.")],
    model: Annotated[
        str | None, Option(metavar="NAME", help="Which of the models in the state.", show_default="(default)")
    ] = None,
) -> None:
    """Write the items of all sequences whose true labels have come as a table, to train or tune with."""
    require_extra()
    from kvec.doors.service.label_store import labelled_items, labels_in
    from kvec.doors.summary import counted
    from kvec.doors.writing import ENDINGS, require_place, write_decisions
    from kvec.report.canvas import write_whole

    require_place(output, tuple(ENDINGS))
    found = labelled_items(labels_in(state, model))
    n = counted(found.left_out, "sequence")
    left = f"; {n} left out, as too little is known of the beginning" if found.left_out else ""
    if not found.table.height:
        raise DataError(f"{state}: no labelled sequence is known from its beginning{left}")
    schema, content = output.with_suffix(".toml"), found.schema.to_toml().encode()
    if schema.exists() and (schema.is_dir() or schema.read_bytes() != content):
        raise SettingError(
            f"{schema} is there already and says something else; move it away, or name another file with -o"
        )
    write_decisions(found.table, output)
    write_whole(schema, content)
    say(f"{found.table.height:,} items of labelled sequences are in {output}, how they are read in {schema}{left}")
    say(f"next: kvec train {output}")


def serve_demo(out: Path, port: int, opens: bool) -> int:
    """Serve a small model with unseen traffic as a live stream, again and again; the exit code."""
    require_extra()
    one_thread("POLARS_MAX_THREADS")
    import tempfile
    import webbrowser

    from kvec.doors.demo_web import SPEED, prepare
    from kvec.doors.service.serving import Wishes
    from kvec.doors.service.serving import serve as serve_models

    def show(address: str) -> None:
        say(f"the page is at {address}/ ; Ctrl-C stops it")
        if opens:
            webbrowser.open(f"{address}/")

    with tempfile.TemporaryDirectory(prefix="kvec-demo-") as work:
        model, stream = prepare(out, Path(work))
        return serve_models(Wishes([str(model)], port=port, replay=stream, speed=SPEED, loop=True, on_start=show))
