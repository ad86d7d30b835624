"""What the network saw of one sequence: halting score and class probabilities per item, and where it looked."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import torch

from kvec.decide.model import Network, State, lists_of, to_device
from kvec.tangle.batch import Batch, Block
from kvec.tangle.tangles import Tangles, describe_items
from kvec.tangle.visibility import Rule
from kvec.words.errors import KvecError
from kvec.words.explanation import Look, Step


def find_sequence(tangles: Tangles, key: Any, tangle: Any, sequence: int) -> int:
    """The index of a key's sequence; names may be given as text."""
    names = tangles.names().with_row_index("index").with_columns(number=pl.Series(tangles.sequences.number))
    found = names.filter(pl.col("key").cast(pl.String) == str(key))
    if not found.height:
        some = ", ".join(str(k) for k in names["key"].head(5))
        raise KvecError(f"there is no key {str(key)!r} in this data; its first keys are {some}")
    its = found["tangle"].unique(maintain_order=True)
    several = ", ".join(str(t) for t in its.head(5)) + (" and others" if len(its) > 5 else "")
    if tangle is not None:
        found = found.filter(pl.col("tangle").cast(pl.String) == str(tangle))
        if not found.height:
            where = f"tangle{'s' * (len(its) > 1)} {several}"
            raise KvecError(f"key {key} is not in tangle {tangle}, but in {where}")
    elif len(its) > 1:
        raise KvecError(f"key {key} is in {len(its)} tangles ({several}); say which with tangle")
    found = found.filter(pl.col("number") == sequence)
    if not found.height:
        where = f" in tangle {tangle}" if tangle is not None else ""
        raise KvecError(f"key {key}{where} has no sequence number {sequence}")
    return int(found["index"][0])


@torch.no_grad()
def explain_sequence(
    network: Network, tangles: Tangles, rule: Rule, sequence: int, block: int = 4096, most: int = 24
) -> tuple[Step, ...]:
    """One step per item, with its `most` heaviest looks; attention is the mean over heads and blocks."""
    tangle = int(tangles.tangle_of[sequence])
    batch = Batch.of(tangles, np.array([tangle]))
    state = network.new_state(len(batch.sequences))
    keep = rule.window - 1 if tangles.sizes[tangle] > block else None
    own = tangles.sequences.by_sequence[tangles.offsets[sequence] : tangles.offsets[sequence + 1]]
    steps: list[Step] = []
    first = int(tangles.starts[tangle])
    for part in batch.blocks(rule, block, network.settings.slots):
        part = to_device(part, network.policy.weight.device)
        shares = _shares(network, part, state)  # (T, C + T)
        outputs = network(part, state, keep)
        halt, classes = outputs.halt.sigmoid(), outputs.classes[0].softmax(dim=-1)
        where = {int(item): row for row, item in enumerate(part.items)}
        origin = first - part.n_context
        mine = [int(item) for item in own if int(item) in where]
        texts = describe_items(tangles, mine)
        for item, text in zip(mine, texts, strict=True):
            row = where[item]
            looks = _looks(tangles, shares[item - first].cpu().numpy(), origin, sequence, most)
            probabilities = tuple(float(p) for p in classes[row])
            steps.append(Step(item - int(tangles.starts[tangle]), text, float(halt[row]), probabilities, looks))
        first += shares.shape[0]
    return tuple(steps)


def _shares(network: Network, part: Block, state: State) -> torch.Tensor:
    x = network.embedding(part.codes, part.numbers, part.slot, part.position, part.arrival, part.gaps)
    visible = lists_of(part)
    total: torch.Tensor = x.new_zeros(x.shape[1], visible.n_keys)
    for i, layer in enumerate(network.layers()):
        before = state.caches[i]
        context = before.last(part.n_context) if before else None
        total += layer.attention.weights(layer.norm1(x), visible, context)[0]
        x, _ = layer(x, visible, context)
    return total / len(network.blocks)


def _looks(tangles: Tangles, shares: np.ndarray, origin: int, sequence: int, most: int) -> tuple[Look, ...]:
    heaviest = [int(j) for j in np.argsort(-shares, kind="stable")[:most] if shares[j] > 0]
    items = [origin + j for j in heaviest]
    start = int(tangles.starts[tangles.tangle_of[sequence]])
    keys = tangles.frame["key"]
    return tuple(
        Look(
            item - start, str(keys[item]), text, int(tangles.sequences.position[item]), float(shares[j]),
            bool(tangles.sequences.sequence[item] == sequence),
        )
        for j, item, text in zip(heaviest, items, describe_items(tangles, items), strict=True)
    )  # fmt: skip
