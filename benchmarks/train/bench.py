"""Training speed: tangles/s, items/s, and the floating-point rate as a share of the machine's matrix-multiply rate.

    python benchmarks/train/bench.py traffic_fg.parquet --schema examples/schemas/traffic_fg.toml -o result.json

Only real items and visible pairs are counted as work, three times the forward pass for a training step. Steps and
matrix products take turns, one thread, in CPU seconds, so that a busy machine troubles both alike; the medians count.
"""

from __future__ import annotations

import argparse
import platform
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from told import tell

import kvec
from kvec.decide.model import Network, build_network
from kvec.learn.run import new_run
from kvec.learn.supply import delay
from kvec.learn.trainer import train_batch
from kvec.read.rows import read_table
from kvec.tangle.batch import Batch, plan_batches
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.tangling import Split, arrange
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config
from kvec.words.schema import Schema

SETTINGS = [
    "encoder.width=64", "encoder.blocks=2", "encoder.heads=4", "encoder.feed_forward=256", "encoder.fusion=64",
    "training.batch=64", "training.batch_items=65536",
]  # fmt: skip


def flops_per_item(network: Network, n_classes: int) -> int:
    """Multiplications and additions of one item's forward pass, attention's pairs left out."""
    s = network.settings
    block = 2 * s.width * (3 * s.width + s.width + 2 * s.feed_forward)
    fusion = 2 * (s.width + s.fusion) * 4 * s.fusion
    heads = 2 * s.fusion * (n_classes + 1) + 2 * (s.fusion * 64 + 64)
    return s.blocks * block + fusion + heads


def matmul_seconds(a: torch.Tensor, b: torch.Tensor) -> float:
    start = time.thread_time()
    for _ in range(5):
        a @ b
    return (time.thread_time() - start) / 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--schema")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("-o", "--out")
    given = parser.parse_args()
    torch.set_num_threads(1)
    config = Config().override(SETTINGS + given.settings)
    settings = config.training
    table = read_table(given.data, Schema.from_toml(given.schema) if given.schema else None)
    frame = arrange(Split.of(table.frame, (8, 1, 1), 0).part(table.frame, "train"))
    vocabulary = Vocabulary.fit(frame, table.schema)
    tangles = encode_tangles(frame, table.schema, vocabulary)
    torch.manual_seed(0)
    network = build_network(vocabulary, config.encoder, tangles.time is not None)
    run, rule = new_run(network, settings), make_rule(config.visibility)
    delays = delay(tangles, settings)
    rng = np.random.default_rng(0)
    plan = plan_batches(tangles.sizes, settings.batch, settings.batch_items, settings.block, rng)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    network.train()
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    steps, masks, products, items, pairs, n_tangles = [], [], [], [], [], []
    for number, members in enumerate(plan[: given.steps + 3]):
        batch = Batch.of(tangles, members)
        start = time.thread_time()
        seen = batch._visible(rule, 0, int(tangles.sizes[members].max()))
        mask = time.thread_time() - start
        start = time.thread_time()
        train_batch(run, batch, rule, settings, delays, None, rng, settings.delay_cost)
        step = time.thread_time() - start
        if number >= 3:  # the first steps compile and fill caches
            steps.append(step)
            masks.append(mask)
            products.append(matmul_seconds(a, b))
            items.append(len(batch.items))
            pairs.append(len(seen["rows"]))
            n_tangles.append(len(members))
    work = 3 * (
        np.array(items) * flops_per_item(network, sum(network.n_classes))
        + np.array(pairs) * network.settings.blocks * 4 * network.settings.width
    )
    rate = statistics.median(work / np.array(steps)) / 1e9
    machine = 2 * 1024**3 / statistics.median(products) / 1e9
    result = {
        "command": " ".join(["python", *sys.argv]).replace(str(Path(given.data).parent) + "/", ""),
        "kvec": kvec.__version__,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, 1 thread",
        "steps": len(steps),
        "tangles_per_second": round(sum(n_tangles) / sum(steps), 1),
        "items_per_second": round(sum(items) / sum(steps)),
        "visible_pairs_per_item": round(sum(pairs) / sum(items), 1),
        "gflops": round(rate, 1),
        "matmul_gflops": round(machine, 1),
        "share_of_matmul": round(rate / machine, 3),
        "mask_share_of_step": round(sum(masks) / sum(steps), 4),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "memory_before_training_mb": round(before / 1024),
    }
    tell(result, given.out)


if __name__ == "__main__":
    main()
