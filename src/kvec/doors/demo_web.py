"""What `kvec demo --web` shows: a small model that comes with kvec, or an earlier demo's, and traffic unseen by it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from kvec.read.synthetic import demo_traffic

MODEL = Path(__file__).parent / "web_model"  # made by kvec.doors.demo_model
TANGLES = 160
SEED = 3  # other than those of training
AT_ONCE = 6  # links that begin at the start, so that there is something to see
BETWEEN = 0.6  # seconds between the first packets of further ones
SPEED = 0.1  # packets of a flow come within milliseconds; so eyes can follow them


def prepare(out: Path, work: Path) -> tuple[Path, Path]:
    """The folder of the model, and unseen traffic as one stream, written to `work`: links that begin in turn."""
    model, unseen = out / "model", out / "unseen.parquet"
    is_there = (model / "kvec.json").is_file() and unseen.is_file()
    frame = pl.read_parquet(unseen) if is_there else demo_traffic(TANGLES, SEED)
    stream = work / "stream.parquet"
    begins = (pl.col("tangle").rle_id().cast(pl.Int64) - AT_ONCE + 1).clip(0) * BETWEEN
    frame.with_columns(pl.col("time") + begins).sort("time").write_parquet(stream)
    return model if is_there else MODEL, stream
