import pytest

from kvec.reproduce.curves import spread
from kvec.reproduce.verdicts import (
    FAILS,
    HOLDS,
    PARTLY,
    RULES,
    UNDECIDED,
    UNTESTED,
    joined,
    judge_gain,
    points_of,
)


@pytest.mark.parametrize(
    ("values", "size", "verdict"),
    [
        ([0.10, 0.11, 0.12], 0.2, HOLDS),
        ([0.10, 0.11, 0.12], 0.3, PARTLY),  # too small
        ([0.0, 0.15, 0.3], 0.2, PARTLY),  # touches zero
        ([0.2], 0.2, PARTLY),  # one seed
        ([0.01], 0.2, FAILS),
        ([0.001, 0.0011, 0.0012], 0.2, FAILS),  # off zero, but nothing
        ([-0.1, -0.11, -0.12], 0.2, FAILS),
        ([-0.1, 0.0, 0.12], 0.2, UNDECIDED),  # the interval holds a tenth
        ([0.006, 0.0061, 0.0062], None, HOLDS),
        ([0.004, 0.0041, 0.0042], None, FAILS),
    ],
)
def test_verdict_on_a_gain(values: list[float], size: float | None, verdict: str) -> None:
    assert judge_gain(spread(values), size)[0] == verdict


def test_parts_that_disagree_hold_partly_and_reasons_are_told_once() -> None:
    assert joined([("a", HOLDS, "x"), ("b", FAILS, "y")]) == (PARTLY, "a: x; b: y")
    assert joined([("a", HOLDS, "x"), ("b", HOLDS, "x")]) == (HOLDS, "a, b: x")
    assert joined([("a", FAILS, "x"), ("b", FAILS, "y")])[0] == FAILS


def test_a_claim_that_needs_all_of_its_parts_fails_with_one_of_them() -> None:
    assert joined([("a", HOLDS, "x"), ("b", FAILS, "y")], needs_all=True)[0] == FAILS
    assert joined([("a", HOLDS, "x"), ("b", PARTLY, "y")], needs_all=True)[0] == PARTLY
    assert joined([("a", HOLDS, "x"), ("b", UNTESTED, "y")], needs_all=True)[0] == PARTLY


@pytest.mark.parametrize(
    ("verdicts", "needs_all", "of_all"),
    [
        ((PARTLY, FAILS), False, FAILS),
        ((PARTLY, UNDECIDED), False, PARTLY),
        ((HOLDS, UNDECIDED), True, PARTLY),
        ((PARTLY, FAILS), True, FAILS),
        ((UNDECIDED, UNTESTED), False, UNDECIDED),
        ((FAILS, UNDECIDED), False, FAILS),
    ],
)
def test_a_part_that_holds_partly_does_not_outweigh_one_that_fails(
    verdicts: tuple[str, str], needs_all: bool, of_all: str
) -> None:
    parts = [(name, verdict, "") for name, verdict in zip("ab", verdicts, strict=True)]
    assert joined(parts, needs_all)[0] == of_all


def test_words() -> None:
    assert points_of(spread([0.1])) == "+10.0 points (1 seed)"
    assert all(rule.endswith(".") for rule in RULES)
