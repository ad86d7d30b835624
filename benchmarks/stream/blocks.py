"""Blocks of arriving items through the network, in C and in NumPy: processor time of an item.

    python benchmarks/stream/blocks.py

One thread, single precision, 40 sequences, 25 visible items each, by turns; both must say the same.
"""

from __future__ import annotations

import time
from typing import Any

import common
import numpy as np

from kvec.decide.kernel import Arriving, Kernel, Memory, is_built
from kvec.decide.model import Network
from kvec.words.config import Encoder
from kvec.words.sizes import Vocabularies

SIZES = {
    "small": Encoder(width=64, heads=4, blocks=2, feed_forward=256, fusion=128),
    "twice": Encoder(width=128, heads=8, blocks=2, feed_forward=512, fusion=256),
    "four times": Encoder(width=256, heads=16, blocks=2, feed_forward=1024, fusion=512),
}
FIELDS, ROWS, SEQUENCES, VISIBLE = (300, 2, 60), 8192, 40, 25


class Setting:
    """A kernel with a memory of its own, and blocks of n items that come one after the other."""

    def __init__(self, weights: dict[str, Any], settings: Encoder, n: int, use_c: bool) -> None:
        self.kernel = Kernel(weights, settings, use_c=use_c)
        self.memory = Memory(settings, self.kernel.n_outputs)
        self.memory.make_room(ROWS, SEQUENCES)
        self.arriving = Arriving(n, len(FIELDS), 0, np.float32)
        self.arriving.make_room(n * VISIBLE)
        self.arriving.n = n
        self.arriving.starts[:] = np.arange(n + 1) * VISIBLE
        self.used: list[int] = []

    def run(self, number: int) -> Any:
        """One block, whose items see those of the blocks before."""
        a, rng = self.arriving, np.random.default_rng(number)
        n, first = a.n, number * a.n
        starts = np.cumsum([0, *FIELDS[:-1]])
        a.index[:] = starts + rng.integers(0, FIELDS, (n, len(FIELDS)))
        a.rows[:] = (first + np.arange(n)) % ROWS
        a.places[:] = rng.integers(0, SEQUENCES, n)
        seen = np.maximum(first + np.arange(n)[:, None] - rng.integers(1, ROWS // 2, (n, VISIBLE)), 0) % ROWS
        seen[:, 0] = a.rows
        a.seen[: seen.size] = seen.ravel()
        start = time.thread_time_ns()
        said = self.kernel.run(self.memory, a)
        self.used.append(time.thread_time_ns() - start)
        return said


def measure(weights: dict[str, Any], settings: Encoder, n: int, items: int) -> dict[str, float]:
    """The median of an item's time, by kernel."""
    kernels = {"C": True, "NumPy": False} if is_built else {"NumPy": False}
    by_name = {name: Setting(weights, settings, n, use_c) for name, use_c in kernels.items()}
    for number in range(max(items // n, 3)):
        said = [one.run(number).copy() for one in by_name.values()]
        np.testing.assert_allclose(said[0], said[-1], atol=2e-3)
    return {name: round(float(np.median(one.used)) / n / 1000, 2) for name, one in by_name.items()}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="of each measurement (default: 20,000)")
    parser.add_argument("--blocks", default="1,4,16,64,256", help="items of a block (default: 1,4,16,64,256)")
    given = parser.parse_args()
    rows = []
    for name, settings in SIZES.items():
        network = Network(Vocabularies(FIELDS, 0, 0, 0, 0, 0), settings, (5,), n_relations=0)
        weights = {key: tensor.numpy() for key, tensor in network.state_dict().items()}
        for n in (int(word) for word in given.blocks.split(",")):
            rows.append({"size": name, "block": n, "us_per_item": measure(weights, settings, n, given.items)})
            common.progress(str(rows[-1]))
    common.finish(given, "blocks", {"results": rows})


if __name__ == "__main__":
    main()
