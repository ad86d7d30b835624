from itertools import pairwise

import numpy as np
import pytest

from kvec.decide.reaching import first_reached, records


@pytest.mark.parametrize("seed", range(5))
def test_as_one_would_look_for_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 7, 20)
    offsets = np.concatenate([[0], np.cumsum(length)])
    scores = rng.random(offsets[-1]).round(1)  # with ties
    ranks = np.unique(scores, return_inverse=True)[1]
    top = []
    for start, end in pairwise(offsets):
        top += [i for i in range(start, end) if all(scores[i] > scores[j] for j in range(start, i))]
    assert records(offsets, ranks).tolist() == top
    for threshold in (0.0, 0.35, 0.5, 1.1):
        slow = [next((i - a + 1 for i in range(a, b) if scores[i] >= threshold), 0) for a, b in pairwise(offsets)]
        assert first_reached(offsets, scores, threshold).tolist() == slow


def test_of_nothing() -> None:
    nothing = np.zeros(0)
    assert first_reached(np.array([0]), nothing, 0.5).size == records(np.array([0]), nothing.astype(int)).size == 0
