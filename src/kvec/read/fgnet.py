"""FG-Net as it is published: a folder for each app, a JSON file for each capture, with a list of flows in it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from kvec.words.errors import DataError

ENDING = "_clear.pcap.json"
MOST_PACKETS = 128  # of a flow; later ones are left out


def read_fgnet(folder: str | Path) -> pl.DataFrame:
    """One row per flow: flow, capture, app, start, and lists of signed sizes and of gaps; `fgnet_d1.toml` reads it.

    The files lie in APP/VERSION/ below the folder; flows without packets are left out.
    """
    folder = Path(folder)
    files = sorted(folder.glob(f"*/*/*{ENDING}"))
    if not files:
        raise DataError(f"{folder}: there is no APP/VERSION/*{ENDING} in this folder")
    rows = [
        (file.relative_to(folder).as_posix().removesuffix(ENDING), file.parents[1].name, *flow)
        for file in files
        for flow in _flows(file)
    ]
    lists = {"size": pl.List(pl.Int64), "gap": pl.List(pl.Float64)}
    frame = pl.DataFrame(rows, {"capture": pl.String, "app": pl.String, "start": pl.Float64, **lists}, orient="row")
    return frame.with_row_index("flow")


def _flows(file: Path) -> list[tuple[float, list[int], list[float]]]:
    try:
        return [
            (float(flow["start_timestamp"]), [int(size) for size in flow["packet_length"][:MOST_PACKETS]],
             [float(gap) for gap in flow["arrive_time_delta"][:MOST_PACKETS]])
            for flow in json.loads(file.read_bytes()) if flow["packet_length"]
        ]  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError):
        raise DataError(
            f"{file}: no list of flows with start_timestamp, packet_length and arrive_time_delta; download it again"
        ) from None
