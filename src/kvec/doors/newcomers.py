"""Labelled sequences of classes that are all new to the model: nothing can be compared, but they may be unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvec.decide.scores import Scores
from kvec.doors.measuring import left_out, named
from kvec.estimator import KVEC
from kvec.report.text import percent
from kvec.tangle.tangles import Tangles
from kvec.words.errors import DataError


def only_new(model: KVEC, tangles: Tangles) -> dict[str, int]:
    """The classes with their numbers of sequences, where the model knows none of them; else nothing."""
    is_known = tangles.labels[:, 0] >= 0
    return {} if is_known.any() else left_out(tangles, model.model_.vocabulary.label_names[0], is_known)[1]


def require_known_class(model: KVEC, tangles: Tangles, data: Path, so: str) -> None:
    """Refuse data of new classes alone; `so` says what follows."""
    if new := only_new(model, tangles):
        raise DataError(
            f"{data}: the model knows none of the classes in it ({named(list(new))}), so {so}; "
            f"it knows {named(model.classes_.tolist())}"
        )


def new_alone(model: KVEC, tangles: Tangles, scores: Scores, new: dict[str, int]) -> dict[str, Any]:
    """What can be measured of them, under the names of an evaluation."""
    known = model.is_known(tangles, scores)
    is_new = tangles.frame[f"label.{model.model_.vocabulary.label_names[0]}"][tangles.sequences.first].is_not_null()
    n_unknown = 0 if known is None else int((~known[is_new.to_numpy()]).sum())
    return {
        "label": model.model_.vocabulary.label_names[0], "n_keys": 0, "n_new_labels": sum(new.values()),
        "new_classes": new, "n_new_unknown": n_unknown,
    }  # fmt: skip


def new_alone_text(found: dict[str, Any]) -> str:
    """The same in a sentence."""
    n, new = found["n_new_labels"], found["new_classes"]
    return (
        f"all labelled sequences are of classes new to the model ({named(list(new))}), so there is no accuracy\n"
        f"unknown: {percent(found['n_new_unknown'] / n)} of the {n:,} sequence{'s' * (n != 1)}"
    )
