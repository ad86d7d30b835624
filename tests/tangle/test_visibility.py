"""The rules of visibility on tangles that can be followed by eye, and what their lists cost."""

from __future__ import annotations

import numpy as np
import pytest
from tests.properties.strategies import Arrival, encode, frame_of

from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import PaperRule, TypedRule, WindowRule, make_rule
from kvec.words.config import Visibility


def tangle_of(*rows: tuple[int, int | None, str]) -> Tangles:
    """One tangle of (key, size, direction); size alone is matched, direction makes sessions."""
    return encode(
        frame_of([Arrival(key, size, direction, 0.0, 0.0, 1.0, False) for key, size, direction in rows]),
        match=("size",),
    )


def seen(tangles: Tangles, i: int, rule: str = "paper", **settings: object) -> list[int]:
    """What item i sees, in the order of the list."""
    shown = make_rule(Visibility(rule, **settings))  # type: ignore[arg-type]
    return shown.look(tangles, 0, i, i + 1).of(0).tolist()


A, B, C = 0, 1, 2
MIXED = [
    (B, 9, "in"),  # 0  first session of B
    (B, 1, "out"),  # 1  second session of B: holds a 1
    (C, 1, "in"),  # 2  C holds a 1
    (B, 5, "out"),  # 3  second session of B goes on
    (A, 3, "in"),  # 4
    (C, 2, "out"),  # 5  another session of C
    (A, 1, "in"),  # 6  sees 4 (own), C's 2, B's 1 and 3
]


def test_sessions_newest_match_first_inside_newest_first() -> None:
    assert seen(tangle_of(*MIXED), 6) == [6, 4, 2, 3, 1]


def test_limits_are_spent_in_that_order() -> None:
    tangles = tangle_of(*MIXED)
    assert seen(tangles, 6, others=2) == [6, 4, 2, 3]
    assert seen(tangles, 6, others=1) == [6, 4, 2]
    assert seen(tangles, 6, own=0) == [6, 2, 3, 1]
    assert seen(tangles, 6, own=0, others=0) == [6]


def test_the_window_cuts_both() -> None:
    tangles = tangle_of(*MIXED)
    assert seen(tangles, 6, window=7) == [6, 4, 2, 3, 1]
    assert seen(tangles, 6, window=5) == [6, 4, 2]  # B's match lies outside, so its session is not found
    assert seen(tangles, 6, window=2) == [6]
    assert seen(tangles, 6, window=1) == [6]


def test_each_correlation_can_be_switched_off() -> None:
    tangles = tangle_of(*MIXED)
    assert seen(tangles, 6, use_key_correlation=False) == [6, 2, 3, 1]
    assert seen(tangles, 6, use_value_correlation=False) == [6, 4]


def test_missing_values_see_no_one_else() -> None:
    tangles = tangle_of((A, None, "in"), (B, None, "in"), (A, None, "in"))
    assert seen(tangles, 2) == [2, 0]


def test_a_returned_key_is_another_sequence() -> None:
    arrivals = [Arrival(A, 1, "in", 0.0, 0.0, 1.0, True), Arrival(A, 1, "in", 0.0, 0.0, 1.0, False)]
    tangles = encode(frame_of(arrivals), match=("size",))
    assert seen(tangles, 1) == [1, 0]
    assert seen(tangles, 1, use_value_correlation=False) == [1]


def test_window_rule() -> None:
    tangles = tangle_of(*MIXED)
    assert seen(tangles, 6, rule="window", window=3) == [6, 5, 4]
    assert seen(tangles, 1, rule="window", window=100) == [1, 0]


def test_second_tangle_never_reaches_into_the_first() -> None:
    arrivals = [Arrival(k, 1, "in", 0.0, 0.0, 1.0, False) for k in (A, B, A)]
    tangles = encode(frame_of(arrivals, arrivals), match=("size",))
    for rule in (PaperRule(100, 100, 100), WindowRule(100), TypedRule(100, 100, 100, 100)):
        assert rule.look(tangles, 1, 3, 6).items.min() == 3


def test_make_rule() -> None:
    assert make_rule(Visibility()) == TypedRule(1024, 128, 64, 64)
    assert make_rule(Visibility(rule="window", window=256)) == WindowRule(256)
    assert make_rule(Visibility(rule="paper")) == PaperRule(1024, 128, 64)
    assert make_rule(Visibility("paper", use_key_correlation=False)) == PaperRule(1024, 0, 64)


@pytest.mark.parametrize("n", [50_000])
def test_lists_of_a_long_tangle_stay_short(n: int) -> None:
    """All items of one value: every one matches all others, and still sees no more than 1 + U + V."""
    arrivals = [Arrival(i % 3, 1, "in" if i % 7 else "out", 0.0, 0.0, 1.0, False) for i in range(500)]
    tangles = encode(frame_of(arrivals * (n // 500)), match=("size",))
    found = make_rule(Visibility("paper", window=256, own=5, others=7)).look(tangles, 0, 0, n)
    counts = np.diff(found.starts)
    assert counts.max() == 1 + 5 + 7
    assert (np.repeat(np.arange(n), counts) - found.items).max() < 256
