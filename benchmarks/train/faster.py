"""Whether half precision or torch.compile make a training step faster on this processor.

    python benchmarks/train/faster.py -o benchmarks/train/faster.json

Steps of all ways take turns on the same batches of made traffic, one thread, in CPU seconds, so that a busy machine
troubles all alike; the medians count. Half precision is tried in a process of its own, once with all that the processor
says it has and once without AMX tiles: some virtual machines tell of tiles that they let nobody use. What torch.compile
gets is the feed-forward net of each block, since attention and the gated cell are C loops already.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from typing import Any

from told import tell

WARM_UP = 3  # steps of each way that pay for compiling and for first allocations


def measure(ways: list[str], n_steps: int, n_tangles: int) -> dict[str, Any]:
    """Median CPU milliseconds of a step in each way, and the loss after all of them."""
    import copy
    from dataclasses import replace

    import numpy as np
    import torch
    from torch.nn import functional

    from kvec.decide.model import build_network
    from kvec.learn.run import new_run
    from kvec.learn.supply import delay
    from kvec.learn.trainer import train_batch
    from kvec.read.rows import read_table
    from kvec.read.synthetic import demo_traffic
    from kvec.tangle.batch import Batch, plan_batches
    from kvec.tangle.tangles import encode_tangles
    from kvec.tangle.tangling import arrange
    from kvec.tangle.visibility import make_rule
    from kvec.tangle.vocabulary import Vocabulary
    from kvec.words.config import Config
    from kvec.words.schema import Field, Schema

    torch.set_num_threads(1)
    fields = tuple(Field(name, kind="categorical") for name in ("size", "direction"))
    schema = Schema(tangle="tangle", time="time", values=fields, session=("direction",), labels=("label",))
    frame = arrange(read_table(demo_traffic(n_tangles), schema).frame)
    vocabulary = Vocabulary.fit(frame, schema)
    tangles = encode_tangles(frame, schema, vocabulary)
    config = Config()
    torch.manual_seed(0)
    first = build_network(vocabulary, config.encoder, has_time=True)
    rule, delays = make_rule(config.visibility), delay(tangles, config.training)
    plan = plan_batches(tangles.sizes, 64, 8192, 4096, np.random.default_rng(0))
    runs = {way: new_run(copy.deepcopy(first), config.training) for way in ways}
    if "compiled" in runs:
        for block in runs["compiled"].network.layers():

            def wide(x: Any, block: Any = block) -> Any:
                return block.narrow(functional.relu(block.widen(block.norm2(x).flatten(0, 1)))).view(x.shape)

            net = torch.compile(wide, dynamic=True)

            def forward(x: Any, visible: Any, before: Any = None, block: Any = block, net: Any = net) -> Any:
                mixed, cache = block.attention(block.norm1(x), visible, before)
                x = block.dropout(mixed, onto=x)
                return block.dropout(net(x), onto=x), cache

            block.forward = forward
    spent: dict[str, list[float]] = {way: [] for way in ways}
    losses: dict[str, float] = {}
    for number in range(n_steps + WARM_UP):
        batch = Batch.of(tangles, plan[number % len(plan)])
        for way, run in runs.items():
            precision = "bfloat16" if way.startswith("bfloat16") else "float32"
            settings = replace(config.training, precision=precision)
            run.network.train()
            rng = np.random.default_rng(number)
            start = time.process_time()
            losses[way] = train_batch(run, batch, rule, settings, delays, None, rng, 1.0)["loss"]
            if number >= WARM_UP:
                spent[way].append(time.process_time() - start)
    return {
        way: {"ms": round(1000 * statistics.median(times), 1), "last_loss": round(losses[way], 4)}
        for way, times in spent.items()
    }


def apart(ways: list[str], n_steps: int, n_tangles: int, isa: str = "") -> Any:
    """The same in a process of its own, perhaps with fewer instructions; how it ended where it did not end well."""
    words = [sys.executable, __file__, "--ways", ",".join(ways), "--steps", str(n_steps), "--tangles", str(n_tangles)]
    more = {"OMP_NUM_THREADS": "1"} | ({"ONEDNN_MAX_CPU_ISA": isa} if isa else {})
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | more, check=False)
    if done.returncode:
        return f"ended by signal {-done.returncode}" if done.returncode < 0 else done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", help="only these, in this process")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--tangles", type=int, default=600)
    parser.add_argument("-o", "--out")
    given = parser.parse_args()
    if given.ways:
        print(json.dumps(measure(given.ways.split(","), given.steps, given.tangles)))
        return
    import torch

    result = {
        "command": " ".join(["python", *sys.argv]),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, 1 thread",
        "steps": given.steps,
        "half_precision": apart(["float32", "bfloat16"], given.steps, given.tangles),
        "half_precision_without_amx": apart(["float32", "bfloat16"], given.steps, given.tangles, "AVX512_CORE_BF16"),
        "compile": apart(["float32", "compiled"], given.steps, given.tangles),
    }
    tell(result, given.out)


if __name__ == "__main__":
    main()
