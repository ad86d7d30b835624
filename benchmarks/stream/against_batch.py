"""How much faster the stream is than running the batch network over the whole prefix again for each item.

    python benchmarks/stream/against_batch.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml

One tangle; at each length the newest items through the stream, one at a time, and the whole prefix through PyTorch
(`kvec.decide.scoring.score`; reading and encoding the table are not counted). Both say the same of the newest item.
Results: a JSON file, the curve as CSV, and a picture of it.
"""

from __future__ import annotations

import csv
import statistics
import time
from itertools import islice
from pathlib import Path

import common
import numpy as np
import polars as pl
import torch

from kvec.decide.deployed import Deployed
from kvec.decide.model import build_network
from kvec.decide.scoring import score
from kvec.decide.stream import Stream
from kvec.report.canvas import BLUE, LETTERS, VERMILLION, save, sheet, styled
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.visibility import make_rule
from kvec.words.config import Config
from kvec.words.items import Item

NEWEST = 50  # items of the stream whose median counts


def one_tangle(pool: common.Pool, n: int) -> list[Item]:
    """Items of the pool, all in one tangle, on one clock."""
    return [
        Item("all", f"{item.tangle}/{item.key}", item.value, None if pool.times is None else i * 0.01)
        for i, item in enumerate(islice(pool.items(4), n))
    ]


def as_frame(items: list[Item]) -> pl.DataFrame:
    columns = {"tangle": [item.tangle for item in items], "key": [item.key for item in items]}
    columns |= {f"value.{name}": [item.value[name] for item in items] for name in items[0].value}
    if items[0].time is not None:
        columns["time"] = [item.time for item in items]
    return pl.DataFrame(columns)


def draw(rows: list[dict[str, float]], path: Path) -> None:
    with styled():
        figure = sheet(6.0, 3.4)
        axes = figure.subplots()
        x = [row["items"] for row in rows]
        for name, column, colour in (
            ("the prefix again, in PyTorch", "batch_us", VERMILLION), ("the stream", "stream_us", BLUE),
        ):  # fmt: skip
            y = [row[column] for row in rows]
            axes.plot(x, y, color=colour, marker="o", ms=4)
            axes.annotate(name, (x[-1], y[-1]), (0, 8), textcoords="offset points", ha="right", color=LETTERS[colour])
        for row in rows:
            middle = (row["items"], (row["batch_us"] * row["stream_us"]) ** 0.5)
            axes.annotate(f"{row['ratio']:.0f} ×", middle, ha="center", va="center", fontsize=8)
        axes.set(xscale="log", yscale="log", xlabel="items in the tangle", ylabel="CPU µs for the next item")
        axes.set_ylim(top=3 * max(row["batch_us"] for row in rows))
        save(figure, path)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--lengths", default="10,30,100,300,1000,3000,10000", help="prefixes to measure at")
    parser.add_argument("--repeats", type=int, default=7, help="passes over each prefix (default: 7)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lengths = [int(n) for n in given.lengths.split(",")]
    pool = common.load(given.data, given.schema, given.tangles)
    items = one_tangle(pool, lengths[-1])
    config = Config.preset("small")
    torch.manual_seed(0)
    rule = make_rule(config.visibility)
    network = build_network(
        pool.vocabulary, config.encoder, pool.times is not None, n_relations=len(rule.relations)
    ).eval()
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    model = Deployed(weights, pool.vocabulary, pool.schema, config, pool.times is not None, 0.5)
    stream = Stream(model)
    other = Stream(model)  # the first items of a process meet cold caches
    for item in items[:1000]:
        other.feed(item)
    fed, rows = 0, []
    for n in lengths:
        costs = []
        for item in items[fed:n]:
            start = time.thread_time()
            stream.feed(item)
            costs.append((time.thread_time() - start) * 1e6)
        fed = n
        tangles = encode_tangles(as_frame(items[:n]), pool.schema, pool.vocabulary)
        passes = []
        for _ in range(given.repeats):
            start = time.thread_time()
            scores = score(network, tangles, rule)
            passes.append((time.thread_time() - start) * 1e6)
        newest = int(np.flatnonzero(tangles.sequences.by_sequence == n - 1)[0])
        status = stream.status("all", items[n - 1].key)
        assert status is not None and abs(status.halt_probability - float(scores.halt[newest])) < 1e-4
        row = {"items": n, "stream_us": round(statistics.median(costs[-NEWEST:]), 1)}
        row["batch_us"] = round(statistics.median(passes), 1)
        row["ratio"] = round(row["batch_us"] / row["stream_us"], 1)
        rows.append(row)
        common.progress(str(row))
    folder = Path(given.out) if given.out else Path(__file__).parent
    with (folder / "against_batch.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, folder / "against_batch.svg")
    common.finish(given, "against_batch", {"data": pool.name, "curve": rows})


if __name__ == "__main__":
    main()
