"""FG-Net as a stream of many tangles: one row per item, and a model of it, made once in a work folder."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[_threads] = "1"

import polars as pl  # noqa: E402

import kvec  # noqa: E402
from kvec.read.rows import read_table  # noqa: E402
from kvec.tangle.tangling import tangled  # noqa: E402
from kvec.words.schema import Schema  # noqa: E402

SOURCE = Path(kvec.__file__).parents[1]
FLAGS = (
    "--key", "key", "--tangle", "tangle", "--time", "time", "--values", "size,direction", "--session", "direction",
    "--label", "label",
)  # fmt: skip


def items_of(data: str, schema: str, n: int, side_by_side: int = 64, seed: int = 0) -> pl.DataFrame:
    """The first n items of tangles that overlap in time: tangle, key, time, size, direction, label.

    Where the data has fewer, its tangles come again under other names.
    """
    captures = pl.read_parquet(data)
    sizes = captures.group_by("capture", maintain_order=True).agg(pl.col("size").list.len().sum())
    chosen = sizes.sample(fraction=1.0, shuffle=True, seed=seed)
    chosen = chosen.filter(pl.col("size").cum_sum().shift(1, fill_value=0) < 1.1 * n)
    table = read_table(captures.join(chosen.select("capture"), on="capture", how="semi"), Schema.from_toml(schema))
    once = tangled(table.frame, table.schema.tangling).select(
        pl.col("tangle").rle_id(), "key", "time", size=pl.col("value.size"), direction=pl.col("value.direction"),
        label=pl.col("label") if "label" in table.frame.columns else pl.col("label.app"),
    )  # fmt: skip
    copies = -(-n // once.height)
    names = [once.with_columns(tangle=pl.format("{}-{}", pl.lit(copy), "tangle")) for copy in range(copies)]
    every = pl.concat(names)
    spans = every.group_by("tangle", maintain_order=True).agg(pl.col("time").max() - pl.col("time").min())
    length = max(spans["time"].sum() / side_by_side, 1.0)
    starts = spans.select("tangle", start=pl.lit(length) * pl.Series(range(spans.height)).shuffle(seed) / spans.height)
    arriving = every.join(starts, on="tangle", how="left", maintain_order="left")
    return arriving.sort(pl.col("start") + pl.col("time"), maintain_order=True).drop("start").head(n)


def python(*words: str | Path, program: str = sys.executable) -> tuple[float, float]:
    """Run kvec in a process of its own; seconds by the clock, and of CPU."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [program, "-m", "kvec", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
        stdout=sys.stderr,
    )
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, cpu


def train(items: Path, model: Path, *more: str) -> None:
    """A model of preset `small`, with more flags of `kvec train`."""
    if not (model / "kvec.json").exists():
        python("train", items, *FLAGS, "--preset", "small", *more, "--seed", "0", "-o", model, "--quiet")


class Results:
    """Steps that were done, in a file: what is there is not done again."""

    def __init__(self, path: Path, origin: dict[str, Any]) -> None:
        self._path = path
        self.done: dict[str, Any] = json.loads(path.read_text()) if path.exists() else origin

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        """Do a step, unless it is done."""
        if name not in self.done:
            print(f"{name} …", file=sys.stderr, flush=True)
            self.done[name] = do()
            self._path.write_text(json.dumps(self.done, indent=1) + "\n", encoding="utf-8")
            print(f"{name}: {json.dumps(self.done[name])}", file=sys.stderr, flush=True)
        return self.done[name]


def origin(data: str, *places: str) -> dict[str, Any]:
    """The command that makes a result, without where things lie, and the machine."""
    words = [Path(word).name if word == data else word for word in sys.argv[1:]]
    for at in reversed([i for i, word in enumerate(words) if word in places]):
        del words[at : at + 2]
    return {
        "command": " ".join(["python", f"benchmarks/flink/{Path(sys.argv[0]).name}", *words]),
        "kvec": kvec.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start",
    }
