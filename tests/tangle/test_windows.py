"""Windows hold every tangle once, and no more items than they may."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvec.tangle.windows import STRETCHES, plan_windows


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 200), st.none() | st.integers(0, 9))
def test_every_tangle_is_in_one_window(items: list[int], most: int, seed: int | None) -> None:
    sizes = np.array(items)
    windows = plan_windows(sizes, most, None if seed is None else np.random.default_rng(seed))
    assert sorted(np.concatenate(windows).tolist()) == list(range(len(items)))
    for window in windows:
        assert window.tolist() == sorted(window.tolist())
        assert sizes[window].sum() <= most or len(window) == 1


def test_a_window_is_mixed_from_many_places() -> None:
    one, two = (plan_windows(np.ones(10_000, np.int64), 1000, np.random.default_rng(seed)) for seed in (0, 1))
    assert len(one) == len(two) == 10
    assert [window.tolist() for window in one] != [window.tolist() for window in two]
    stretches = [1 + int((np.diff(window) > 1).sum()) for window in one]
    assert max(stretches) == STRETCHES and min(stretches) > STRETCHES // 2
