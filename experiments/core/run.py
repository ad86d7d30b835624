"""Train on a data set with several seeds and settings, test once each, and keep every figure in a CSV.

    python experiments/core/run.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml \
        --name traffic_fg --seeds 0,1,2 --set training.objective=expected

A row that is already in the CSV is not run again, so an interrupted run goes on where it stopped. Thresholds and
epochs are chosen on validation; the test part is scored once, by the model that validation chose.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import torch

import kvec
from kvec.learn.run import Run
from kvec.read.ratings import read_movielens
from kvec.read.rows import read_table
from kvec.read.table import Table
from kvec.report.curves import accuracy_at_end, accuracy_by_items, best_fixed, stop_at_fixed, stop_at_threshold
from kvec.report.metrics import accuracy, earliness, harmonic_mean, summarise
from kvec.tangle.repeats import is_new_to
from kvec.tangle.tangles import Tangles
from kvec.tangle.tangling import Split
from kvec.words.config import Config
from kvec.words.schema import Schema

READ = (1, 2, 3, 5, 8, 10, 12, 20, 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--schema")
    parser.add_argument("--name", required=True, help="what the rows are called")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--share", type=float, default=1.0, help="share of the split units to use")
    parser.add_argument("--classes", type=int, default=0, help="use only the first classes by name")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--out", default=str(Path(__file__).with_name("results.csv")))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    table = load(given.data, given.schema, given.share, given.classes)
    for seed in (int(s) for s in given.seeds.split(",")):
        settings = " ".join(sorted(given.settings))
        row = {
            "name": given.name,
            "preset": given.preset,
            "share": str(given.share),
            "settings": settings,
            "seed": str(seed),
        }
        if any(all(done[k] == v for k, v in row.items()) for done in rows(given.out)):
            print(f"{row}: done already")
            continue
        config = Config.preset(given.preset).override([*given.settings, f"training.seed={seed}"])
        add(given.out, row | measure(table, config))


def load(data: str, schema: str | None, share: float, classes: int) -> Table:
    if Path(data).is_dir() and (Path(data) / "users.dat").exists():
        frame, found = read_movielens(data)
        table = read_table(frame, found)
    else:
        table = read_table(data, Schema.from_toml(schema) if schema else None)
    if classes:
        label = pl.col(f"label.{table.schema.label_names[0]}")
        names = table.frame.select(label.unique().sort()).to_series().head(classes)
        table = replace(table, frame=table.frame.filter(label.is_in(names.implode())))
    if share < 1:
        some = Split.of(table.frame, (share, (1 - share) / 2, (1 - share) / 2), 0).part(table.frame, "train")
        table = replace(table, frame=some)
    return table


def measure(table: Table, config: Config) -> dict[str, object]:
    seed = config.training.seed
    split = Split.of(table.frame, (8, 1, 1), seed)
    model = kvec.KVEC.from_config(config, schema=table.schema, device="cpu")
    started = time.perf_counter()

    def tell(run: Run) -> None:
        last = run.history[-1]
        shown = {
            k: round(last[k], 4) for k in ("epoch", "loss", "accuracy", "earliness", "hm", "end_accuracy", "seconds")
        }
        print(shown, flush=True)

    model.fit(table, on_epoch=tell)
    minutes = (time.perf_counter() - started) / 60
    parts = {name: split.part(table.frame, name) for name in ("train", "validation", "test")}
    encoded = {name: encode(model, frame, table.schema) for name, frame in parts.items() if name != "train"}
    theta = model.model_.threshold
    found = model.traces(encoded["test"], model.scores(encoded["test"]))
    held_out = model.traces(encoded["validation"], model.scores(encoded["validation"]))
    fixed_n = best_fixed(held_out)[0]
    n_observed = stop_at_threshold(found, theta)
    predicted = found.decided(n_observed)[0]
    summary = summarise(found.truth, predicted, n_observed, found.length, found.tangle, len(model.classes_))
    fixed = stop_at_fixed(found, fixed_n)
    fixed_early = earliness(fixed, found.length)
    fixed_right = accuracy(found.truth, found.decided(fixed)[0])
    is_new = is_new_to(encode(model, parts["train"], table.schema), encoded["test"])
    new_right = accuracy(found.truth[is_new], predicted[is_new])
    new_early = earliness(n_observed[is_new], found.length[is_new])
    by_items = accuracy_by_items(found, READ)
    low, high = summary.intervals["hm"]
    return {
        "epochs": len(model.model_.history), "minutes": round(minutes, 1),
        "threads": torch.get_num_threads(), "kvec": kvec.__version__,
        "threshold": f"{theta:.4g}", "n_keys": summary.n_keys,
        **{k: f"{getattr(summary, k):.4f}" for k in ("accuracy", "precision", "recall", "f1", "earliness", "hm")},
        "hm_low": f"{low:.4f}", "hm_high": f"{high:.4f}", "end_accuracy": f"{accuracy_at_end(found):.4f}",
        "validation_hm": f"{max(r['hm'] for r in model.model_.history):.4f}",
        "fixed_n": fixed_n, "fixed_hm": f"{harmonic_mean(fixed_right, fixed_early):.4f}",
        "new_keys": int(is_new.sum()), "new_hm": f"{harmonic_mean(new_right, new_early):.4f}",
        **{f"read_{n}": f"{a:.4f}" for n, a in zip(READ, by_items, strict=True)},
        "auc": f"{auc(model, encoded['test']):.4f}" if len(model.classes_) == 2 else "",
    }  # fmt: skip


def encode(model: kvec.KVEC, frame: pl.DataFrame, schema: Schema) -> Tangles:
    return model.tangles(Table(frame, schema, "split"))


def auc(model: kvec.KVEC, tangles: Tangles) -> float:
    """Area under the ROC curve of the second class, each sequence read to its end."""
    scores = model.scores(tangles)
    at_end = scores.classes[0][scores.offsets[1:] - 1, 1]
    truth = tangles.labels[:, 0]
    ranks = at_end.argsort().argsort() + 1.0
    positive = truth == 1
    n, m = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def rows(path: str) -> list[dict[str, str]]:
    if not Path(path).exists():
        return []
    with open(path, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def add(path: str, row: dict[str, object]) -> None:
    is_new = not Path(path).exists()
    with open(path, "a", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, fieldnames=list(row))
        if is_new:
            writer.writeheader()
        writer.writerow(row)
    print(row, flush=True)


if __name__ == "__main__":
    sys.exit(main())
