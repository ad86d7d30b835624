"""Backward induction by the share of a sequence, on a case whose best rule is known."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.triggers.made import prefixes, walks

from kvec.decide.triggers.base import Prefixes
from kvec.decide.triggers.calimera import Calimera
from kvec.decide.triggers.induction import Induction


def long_and_short(n: int, seed: int) -> Prefixes:
    """What it is, is known with the third item alone; until then classes in question tell long from short."""
    rng = np.random.default_rng(seed)
    found, truth = [], []
    for _ in range(n):
        is_long = rng.random() < 0.5
        leaning = np.array([0.4, 0.4, 0.2, 0.0]) if is_long else np.array([0.4, 0.4, 0.0, 0.2])
        own = int(rng.choice(4, p=leaning))
        found.append(np.stack([leaning, leaning, *([np.eye(4)[own]] * (58 if is_long else 1))]))
        truth.append(own)
    return prefixes(found, truth)


def test_it_waits_where_an_item_is_a_small_share() -> None:
    """Two items more of a long sequence are 3 % of it and pay; of three they are all that is left, and do not."""
    known, others = long_and_short(1500, 0), long_and_short(500, 1)
    stops = Induction().fit(known).stops(others, 1.5)
    is_long = others.length > 3
    assert (stops[is_long] == 3).all() and (stops[~is_long] == 1).all()
    by_items = Calimera().fit(known).stops(others, 1.5)
    assert (by_items == 3).all(), "three items cost little where none knows of a share"


def test_with_equal_lengths_it_is_calimera() -> None:
    known = walks(200, seed=3, shortest=12, longest=12)
    ours, theirs = Induction().fit(known), Calimera().fit(known)
    assert ours.settings() == pytest.approx(theirs.settings())
    assert np.array_equal(ours.sweep(known, ours.settings()), theirs.sweep(known, ours.settings()))
