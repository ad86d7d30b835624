"""The sequences that a model was not trained on, as arrays: what validation, tuning and promises are reckoned from.

Names: `offsets` (S + 1), `halt` (N), `classes.0`, `classes.1`, … (N, classes), `labels` (S, label columns; -1 unknown),
`tangle` (S, as given), and where there are any `knots` (N, P) and `elapsed` (N), seconds since the sequence began.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.scores import Scores
from kvec.decide.triggers.base import Prefixes
from kvec.tangle.tangles import Tangles

Arrays = dict[str, npt.NDArray[Any]]
PER_SEQUENCE = ("labels", "tangle")


def held_out(tangles: Tangles, scores: Scores) -> Arrays:
    """The arrays of some tangles and what the network says of them."""
    kept: Arrays = {
        "offsets": scores.offsets, "halt": scores.halt, "labels": tangles.labels,
        "tangle": tangles.given[tangles.tangle_of],
        **{f"classes.{i}": probabilities for i, probabilities in enumerate(scores.classes)},
    }  # fmt: skip
    if scores.knots is not None:
        kept["knots"] = scores.knots
    if tangles.time is not None:
        since = tangles.time - tangles.time[tangles.sequences.first][tangles.sequences.sequence]
        kept["elapsed"] = since[tangles.sequences.by_sequence].astype(np.float32)
    return kept


def scores_of(held: Arrays) -> Scores:
    """What the network says of them."""
    n = sum(name.startswith("classes.") for name in held)
    return Scores(held["offsets"], held["halt"], tuple(held[f"classes.{i}"] for i in range(n)), held.get("knots"))


def some_of(held: Arrays, chosen: npt.NDArray[np.bool_]) -> Arrays:
    """Some of the sequences."""
    lengths = np.diff(held["offsets"])
    items = np.repeat(chosen, lengths)
    kept = {
        name: array[chosen] if name in PER_SEQUENCE else array[items]
        for name, array in held.items()
        if name != "offsets"
    }
    return kept | {"offsets": np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64)}


def joined_arrays(parts: Sequence[Arrays]) -> Arrays:
    """Several parts' arrays as one, each part with tangles of its own."""
    tangles = np.cumsum([0, *(part["tangle"].max(initial=-1) + 1 for part in parts)])
    numbered = [part["tangle"] + first for part, first in zip(parts, tangles[:-1], strict=True)]
    lengths = np.concatenate([np.diff(part["offsets"]) for part in parts])
    joined = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name not in ("offsets", "tangle")
    }
    return joined | {
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "tangle": np.concatenate(numbered).astype(np.int32),
    }


def prefixes_of(held: Arrays, column: int = 0) -> Prefixes:
    """The class probabilities of the labelled sequences of a label column, as triggers read them."""
    known = some_of(held, held["labels"][:, column] >= 0)
    return Prefixes(known["offsets"], known[f"classes.{column}"], known["labels"][:, column].astype(np.int64))
