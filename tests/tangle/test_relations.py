"""The relations of items on a tangle that can be followed by eye."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tangle.test_visibility import MIXED, A, B, C, tangle_of

from kvec.tangle.relations import RELATIONS
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import TypedRule, without

OWN, CORRELATED, SAME, OTHER = RELATIONS


def seen_as(
    tangles: Tangles, i: int, window: int = 100, own: int = 9, others: int = 9, recent: int = 100,
    dropped: list[int] | None = None,
) -> dict[int, str]:  # fmt: skip
    """What item i sees, and as what."""
    rule = without(TypedRule(window, own, others, recent), np.isin(np.arange(tangles.n_items), dropped or []))
    found = rule.look(tangles, 0, i, i + 1)
    assert len(set(found.items.tolist())) == len(found.items), "each is listed once"
    return {int(j): RELATIONS[code] for j, code in zip(found.items, found.relation, strict=True)}


def test_each_item_is_seen_as_one_thing() -> None:
    found = seen_as(tangle_of(*MIXED), 6)
    assert found == {6: OWN, 5: OTHER, 4: OWN, 3: CORRELATED, 2: CORRELATED, 1: CORRELATED, 0: SAME}
    assert list(found) == [6, 4, 2, 3, 1, 5, 0], "as by the paper's rule, then the newest"


def test_beside_the_paper_s_items_only_the_newest_are_seen() -> None:
    tangles = tangle_of(*MIXED)
    assert seen_as(tangles, 6, recent=0) == {6: OWN, 4: OWN, 2: CORRELATED, 3: CORRELATED, 1: CORRELATED}
    assert seen_as(tangles, 6, recent=1) == {6: OWN, 4: OWN, 2: CORRELATED, 3: CORRELATED, 1: CORRELATED, 5: OTHER}


def test_what_the_limits_leave_out_is_seen_where_it_is_new() -> None:
    tangles = tangle_of(*MIXED)
    assert seen_as(tangles, 6, own=0, others=2, recent=3) == {6: OWN, 2: CORRELATED, 3: CORRELATED, 5: OTHER, 4: OWN}
    assert seen_as(tangles, 6, others=2, recent=6)[1] == CORRELATED, "its session is listed, it was cut off"
    assert seen_as(tangles, 6, others=1, recent=6)[3] == OTHER, "its session is not listed"
    assert 3 not in seen_as(tangles, 6, others=1, recent=2)


def test_the_window_cuts_all() -> None:
    tangles = tangle_of(*MIXED)
    assert seen_as(tangles, 6, window=5) == {6: OWN, 5: OTHER, 4: OWN, 3: OTHER, 2: CORRELATED}  # B's 1 lies outside
    assert seen_as(tangles, 6, window=1) == {6: OWN}


def test_a_session_is_correlated_from_its_match_on_back_and_forth() -> None:
    tangles = tangle_of((B, 7, "in"), (B, 1, "in"), (B, 8, "in"), (B, 8, "out"), (A, 1, "in"), (A, 2, "in"))
    assert seen_as(tangles, 4) == {4: OWN, 3: OTHER, 2: CORRELATED, 1: CORRELATED, 0: CORRELATED}
    assert seen_as(tangles, 5) == {5: OWN, 4: OWN, 3: OTHER, 2: SAME, 1: SAME, 0: SAME}


def test_a_match_that_comes_later_changes_nothing_for_those_before() -> None:
    tangles = tangle_of((B, 7, "in"), (A, 1, "out"), (B, 1, "in"), (C, 1, "out"))
    assert seen_as(tangles, 1) == {1: OWN, 0: OTHER}
    assert seen_as(tangles, 3) == {3: OWN, 2: CORRELATED, 1: CORRELATED, 0: CORRELATED}


def test_items_that_are_dropped_are_seen_by_their_own_sequence_alone() -> None:
    tangles = tangle_of(*MIXED)
    assert seen_as(tangles, 6, dropped=[1, 3]) == {6: OWN, 5: OTHER, 4: OWN, 2: CORRELATED, 0: SAME}
    assert seen_as(tangles, 6, dropped=[1])[3] == OTHER  # nothing that is left holds an equal value
    assert seen_as(tangles, 3, dropped=[1]) == {3: OWN, 2: OTHER, 1: OWN, 0: OWN}


@pytest.mark.parametrize("n", [30_000])
def test_the_cost_is_bounded_by_what_is_seen(n: int) -> None:
    """All items of one value: every one matches all others."""
    tangles = tangle_of(*((i % 3, 1, "in" if i % 7 else "out") for i in range(n)))
    rule = TypedRule(1024, 8, 16, 32)
    found = rule.look(tangles, 0, 0, n)
    assert np.diff(found.starts).max() <= rule.most == 57
    assert len(found.relation) == len(found.items) == found.starts[-1]
