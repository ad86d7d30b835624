"""What the network saw of one sequence: halting score and class probabilities per item, and where it looked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from kvec.decide.looking import look_through
from kvec.decide.model import Network
from kvec.decide.readiness import Readiness
from kvec.decide.scores import Scores
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


def explain_sequence(
    network: Network, tangles: Tangles, rule: Rule, sequence: int, readiness: Readiness, block: int = 4096,
    most: int = 24, delay_cost: float | None = None,
) -> tuple[Step, ...]:  # fmt: skip
    """One step per item, with its `most` heaviest looks; attention is the mean over heads and blocks."""
    tangle = int(tangles.tangle_of[sequence])
    own = tangles.sequences.by_sequence[tangles.offsets[sequence] : tangles.offsets[sequence + 1]]
    steps: list[Step] = []
    said: list[tuple[float, np.ndarray]] = []
    for seen in look_through(network, tangles, rule, tangle, block):
        halt, classes = seen.outputs.halt.sigmoid(), seen.outputs.classes[0].softmax(dim=-1)
        where = {int(item): row for row, item in enumerate(seen.items)}
        mine = [int(item) for item in own if int(item) in where]
        for item, text in zip(mine, describe_items(tangles, mine), strict=True):
            row = where[item]
            shares, relation = seen.shares[item - seen.first].cpu().numpy(), seen.relation[item - seen.first]
            names = [rule.relations[code] for code in relation] if rule.relations else [""] * len(relation)
            looks = _looks(tangles, shares, names, seen.origin, sequence, most)
            said.append((float(halt[row]), classes[row].cpu().numpy()))
            steps.append(Step(item - int(tangles.starts[tangle]), text, 0.0, (), looks))
    halts, shares = (np.array([one[i] for one in said], np.float32) for i in (0, 1))
    heard = readiness.applied(Scores(np.array([0, len(said)]), halts, (shares,)), delay_cost)
    return tuple(
        replace(step, halt_score=float(h), probabilities=tuple(map(float, c)))
        for step, h, c in zip(steps, heard.halt, heard.classes[0], strict=True)
    )


def _looks(
    tangles: Tangles, shares: np.ndarray, relations: list[str], origin: int, sequence: int, most: int
) -> tuple[Look, ...]:
    heaviest = [int(j) for j in np.argsort(-shares, kind="stable")[:most] if shares[j] > 0]
    items = [origin + j for j in heaviest]
    start = int(tangles.starts[tangles.tangle_of[sequence]])
    keys = tangles.frame["key"]
    return tuple(
        Look(
            item - start, str(keys[item]), text, int(tangles.sequences.position[item]), float(shares[j]),
            bool(tangles.sequences.sequence[item] == sequence), relations[j],
        )
        for j, item, text in zip(heaviest, items, describe_items(tangles, items), strict=True)
    )  # fmt: skip
