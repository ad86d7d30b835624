"""What accuracy it costs to part one large tangle: by key, or by a value that neighbours share.

    python benchmarks/flink/split.py fgnet_d1.parquet --work scratch

A model is trained on some captures. Others, put side by side on one clock into large tangles, are decided whole, and in
parts: a part sees nothing of the others. By key: hash of the key. By neighbours: hash of the size of the key's first
item, so that keys that begin alike stay together, as `--split-by` does with a column of the source.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from prepared import SOURCE, Results, items_of, origin, train  # first: it says how many threads there are

import numpy as np  # isort: skip
import polars as pl  # isort: skip

from kvec.decide.deployed import load_deployed  # isort: skip
from kvec.decide.stream import Stream  # isort: skip
from kvec.words.items import Item  # isort: skip
from kvec.words.limits import Limits  # isort: skip

HERE = Path(__file__).resolve().parent
PARTS = (1, 2, 4, 8, 16, 64)
DRAWS = 2000
LEARNED = ("--set", "training.batch=16", "--set", "training.lengths=early")  # as tuned for short trainings


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("data", help="fgnet_d1.parquet")
    made.add_argument("--schema", default=str(SOURCE / "kvec/read/schemas/fgnet_d1.toml"))
    made.add_argument("--items", type=int, default=1_200_000)
    made.add_argument("--test-items", type=int, default=100_000)
    made.add_argument("--side-by-side", type=int, default=8, help="of the data's tangles in one large one")
    made.add_argument("--epochs", type=int, default=24, help="of training")
    made.add_argument("--work", required=True, help="a folder for what is made on the way")
    made.add_argument("-o", "--out", help="the result (default: split.json beside this script)")
    given = made.parse_args()
    work = Path(given.work)
    work.mkdir(parents=True, exist_ok=True)
    results = Results(work / "split.json", origin(given.data, "--work", "-o"))
    results.step("data", lambda: prepare(given, work))
    model = load_deployed(work / "split-model")
    frame = pl.read_parquet(work / "split-test.parquet")
    whole = decided(model, frame, pl.lit(0))
    for by in ("key", "first"):
        for parts in PARTS if by == "key" else PARTS[1:]:
            part = pl.col(by).map_elements(lambda cell, n=parts: crc32(str(cell).encode()) % n, pl.Int64)
            results.step(f"{parts} by {by}", lambda part=part: measured(whole, decided(model, frame, part)))
    results.step("each key alone", lambda: measured(whole, decided(model, frame, pl.col("key"))))
    text = json.dumps(results.done, indent=1)
    (Path(given.out) if given.out else HERE / "split.json").write_text(text + "\n", encoding="utf-8")
    print(text)


def prepare(given: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Train on tangles of three captures; put others side by side into large ones, each key under its tangle's name."""
    frame = items_of(given.data, given.schema, given.items)
    tangles = frame["tangle"].unique(maintain_order=True)
    n = frame.group_by("tangle", maintain_order=True).len()["len"].cum_sum()
    testing = tangles.filter(n > n[-1] - given.test_items)
    is_test = pl.col("tangle").is_in(testing.implode())
    frame.filter(~is_test).write_parquet(work / "split-train.parquet")
    number = pl.col("tangle").rank("dense") - 1
    test = frame.filter(is_test).with_columns(
        tangle=(number // given.side_by_side).cast(pl.String), key=pl.format("{}/{}", "tangle", "key"),
        time=pl.col("time") - pl.col("time").min().over("tangle"),
    )  # fmt: skip
    test = test.sort("tangle", "time", maintain_order=True)
    test = test.with_columns(first=pl.col("size").first().over("tangle", "key"))
    test.write_parquet(work / "split-test.parquet")
    train(work / "split-train.parquet", work / "split-model", "--epochs", str(given.epochs), *LEARNED)
    keys = test.group_by("tangle").agg(pl.col("key").n_unique(), pl.len())
    return {"training_items": frame.height - test.height, "test_items": test.height, "large_tangles": keys.height,
            "keys_of_a_large_tangle": int(keys["key"].median()),  # type: ignore[arg-type]
            "items_of_a_large_tangle": int(keys["len"].median())}  # type: ignore[arg-type]  # fmt: skip


def decided(model: Any, frame: pl.DataFrame, part: pl.Expr) -> dict[tuple[str, Any], tuple[bool, float]]:
    """Of each sequence whether it was named rightly, and how early, where tangles are in these parts."""
    stream = Stream(model, Limits(max_tangles=10**9, max_live_keys=10**9, max_cached_items=10**9))
    rows = frame.with_columns(part=pl.format("{}#{}", "tangle", part)).to_dicts()
    items = [Item(r["part"], r["key"], {"size": r["size"], "direction": r["direction"]}, r["time"]) for r in rows]
    told = [*(one for at in range(0, len(items), 4096) for one in stream.feed_many(items[at : at + 4096]))]
    told += stream.close()
    truth = {(r["tangle"], r["key"]): r["label"] for r in rows}
    length = {(tangle, key): n for tangle, key, n in frame.group_by("tangle", "key").len().rows()}
    found = {}
    for one in told:
        name = (str(one.tangle).partition("#")[0], one.key)
        found.setdefault(name, (one.label == truth[name], one.n_observed / length[name]))
    return found


def measured(whole: dict[Any, tuple[bool, float]], parted: dict[Any, tuple[bool, float]]) -> dict[str, Any]:
    """Accuracy and earliness in parts, and the difference to whole tangles with its 95 % interval over captures."""
    names = sorted(whole)
    before, after = (np.array([one[name] for name in names], float) for one in (whole, parted))
    accuracy, earliness = after.mean(axis=0).tolist()
    groups = _groups([str(key).partition("/")[0] for _, key in names])
    sums = np.array([((after - before)[rows, 0].sum(), len(rows)) for rows in groups])
    draws = np.random.default_rng(0).integers(0, len(sums), (DRAWS, len(sums)))
    drawn = sums[draws].sum(axis=1)
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], [2.5, 97.5]).round(4).tolist()
    saved = 1 - earliness
    return {"sequences": len(names), "accuracy": round(accuracy, 4), "earliness": round(earliness, 4),
            "hm": round(2 * saved * accuracy / (saved + accuracy), 4),
            "accuracy_against_whole": {"mean": round(float((after - before)[:, 0].mean()), 4), "95%": [low, high]},
            }  # fmt: skip


def _groups(names: Sequence[str]) -> list[np.ndarray]:
    order = np.argsort(names, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(np.unique(names, return_inverse=True)[1][order])) + 1)


if __name__ == "__main__":
    main()
