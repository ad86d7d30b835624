"""Labelled sequences of classes that are new to the model, or all of them, and classes of which there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvec.decide.scores import Scores
from kvec.doors.measuring import left_out, lost_here, named, told_of
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


def new_lines(model: KVEC, tangles: Tangles) -> list[str]:
    """A sentence for each label column with sequences of classes that the model does not know."""
    said = []
    for column, label in enumerate(model.model_.vocabulary.label_names):
        new = left_out(tangles, label, tangles.labels[:, column] >= 0)[1]
        if n := sum(new.values()):
            them = f"{n:,} sequence{'s' * (n != 1)}"
            said.append(f"left out: {them} of classes new to the model{_of(model, label)} ({named(list(new))})")
    return said


def missing_lines(model: KVEC, tangles: Tangles, data: Path) -> list[str]:
    """A warning for each label column of whose classes some have no sequence."""
    vocabulary, said = model.model_.vocabulary, []
    for column, (label, classes) in enumerate(zip(vocabulary.label_names, vocabulary.labels, strict=True)):
        there = set(tangles.labels[:, column].tolist())
        if missing := [name for number, name in enumerate(classes) if number not in there]:
            said.append(
                f"warning: {data} holds no sequence of {named(missing)}, {len(missing):,} of the {len(classes):,} "
                f"classes that the model knows{_of(model, label)}; what is fitted without them may be wrong about them"
            )
    return said


def _of(model: KVEC, label: str) -> str:
    """Which label column is meant, where there are several."""
    return f" in column {label!r}" if len(model.model_.vocabulary.label_names) > 1 else ""


def new_alone(
    model: KVEC, tangles: Tangles, scores: Scores, new: dict[str, int]
) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
    """What can be measured of them, under the names of an evaluation, and what is told of the model before it."""
    known = model.is_known(tangles, scores)
    is_new = tangles.frame[f"label.{model.model_.vocabulary.label_names[0]}"][tangles.sequences.first].is_not_null()
    n_unknown = 0 if known is None else int((~known[is_new.to_numpy()]).sum())
    here = lost_here(model, tangles, scores)
    found = {
        "label": model.model_.vocabulary.label_names[0], "n_keys": 0, "n_new_labels": sum(new.values()),
        "new_classes": new, "n_new_unknown": n_unknown, **({} if here is None else {"promise_here": here.to_dict()}),
    }  # fmt: skip
    return found, told_of(model, here)


def new_alone_text(found: dict[str, Any]) -> str:
    """The same in a sentence."""
    n, new = found["n_new_labels"], found["new_classes"]
    return (
        f"all labelled sequences are of classes new to the model ({named(list(new))}), so there is no accuracy\n"
        f"unknown: {percent(found['n_new_unknown'] / n)} of the {n:,} sequence{'s' * (n != 1)}"
    )
