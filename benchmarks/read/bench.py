"""How long ten million items take from a Parquet or CSV file to arrays: read, sort, session, encode.

    python benchmarks/read/bench.py --items 10000000 -o benchmarks/read/result.json

The table is made first (by another process, so that its memory is not counted) with rows out of order: tangles of
about 500 items, 20 keys each, a packet's size and direction, a time, and a label per key.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

SCHEMA = {
    "key": "key", "tangle": "tangle", "time": "time", "values": "size,direction", "session": "direction",
    "label": "label",
}  # fmt: skip


def make(path: Path, items: int) -> None:
    rng = np.random.default_rng(0)
    tangle = rng.integers(0, max(items // 500, 1), items)
    key = tangle * 20 + rng.integers(0, 20, items)
    frame = pl.DataFrame(
        {
            "tangle": tangle,
            "key": key,
            "time": rng.random(items) * 3600,
            "size": rng.geometric(0.005, items),
            "direction": rng.integers(0, 2, items),
            "label": (key * 7919) % 12,
        }
    ).with_columns(pl.format("class {}", "label").alias("label"))
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)


def measure(path: Path) -> dict[str, object]:
    from kvec.read.rows import read_table
    from kvec.tangle.tangles import encode_tangles
    from kvec.tangle.tangling import arrange
    from kvec.tangle.vocabulary import Vocabulary
    from kvec.words.schema import Schema

    seconds: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        seconds[name] = round(time.perf_counter() - clock, 2)
        clock = time.perf_counter()

    table = read_table(path, Schema.from_dict(SCHEMA))
    lap("read")
    schema, frame = table.schema, table.frame
    del table
    frame = arrange(frame)
    lap("sort")
    vocabulary = Vocabulary.fit(frame, schema)
    lap("vocabulary")
    tangles = encode_tangles(frame, schema, vocabulary)
    lap("session and encode")
    return {
        "file": path.suffix,
        "items": tangles.n_items,
        "sequences": tangles.n_sequences,
        "sessions": int(tangles.session.max()) + 1,
        "seconds": seconds,
        "total_seconds": round(sum(seconds.values()), 1),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000_000)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--out")
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(Path(given.only))))
        return
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".parquet", ".csv"):
            path = Path(folder) / f"items{ending}"
            make(path, given.items)
            run = subprocess.run(
                [sys.executable, __file__, "--only", str(path)], capture_output=True, text=True, check=True
            )
            results.append(json.loads(run.stdout))
            path.unlink()
    text = json.dumps({"command": " ".join(["python", *sys.argv]), "results": results}, indent=1)
    print(text)
    if given.out:
        Path(given.out).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
