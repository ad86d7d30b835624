"""Small tangles for laws to be tried on, and small networks in float64 to run over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from hypothesis import strategies as st
from tests.paper.slow import SlowItem, slow_bin
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from kvec.decide.model import Network, Outputs, build_network, in_batch_order, run_blocks
from kvec.encode import loops
from kvec.tangle.batch import Batch, Draw
from kvec.tangle.relations import RELATIONS
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.visibility import Rule
from kvec.tangle.vocabulary import FieldVocabulary, Vocabulary
from kvec.words.config import Encoder, Visibility
from kvec.words.schema import Field, Schema

EDGES = (0.5, 1.5)
SIZE_EDGES = (1.0, 2.5)  # a categorical field of whole numbers may be told by quantile too
VOCABULARY = Vocabulary(
    fields=(
        FieldVocabulary(
            "size", "categorical", values=(0, 1, 2), edges=SIZE_EDGES
        ),  # items hold 3 and 4 too: never seen
        FieldVocabulary("direction", "categorical", values=("in", "out")),
        FieldVocabulary("load", "binned", edges=EDGES),
        FieldVocabulary("heat", "projected", mean=0.5, scale=2.0),
    ),
    labels=(("a", "b", "c"), ("no", "yes")),
    label_names=("kind", "side"),
)
SCHEMA = Schema(
    values=(
        Field("size", kind="categorical"),
        Field("direction", kind="categorical"),
        Field("load", kind="binned"),
        Field("heat", kind="projected"),
    ),
    labels=("kind", "side"),
    tangle="tangle",
    session=("direction",),
    match=("size", "direction"),
)
SMALL = Encoder(
    width=8, blocks=2, heads=2, feed_forward=12, fusion=8, dropout=0.0, hide=0.0, slots=3, positions=4, time="auto",
    time_modulus=5, use_membership=True,
)  # fmt: skip
TYPES = {
    "tangle": pl.String, "key": pl.Int64, "time": pl.Float64, "end": pl.Boolean, "value.size": pl.Int64,
    "value.direction": pl.String, "value.load": pl.Float64, "value.heat": pl.Float64, "label.kind": pl.String,
    "label.side": pl.String,
}  # fmt: skip

_CLOSE = 1e-12


@dataclass(frozen=True)
class Arrival:
    """One drawn item before it is a row."""

    key: int
    size: int | None
    direction: str | None
    load: float | None
    heat: float | None
    gap: float
    is_end: bool


ARRIVALS = st.builds(
    Arrival,
    key=st.integers(0, 3),
    size=st.sampled_from([0, 0, 1, 1, 2, 3, 4, None]),
    direction=st.sampled_from(["in", "out", "out", "both", None]),
    load=st.sampled_from([0.0, 0.5, 1.0, 7.0, None]),
    heat=st.sampled_from([-1.0, 0.25, 3.0, None]),
    gap=st.sampled_from([0.0, 2.0**-23, 0.5, 1.0, 2.5]),
    is_end=st.sampled_from([False, False, False, True]),
)


def _busy(n: int, n_keys: int, n_sizes: int, ends: float, seed: int) -> list[Arrival]:
    """Many items of few values: most of them match, and sessions run on through one another."""
    rng = np.random.default_rng(seed)
    return [
        Arrival(
            key=int(rng.integers(n_keys)),
            size=None if rng.random() < 0.05 else int(rng.integers(n_sizes)),
            direction=("in", "out", "both", None)[int(rng.choice(4, p=[0.6, 0.3, 0.07, 0.03]))],
            load=(0.0, 0.5, 1.0, None)[int(rng.choice(4, p=[0.4, 0.4, 0.15, 0.05]))],
            heat=float(rng.integers(-1, 3)),
            gap=(0.0, 2.0**-23, 0.5, 1.0)[int(rng.integers(4))],
            is_end=bool(rng.random() < ends),
        )
        for _ in range(n)
    ]


def tangled(max_items: int = 24, min_items: int = 1) -> st.SearchStrategy[list[Arrival]]:
    """The items of one tangle: any few, or many that have much to do with one another."""
    few = st.lists(ARRIVALS, min_size=min_items, max_size=max_items)
    if max_items < 10:
        return few
    return few | st.builds(
        _busy,
        n=st.integers(max_items // 2, max_items),
        n_keys=st.integers(1, 4),
        n_sizes=st.integers(1, 5),
        ends=st.sampled_from([0.0, 0.0, 0.1]),
        seed=st.integers(0, 2**20),
    )


def frame_of(*tangles: list[Arrival], offset: int = 0) -> pl.DataFrame:
    """The canonical frame of these tangles; a label is a function of tangle and key, some are missing."""
    rows: list[tuple[Any, ...]] = []
    for number, arrivals in enumerate(tangles, start=offset):
        time = 10.0 * number
        for a in arrivals:
            time += a.gap
            kind = [None, "a", "b", "c", "never trained on"][(number + a.key) % 5]
            side = ["no", "yes", None][(number + 2 * a.key) % 3]
            rows.append((f"tangle {number}", a.key, time, a.is_end, a.size, a.direction, a.load, a.heat, kind, side))
    return pl.DataFrame(rows, schema=TYPES, orient="row")


def encode(frame: pl.DataFrame, **schema: Any) -> Tangles:
    """The frame as arrays, by the schema of these tests with the given changes."""
    return encode_tangles(frame, SCHEMA.changed(**schema), VOCABULARY)


def slow_items(arrivals: list[Arrival], match: tuple[str, ...], session: tuple[str, ...]) -> list[SlowItem]:
    """The same items as the definitions speak of them; a binned number is the bin it falls into."""
    items, time = [], 0.0
    for a in arrivals:
        time += a.gap
        plain = {
            "size": a.size,
            "direction": a.direction,
            "load": None if a.load is None else slow_bin(a.load, EDGES),
        }
        value = tuple(plain[name] for name in match if name in plain)
        items.append(SlowItem(a.key, value, tuple(plain[name] for name in session), time, a.is_end))
    return items


VISIBILITIES = st.builds(
    Visibility,
    rule=st.sampled_from(["paper", "paper", "typed", "window"]),
    window=st.sampled_from([1, 2, 3, 5, 8, 16, 100]),
    own=st.sampled_from([0, 1, 2, 100]),
    others=st.sampled_from([1, 2, 3, 8, 100, 0]),
    recent=st.sampled_from([3, 0, 1, 8, 100]),
    use_key_correlation=st.sampled_from([True, True, True, False]),
    use_value_correlation=st.sampled_from([True, True, True, True, False]),
)


def small_network(settings: Encoder = SMALL, has_time: bool = True, seed: int = 0, is_typed: bool = True) -> Network:
    """A network whose every number is random and large enough to matter, in float64, in eval()."""
    generator = torch.Generator().manual_seed(seed)
    network = build_network(VOCABULARY, settings, has_time, n_relations=len(RELATIONS) * is_typed).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.6)
    return network


def outputs_of(
    network: Network, tangles: Tangles, rule: Rule, block: int = 10_000, members: list[int] | None = None,
    draw: Draw | None = None,
) -> Outputs:  # fmt: skip
    """What the network says of whole tangles run side by side, sequence by sequence."""
    batch = Batch.of(tangles, np.arange(tangles.n_tangles) if members is None else np.array(members, np.int64))
    parts = list(run_blocks(network, batch, rule, block, draw))
    order = in_batch_order([part.items for part, _ in parts], batch)
    return Outputs.joined([outputs for _, outputs in parts]).taken(order)


def by_item(
    network: Network, tangles: Tangles, rule: Rule, block: int = 10_000, members: list[int] | None = None
) -> Tensor:
    """All that the heads say after each item, in the order of the table; NaN for tangles that are no members."""
    with torch.no_grad():
        outputs = outputs_of(network, tangles, rule, block, members)
    columns = torch.cat([t[:, None] if t.dim() == 1 else t for t in outputs.tensors()], dim=1)
    batch = Batch.of(tangles, np.arange(tangles.n_tangles) if members is None else np.array(members, np.int64))
    result = torch.full((tangles.n_items, columns.shape[1]), torch.nan, dtype=columns.dtype)
    result[torch.from_numpy(batch.items)] = columns
    return result


def assert_same(actual: Tensor, expected: Tensor, tolerance: float = _CLOSE) -> None:
    """Equal but for rounding in float64; NaN only where both have it."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance * 10, equal_nan=True)


@contextmanager
def dense_attention() -> Iterator[None]:
    """Attend through dense masks and fuse by nn.LSTM, as where the C extension is missing."""
    was_built, loops.is_built = loops.is_built, False
    try:
        yield
    finally:
        loops.is_built = was_built


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation makes, forwards or backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for made in result if isinstance(result, tuple | list) else (result,):
            if isinstance(made, Tensor):
                self.size = max(self.size, made.numel())
        return result
