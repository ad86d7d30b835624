"""What the benchmarks of streaming share: traffic side by side, a model without training, clocks, memory, results.

Import it before NumPy: it sets the arithmetic to one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402

import kvec  # noqa: E402
from kvec.decide.deployed import Deployed  # noqa: E402
from kvec.decide.readiness import Readiness  # noqa: E402
from kvec.decide.triggers.calibrated import Temperatures  # noqa: E402
from kvec.decide.triggers.waiting import KNOTS, Waiting  # noqa: E402
from kvec.tangle.tangles import embedded_sizes  # noqa: E402
from kvec.tangle.visibility import make_rule  # noqa: E402
from kvec.tangle.vocabulary import Vocabulary  # noqa: E402
from kvec.words.config import Config  # noqa: E402
from kvec.words.items import Item  # noqa: E402
from kvec.words.schema import Field, Schema  # noqa: E402

T = TypeVar("T")
SIDE_BY_SIDE = 16  # tangles that are under way at once
MADE_SCHEMA = Schema(
    tangle="tangle", values=(Field("size", kind="categorical"), Field("direction", kind="categorical")),
    session=("direction",), labels=("label",),
)  # fmt: skip


# -- traffic ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Whole tangles as columns, and the vocabulary of their values."""

    name: str
    starts: np.ndarray  # (G + 1,) tangle g holds the rows starts[g]:starts[g + 1]
    keys: np.ndarray  # (N,)
    values: dict[str, np.ndarray]  # of each field, (N,)
    times: np.ndarray | None  # (N,)
    ends: np.ndarray  # (N,) the last item of its key
    schema: Schema
    vocabulary: Vocabulary

    def tangle(self, number: int, name: int) -> Iterator[Item]:
        """The items of one tangle, under another name."""
        rows = slice(self.starts[number], self.starts[number + 1])
        columns = [self.values[field][rows].tolist() for field in self.values]
        times = [None] * len(columns[0]) if self.times is None else self.times[rows].tolist()
        names = list(self.values)
        for key, time_, is_end, *cells in zip(
            self.keys[rows].tolist(), times, self.ends[rows].tolist(), *columns, strict=True
        ):
            yield Item(name, key, dict(zip(names, cells, strict=True)), time_, is_end)

    def items(self, width: int = SIDE_BY_SIDE) -> Iterator[Item]:
        """Endless traffic: `width` tangles side by side, at random turns, each replaced by the next when it ends."""
        rng = np.random.default_rng(0)
        names = count()

        def opened() -> Iterator[Item]:
            name = next(names)
            return self.tangle(name % (len(self.starts) - 1), name)

        under_way = [opened() for _ in range(width)]
        while True:
            for turn in rng.integers(0, width, 4096).tolist():
                item = next(under_way[turn], None)
                while item is None:
                    under_way[turn] = opened()
                    item = next(under_way[turn], None)
                yield item


def load(path: str | None, schema: str | None, n_tangles: int = 2000) -> Pool:
    """The first tangles of a table, the vocabulary of all of it; without a path, of made traffic."""
    import polars as pl

    from kvec.read.rows import read_table
    from kvec.tangle.tangling import tangled

    if path is None:
        table = read_table(_made(n_tangles), MADE_SCHEMA)
    else:
        table = read_table(path, Schema.from_toml(schema) if schema else None)
    vocabulary = Vocabulary.fit(table.frame, table.schema)
    frame = tangled(table.frame, table.schema.tangling)
    number = frame["tangle"].rle_id().to_numpy()
    frame = frame.head(int(np.searchsorted(number, n_tangles)))
    number = number[: len(frame)]
    last = frame.select(pl.int_range(pl.len()).reverse().over("tangle", "key") == 0).to_series()
    return Pool(
        "made" if path is None else Path(path).stem,
        np.append(np.flatnonzero(np.diff(number, prepend=-1)), len(frame)),
        frame["key"].to_numpy(),
        {name: frame[f"value.{name}"].to_numpy() for name in table.schema.value_names},
        frame["time"].to_numpy() if "time" in frame.columns else None,
        last.to_numpy(),
        table.schema,
        vocabulary,
    )


def apart(function: Callable[..., T], *given: Any) -> T:
    """What a function returns in a process of its own, so that its memory is not counted here."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        return other.submit(function, *given).result()


def _made(n_tangles: int) -> Any:
    import polars as pl

    rng = np.random.default_rng(0)
    tangle = np.repeat(np.arange(n_tangles), 100)
    key = rng.integers(0, 2, len(tangle))
    size = np.minimum(rng.geometric(0.01, len(tangle)), 1500)
    flows = {"tangle": tangle, "key": key, "size": size, "direction": rng.integers(0, 2, len(tangle))}
    return pl.DataFrame(flows).with_columns(label=pl.format("class {}", (pl.col("tangle") + pl.col("key")) % 12))


# -- model --------------------------------------------------------------------------------------------------------


def untrained(pool: Pool, settings: list[str] | None = None) -> Deployed:
    """A model of preset `small` with random weights: what it costs does not depend on them."""
    config = Config.preset("small").override(settings or [])
    s, has_time = config.encoder, pool.times is not None
    sizes = embedded_sizes(pool.vocabulary, s, has_time)
    shapes: dict[str, tuple[int, ...]] = {"embedding.table": (sum(sizes.sizes()), s.width)}
    if sizes.projected:
        shapes["embedding.project.weight"] = (s.width, sizes.projected)
    for i in range(s.blocks):
        linear = {
            "attention.project": (3 * s.width, s.width), "attention.out": (s.width, s.width),
            "widen": (s.feed_forward, s.width), "narrow": (s.width, s.feed_forward),
        }  # fmt: skip
        for name, shape in linear.items():
            shapes |= {f"blocks.{i}.{name}.weight": shape, f"blocks.{i}.{name}.bias": shape[:1]}
        if relations := make_rule(config.visibility).relations:
            shapes[f"blocks.{i}.attention.relation"] = (s.heads, len(relations))
        shapes |= {f"blocks.{i}.norm{n}.{part}": (s.width,) for n in (1, 2) for part in ("weight", "bias")}
    shapes |= {"norm.weight": (s.width,), "norm.bias": (s.width,)}
    for name, n in (("ih", s.width), ("hh", s.fusion)):
        shapes |= {f"fusion.cell.weight_{name}_l0": (4 * s.fusion, n), f"fusion.cell.bias_{name}_l0": (4 * s.fusion,)}
    for name, n in (("policy", 1), *((f"classifiers.{i}", len(c)) for i, c in enumerate(pool.vocabulary.labels))):
        shapes |= {f"{name}.weight": (n, s.fusion), f"{name}.bias": (n,)}
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    weights["policy.bias"][:] = -2
    if config.training.objective != "every":
        return Deployed(weights, pool.vocabulary, pool.schema, config, has_time, 0.5)
    n = len(pool.vocabulary.labels[0])
    induced = rng.normal(0, 5, (48, KNOTS, 2 * n + 7)).astype(np.float32)  # halts now and then
    induced[:, :, -1] = -2
    waiting = Waiting(np.arange(1, 49), induced)
    tempered = tuple(Temperatures(np.ones((6, 2))) for _ in pool.vocabulary.labels)
    readiness = Readiness(tempered, "induction", waiting)
    weights |= readiness.to_arrays()
    return Deployed(weights, pool.vocabulary, pool.schema, config, has_time, 0.5, readiness, delay_cost=1.0)


def ready(pool: Pool, settings: list[str] | None = None) -> Deployed:
    """The same, after a first use: what is loaded and compiled then, once per process, is not measured."""
    from kvec.decide.stream import Stream

    model = untrained(pool, settings)
    stream, source = Stream(model), pool.items()
    stream.feed_many(islice(source, 64))
    stream.feed(next(source))
    return model


# -- clocks and memory --------------------------------------------------------------------------------------------


def matmul_rate() -> float:
    """Single-precision matrix products of this machine and thread, in GFLOP per CPU second."""
    a = np.random.default_rng(0).random((1024, 1024), np.float32)
    seconds = []
    for _ in range(5):
        start = time.thread_time()
        a @ a
        seconds.append(time.thread_time() - start)
    return round(2 * 1024**3 / statistics.median(seconds) / 1e9, 1)


def resident() -> float:
    """Memory of this process that lies in RAM, in MB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS in /proc/self/status")


def percentiles(nanoseconds: Any) -> dict[str, float]:
    """Percentiles of latencies in µs."""
    found = np.percentile(np.asarray(nanoseconds), [50, 90, 99, 99.9, 100]) / 1000
    return dict(zip(("p50", "p90", "p99", "p99.9", "max"), np.round(found, 1).tolist(), strict=True))


def chunks(items: Iterator[Item], size: int, n: int) -> Iterator[list[Item]]:
    """So many items, in lists of `size`."""
    for start in range(0, n, size):
        yield list(islice(items, min(size, n - start)))


def progress(text: str) -> None:
    """A line about a long run."""
    print(text, file=sys.stderr, flush=True)


# -- command line -------------------------------------------------------------------------------------------------


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options that all scripts have."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("data", nargs="?", help="a table of items; without one, made traffic")
    made.add_argument("--schema", help="its schema, such as examples/schemas/traffic_fg.toml")
    made.add_argument("--tangles", type=int, default=2000, help="different tangles to take from it (default: 2000)")
    made.add_argument("-o", "--out", help="folder for the result (default: beside this script)")
    return made


def finish(given: argparse.Namespace, name: str, result: dict[str, Any]) -> None:
    """Print a result and write it beside its script, with the command that made it."""
    text = json.dumps(origin(given.data, "-o", "--out", "--note") | result, indent=1)
    print(text)
    folder = Path(given.out) if given.out else Path(sys.argv[0]).parent
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def origin(data: str | None, *places: str) -> dict[str, Any]:
    """The command that makes a result, without the options that say where it goes, and the machine."""
    words = [Path(word).name if word == data else word for word in sys.argv[1:]]
    for at in reversed([i for i, word in enumerate(words) if word in places]):
        del words[at : at + 2]
    return {
        "command": " ".join(
            ["python", f"benchmarks/{Path(sys.argv[0]).resolve().parent.name}/{Path(sys.argv[0]).name}", *words]
        ),
        "kvec": kvec.__version__,
        "machine": f"{platform.machine()}, 1 thread, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        "matmul_gflops": matmul_rate(),
    }
