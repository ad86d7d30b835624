"""What makes a result doubtful: values the model has never seen, data it was trained on."""

from __future__ import annotations

from typing import Any

import polars as pl

from kvec.decide.checkpoint import Trained
from kvec.report.text import percent
from kvec.tangle.tangles import Tangles
from kvec.tangle.tangling import Split
from kvec.tangle.vocabulary import UNKNOWN, FieldVocabulary
from kvec.words.errors import KvecError

MUCH = 0.2  # of a column's values unknown, and it is a warning
FEW = 12  # known values are listed, where there are no more


def unknown_values(tangles: Tangles, model: Trained) -> list[str]:
    """One sentence for each column with values that the model does not know; a warning where they are many."""
    sources = {field.name: field.source for field in model.schema.values}
    said = []
    for field in model.vocabulary.coded:
        is_unknown = tangles.codes[:, model.vocabulary.first_code(field.name)] == UNKNOWN
        if not (count := int(is_unknown.sum())):
            continue
        share = count / len(is_unknown)
        example = tangles.frame[f"value.{field.name}"][int(is_unknown.argmax())]
        text = (
            f"column {sources[field.name]!r}: {count:,} of {len(is_unknown):,} items ({percent(share)}) have a value "
            f"that training saw never or once, such as {example!r}"
        )
        if share >= MUCH:
            text = f"warning: {text}{_known(field)}; what is decided from them is worth little"
        said.append(text)
    return said


def training_data(frame: pl.DataFrame, split: dict[str, Any] | None, data: object) -> list[str]:
    """A sentence where a frame is all the data that a model was trained on."""
    if split is None:
        return []
    found = Split.from_dict(split)
    try:
        found.part(frame, "train")
    except KvecError:
        return []
    share = percent(found.ratios[0] / sum(found.ratios))
    return [
        f"warning: {data} holds what this model was trained with, {share} of it for training, so these figures flatter "
        "the model; measure the part it has not seen with --split test"
    ]


def _known(field: FieldVocabulary) -> str:
    if not field.values:
        return "; it knows none"
    return f" (known are {', '.join(map(repr, field.values))})" if len(field.values) <= FEW else ""
