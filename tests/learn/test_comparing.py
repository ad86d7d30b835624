"""Which trigger to tune: tangles in halves, and what is ahead of what beyond chance."""

import numpy as np

from kvec.learn.comparing import halves_of


def test_tangles_with_labels_are_dealt_out_to_both_halves_and_stay_whole() -> None:
    tangle = np.repeat(np.arange(40), 3)
    is_known = tangle % 2 == 0
    is_first = halves_of(tangle, is_known)
    assert is_first[is_known].sum() == is_known.sum() / 2
    assert is_first[~is_known].sum() == (~is_known).sum() / 2
    assert (is_first[::3] == is_first[1::3]).all() and (is_first[::3] == is_first[2::3]).all()
    assert (is_first == halves_of(tangle, is_known)).all()
    assert (is_first != halves_of(tangle, is_known, seed=1)).any()


def test_large_and_small_tangles_are_dealt_out_evenly() -> None:
    tangle = np.repeat(np.arange(16), [2, 20, 2, 20, 2, 20, 2, 20, 1, 1, 1, 1, 1, 1, 1, 1])
    is_first = halves_of(tangle, np.ones(len(tangle), bool))
    assert is_first.sum() == len(tangle) / 2
