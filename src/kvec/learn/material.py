"""What a model is trained on, encoded: the tangles of both parts, and the vocabulary that the training part has."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kvec.learn.resuming import fingerprint
from kvec.learn.supply import Supply, count_classes
from kvec.learn.validating import Validation
from kvec.tangle.batch import Ints
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.tangling import Split
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.errors import DataError
from kvec.words.schema import Schema


@dataclass(frozen=True)
class Material:
    """All that is learned comes from `training`, all that is chosen from `validation`."""

    training: Tangles | Supply
    validation: Validation
    vocabulary: Vocabulary
    has_time: bool
    about: dict[str, int]  # how many tangles, sequences and items each part has
    data: str  # a name for all that is read
    split: Split | None  # by which the parts are found again


def material_of(training: pl.DataFrame, validation: pl.DataFrame, schema: Schema, split: Split | None) -> Material:
    """Arranged items as what to train on."""
    vocabulary = Vocabulary.fit(training, schema)
    learned, validated = (encode_tangles(frame, schema, vocabulary) for frame in (training, validation))
    require_known_classes(count_classes(validated, tuple(len(names) for names in vocabulary.labels)), schema)
    parts = {"train": learned, "validation": validated}
    about = {f"{name}_{what}": n for name, part in parts.items() for what, n in counts_of(part).items()}
    data = fingerprint(vocabulary, learned, validated)
    return Material(learned, validated, vocabulary, learned.time is not None, about, data, split)


def counts_of(part: Tangles) -> dict[str, int]:
    """Counts, by what is counted."""
    return {"tangles": part.n_tangles, "sequences": part.n_sequences, "items": part.n_items}


def require_known_classes(counts: list[Ints], schema: Schema) -> None:
    """Refuse validation sequences none of which has a class to tell."""
    for name, known in zip(schema.label_names, counts, strict=True):
        if not known.sum():
            raise DataError(
                f"label column {name!r}: no validation sequence has a class that the training data has; "
                "give other validation data"
            )
