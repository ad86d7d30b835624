"""What can be wished for of `kvec flink`, and what is meant where nothing is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FlinkWishes:
    """What was asked for on the command line."""

    model: Path
    source: str
    sink: str
    sink_format: str = "ndjson"  # or parquet; of a folder
    cluster: str = "local"
    parallelism: int = 1
    checkpoints: Path | None = None
    every: str = "30s"
    start_from: Path | None = None
    take_over_from: Sequence[Path] = ()
    split_tangles: int = 1
    split_by: str = ""
    linger: float = 0.0
    event_time: str = "items"
    dead_letters: str | None = None
    jars: Sequence[Path] = ()
    settings: Sequence[str] = ()  # NAME=VALUE of Flink
    python: str = ""
    detach: bool = False
    threshold: float | None = None
    at: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] | None = None
