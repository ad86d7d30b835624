"""A promise on labelled data at hand: what is lost there, by its own measure."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.made_promise import CLASSES, promise

from kvec.decide.guarantee import Calibration
from kvec.decide.promise import ClassPromise
from kvec.decide.promise_here import PromiseHere, promise_here

NAMES = CLASSES


def found(*sequences: tuple[int, bool, bool, bool]) -> Calibration:
    """Sequences as (true class, halted before the end, right, right at the end)."""
    truth, early, right, end = (np.array(each) for each in zip(*sequences, strict=True))
    stops = np.where(early, 3, 10)[None]
    length, unit = np.full(len(truth), 10), np.zeros(len(truth), np.int64)
    return Calibration([{"threshold": 0.5}], stops, right[None], length, end, truth, unit)


EACH = found(
    (0, True, True, True), (0, True, False, True), (1, True, False, False), (1, False, False, False),
    (2, False, True, True), (2, True, True, True), (-1, True, False, False), (-1, False, False, False),
)  # fmt: skip


def classes(*kept: int) -> tuple[ClassPromise, ...]:
    return tuple(ClassPromise(name, i in kept, "", 9, 9, 9, 0.0, 0.1) for i, name in enumerate(NAMES))


@pytest.mark.parametrize(("kind", "n_lost"), [("error", 5), ("early error", 1)])
def test_each_kind_counts_what_it_promises_of(kind: str, n_lost: int) -> None:
    here = promise_here(promise(kind=kind), EACH, NAMES)
    assert (here.lost, here.n_sequences) == (n_lost / 8, 8), "those of classes that the model does not know, too"
    assert here.line() == f"on this data: {100 * n_lost / 8:.3g}% of 8 sequences, more than promised"
    assert here.to_dict() == {"lost": n_lost / 8, "n_keys": 8, "is_within": False}


def test_what_is_just_as_much_as_promised_is_within() -> None:
    here = promise_here(promise(kind="early error", alpha=0.125), EACH, NAMES)
    assert here.is_within and here.line() == "on this data: 12.5% of 8 sequences, within the promise"


def test_classes_are_counted_each_by_itself() -> None:
    here = promise_here(promise(alpha=0.2, classes=classes(0, 1, 2)), EACH, NAMES)
    assert here.classes == {"a": (0.5, 2), "b": (1.0, 2), "c": (0.0, 2)}
    assert here.line() == (
        "on this data: 50% of 6 sequences of these classes; more than promised of 'a' (50% of 2), 'b' (100% of 2)"
    )
    assert here.to_dict() == {
        "lost": 0.5, "n_keys": 6, "is_within": False,
        "classes": {"a": {"lost": 0.5, "n_keys": 2}, "b": {"lost": 1.0, "n_keys": 2}, "c": {"lost": 0.0, "n_keys": 2}},
    }  # fmt: skip


def test_of_a_class_without_a_promise_nothing_is_counted() -> None:
    here = promise_here(promise(alpha=0.2, classes=classes(2)), EACH, NAMES)
    assert here.line() == "on this data: 0% of 2 sequences of these classes, each within the promise"
    some = found((0, True, False, True), (2, True, True, True))
    assert promise_here(promise(classes=classes(1, 2)), some, NAMES).line() == (
        "on this data: 0% of 1 sequence of these classes, each within the promise; there are none of 'b'"
    )
    none = promise_here(promise(classes=classes(1)), some, NAMES)
    assert none.line() == "on this data: no sequence of these classes"
    assert none.to_dict() == {"lost": None, "n_keys": 0, "is_within": True, "classes": {}}


def test_many_classes_are_not_all_named() -> None:
    many = PromiseHere(0.1, 1.0, 50, {str(i): (1.0, 10) for i in range(5)}, ())
    assert many.line().endswith("of '0' (100% of 10), '1' (100% of 10), '2' (100% of 10) and 2 more")
