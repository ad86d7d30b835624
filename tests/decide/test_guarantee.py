"""Promises: the earliest point that passes, each class by itself, and refusals that say what would help."""

from __future__ import annotations

import numpy as np
import pytest

from kvec.decide.guarantee import Calibration, Wish, guarantee
from kvec.words.errors import DataError, SettingError

LENGTH = 10


def calibration(
    n: int = 300, keys: int = 4, end_error: float = 0.0, early_error: float = 0.2, block: float | None = None
) -> Calibration:  # fmt: skip
    """Points at which sequences stop after 10, 9, … 1 items; the earlier, the more are wrong only because of that."""
    rng = np.random.default_rng(0)
    luck = rng.random(n * keys)
    is_right_at_end = rng.random(n * keys) >= end_error
    stops = np.arange(LENGTH, 0, -1)[:, None] * np.ones(n * keys, np.int64)
    is_right = is_right_at_end & (luck >= early_error * (LENGTH - stops) / LENGTH)
    truth = rng.integers(0, 2, n * keys)
    return Calibration(
        [{"threshold": 1 - p / 10} for p in range(LENGTH)], stops, is_right, np.full(n * keys, LENGTH), is_right_at_end,
        truth, np.repeat(np.arange(n), keys), block,
    )  # fmt: skip


def test_the_earliest_point_that_passes() -> None:
    made = guarantee(calibration(), Wish("early error", 0.1), 4)
    assert made.operating_point["threshold"] == pytest.approx(1 - (made.n_passed - 1) / 10)
    assert 0.05 < made.observed < made.upper <= 0.1
    assert (made.n_units, made.n_sequences, made.n_points, made.delta) == (300, 1200, 10, pytest.approx(0.05))
    assert made.earliness == pytest.approx((LENGTH - made.n_passed + 1) / LENGTH)
    assert "come from the same distribution" in made.assumption and "more than 4" in made.assumption
    stricter = guarantee(calibration(), Wish("early error", 0.1, 0.999999), 4)
    assert stricter.n_passed < made.n_passed
    assert guarantee(calibration(early_error=0), Wish("early error", 0.1), 4).n_passed == LENGTH


def test_errors_at_the_end_count_only_where_all_errors_do() -> None:
    both = calibration(end_error=0.05)
    early, error = (guarantee(both, Wish(kind, 0.12), 4) for kind in ("early error", "error"))
    assert early.n_passed > error.n_passed
    assert error.observed > 0.05
    with pytest.raises(DataError, match=r"sequence 31\.8% .* with other data of this kind perhaps 3\d\.\d% can be"):
        guarantee(calibration(end_error=0.3), Wish("error", 0.12), 4)
    with pytest.raises(DataError, match=r"sequence 100% .* too many to promise 12%; that needs a better model$"):
        guarantee(calibration(end_error=1.0), Wish("error", 0.12), 4)


def test_more_keys_than_were_fixed_beforehand() -> None:
    with pytest.raises(DataError, match="a unit holds more of them than 3, the number fixed beforehand; give the most"):
        guarantee(calibration(), Wish("error", 0.1), 3)


def test_too_few_units_are_refused_with_the_number_needed() -> None:
    with pytest.raises(
        DataError, match="too few tangles to calibrate on, 28: even without any loss at least 29 are needed for 10%"
    ):
        guarantee(calibration(28), Wish("error", 0.1), 4)
    assert guarantee(calibration(29, early_error=0), Wish("error", 0.1), 4).n_passed == LENGTH
    with pytest.raises(
        DataError, match=r"too few tangles to calibrate on, 1: .*needs --block SECONDS, and then bring 29"
    ):
        guarantee(calibration(1), Wish("error", 0.1), 4)
    with pytest.raises(DataError, match="too few blocks of 60 s to calibrate on, 3"):
        guarantee(calibration(3, block=60.0), Wish("error", 0.1), 4)


def test_blocks_of_time_are_an_assumption() -> None:
    made = guarantee(calibration(block=60.0), Wish("early error", 0.1), 4)
    assert made.block == 60
    assert made.assumption.startswith("new blocks of 60 s, by the first item of each sequence, taken to be independent")
    assert made.assumption.count("independent") == 1
    assert "from 300 blocks of 60 s" in made.line()


def test_each_class_by_itself() -> None:
    made = calibration(end_error=0)
    wrong = made.truth == 1
    made.is_right[:, wrong] = False  # nothing of the second class is right, not even at the end
    made.is_right_at_end[wrong] = False
    classes = {"a": 4, "b": 4, "c": 4}
    promise = guarantee(made, Wish("error", 0.12, per_class=True), 4, "label", classes)
    a, b, c = promise.classes
    assert (a.is_promised, b.is_promised, c.is_promised) == (True, False, False)
    assert b.why_not == "100% are wrong even at their end" and c.why_not == "there are none"
    assert a.observed < a.upper == promise.upper <= 0.12
    assert "of sequences of class 'a' are wrong" in promise.line()
    assert promise.line().endswith("; nothing is promised of 'b', 'c'")
    assert promise.observed == a.observed and promise.n_observed == a.n_sequences == int((~wrong).sum())
    assert promise.n_sequences == 1200, "of all"
    assert b.observed == 1
    alone = guarantee(made, Wish("error", 0.12, per_class=True), 4, "label", {"a": 4})
    assert alone.n_passed >= promise.n_passed, "δ is shared among the classes"
    assert "more than 4 labelled sequences; items" in promise.assumption, "none of a class is more than all"


def test_the_most_of_each_class_are_assumed() -> None:
    made = calibration(keys=2)
    classes = {"a": 2, "b": 3, "c": 4, "d": 2}
    promise = guarantee(made, Wish("error", 0.12, per_class=True), 4, "label", classes)
    assert [each.is_promised for each in promise.classes] == [True, True, False, False]
    assert "of sequences of each of the classes 'a', 'b' are wrong" in promise.line()
    a, b = promise.classes[:2]
    assert promise.observed == pytest.approx((a.observed * a.n_sequences + b.observed * b.n_sequences) / 600)
    both = guarantee(made, Wish("error", 0.12, per_class=True), 4, "label", {"a": 2, "b": 3})
    assert "of sequences of each of 2 classes are wrong" in both.line() and "nothing" not in both.line()
    assert "4 labelled sequences, nor more than 2 of class 'a', 3 of class 'b'; items" in promise.assumption


def test_a_class_of_few_units_is_named() -> None:
    made = calibration()
    made.truth[:] = 0
    made.truth[:40] = 1  # ten tangles
    promise = guarantee(made, Wish("early error", 0.1, per_class=True), 4, "label", {"a": 4, "b": 4})
    assert promise.classes[1].why_not == "10 tangles hold it, and at least 36 are needed"
    with pytest.raises(
        DataError, match=r"of any class; 'a': 3 tangles hold it, .* bring more tangles that hold it, or"
    ):
        guarantee(calibration(3), Wish("error", 0.1, per_class=True), 4, "label", {"a": 4, "b": 4})
    with pytest.raises(
        DataError, match=r"nothing can be promised of any class; 'a': a unit holds .* this calibration$"
    ):
        guarantee(calibration(), Wish("error", 0.1, per_class=True), 4, "label", {"a": 1, "b": 1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "late error", "alpha": 0.1}, "'late error'; it can be early error, error"),
        ({"kind": "error", "alpha": 0.0}, "the largest error is 0; it must be a share between 0 and 1, as 0.02$"),
        ({"kind": "error", "alpha": 2.0}, r"the largest error is 2; .* between 0 and 1; did you mean 0\.02\?$"),
        ({"kind": "error", "alpha": 0.1, "confidence": 95.0}, r"the confidence is 95; .*; did you mean 0\.95\?$"),
        ({"kind": "error", "alpha": 0.1, "confidence": 1.0}, r"the confidence is 1; .*, as 0\.95$"),
        ({"kind": "error", "alpha": 0.1, "bound": "hope"}, "the bound is 'hope'; it can be betting"),
    ],
)
def test_wishes_that_cannot_be(given: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Wish(**given)  # type: ignore[arg-type]


def test_the_exact_bound_takes_single_sequences_alone() -> None:
    single = calibration(keys=1)
    exact, bets = (guarantee(single, Wish("early error", 0.1, bound=bound), 1) for bound in ("binomial", "betting"))
    assert exact.n_passed >= bets.n_passed > 1
    for keys, classes in ((4, None), (1, {"a": 2})):
        with pytest.raises(SettingError, match="the binomial bound needs at most one sequence in a unit"):
            guarantee(single, Wish("early error", 0.1, bound="binomial"), keys, "label", classes)
