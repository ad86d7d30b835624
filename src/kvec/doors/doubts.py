"""What makes a result doubtful: values the model has never seen, data that training, tuning or its promise has used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.decide.checkpoint import Trained
from kvec.decide.spent import gave
from kvec.report.text import percent
from kvec.tangle.seen import seen_again, seen_marks
from kvec.tangle.tangles import Tangles
from kvec.tangle.tangling import Split
from kvec.tangle.vocabulary import UNKNOWN, FieldVocabulary
from kvec.words.errors import DataError, KvecError

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


def unlike_streams(model: Trained, is_retangled: bool) -> list[str]:
    """A sentence where the tangles that were measured are made ones, which a stream of the same items does not have."""
    tangling = model.schema.tangling
    if tangling is None or not is_retangled:
        return []
    what = "groups" if tangling.of == "group" else "sequences"
    return [
        f"measured with {tangling.number} {what} side by side at random, as in training; --as-it-is measures items as "
        "they come, as kvec stream and kvec watch meet them"
    ]


def flattering(frame: pl.DataFrame, model: Trained, data: object, part: str | None = None) -> list[str]:
    """A warning where figures on a frame flatter a model: training, validation, tuning or its promise has used it.

    Of the test part only the last two can have used anything; who asks for another part by name knows what it is.
    """
    if part is None and (share := _training_share(frame, model)):
        return [
            f"warning: {data} holds what this model was trained with, {percent(share)} of it for training, so these "
            "figures flatter the model; measure the part it has not seen with --split test"
        ]
    if part in ("train", "validation"):
        return []
    if (again := _used(frame, model, model.tuned if part else used(model))).height:
        n = frame.select(pl.struct("tangle", "key").n_unique()).item()
        by = "tuning" if part else "training, validation or tuning"
        what = f"{again.height:,} of {n:,} sequences were used in {by}"
    elif made := _promised_by(frame, model):
        what = f"{data} holds sequences that gave the promise of {made}, and with it the operating point"
    else:
        return []
    return [f"warning: {what}, so these figures flatter the model; measure on others"]


def require_unused(
    frame: pl.DataFrame, model: Trained, marks: npt.NDArray[np.uint64], data: Path, part: str | None, so: str
) -> None:  # fmt: skip
    """Refuse sequences that have these marks; `so` says by what they were used, and what follows."""
    again = _used(frame, model, marks)
    if again.height:
        tangle, key = again.row(0)
        holds_all = part is None and _training_share(frame, model)
        way_out = "use the part that was held out: --split test" if holds_all else "leave them out"
        raise DataError(
            f"{data}: {again.height:,} sequences, such as key {key!r} of tangle {tangle!r}, were used in {so}; "
            f"{way_out}"
        )


def used(model: Trained) -> npt.NDArray[np.uint64]:
    """Marks of all sequences that the model knows to have been used for it."""
    return model.tuned if model.seen is None else np.union1d(model.seen, model.tuned)


def _used(frame: pl.DataFrame, model: Trained, marks: npt.NDArray[np.uint64]) -> pl.DataFrame:
    is_apart = model.schema.tangling is None and frame["tangle"].n_unique() > 1
    return seen_again(frame, marks, by_tangle=is_apart)


def _promised_by(frame: pl.DataFrame, model: Trained) -> str:
    """When a part of these sequences gave the promise that chose the operating point; empty where they did not."""
    promise = model.promise
    if promise is None or promise.operating_point != model.operating_point.to_dict():
        return ""
    wish = {"kind": promise.kind, "alpha": promise.alpha, "confidence": promise.confidence, "bound": promise.bound}
    dated = [each for each in model.calibrated if each["made"] == promise.made]
    about = [each for each in dated if {**each["wish"], **wish} == each["wish"]]
    return promise.made if gave(about[-1:], seen_marks(frame)) is not None else ""


def _training_share(frame: pl.DataFrame, model: Trained) -> float:
    """How much of a frame was for training, where it is all the data that a model was trained with; else 0."""
    if model.split is None:
        return 0.0
    found = Split.from_dict(model.split)
    try:
        found.part(frame, "train")
    except KvecError:
        return 0.0
    return found.ratios[0] / sum(found.ratios)


def _known(field: FieldVocabulary) -> str:
    if not field.values:
        return "; it knows none"
    return f" (known are {', '.join(map(repr, field.values))})" if len(field.values) <= FEW else ""
