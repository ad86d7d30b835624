"""Which trigger to tune: tangles in halves, and what is ahead of what beyond chance."""

import numpy as np
import pytest

from kvec.learn.comparing import FEWEST_TANGLES, Tried, choose, halves_of


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


def tried(trigger: str, right: np.ndarray, late: float | np.ndarray = 0.2, cost: float | np.ndarray = 0.0) -> Tried:
    """Of tangles of ten sequences, with so many decided rightly."""
    n = np.full(len(right), 10.0)
    return Tried(trigger, np.stack([n, right, late * n, cost * n], axis=1))


def rights(n_tangles: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(4, 10, n_tangles).astype(float)


def test_figures_are_of_all_sequences() -> None:
    one = Tried("hazard", np.array([[1, 1, 0.5, 2], [3, 1, 1.5, 4]], float))
    assert (one.accuracy, one.earliness, one.cost, one.hm) == (0.5, 0.5, 1.5, 0.5)


def test_the_present_trigger_stays_where_another_is_ahead_by_chance() -> None:
    """Better on the whole, but on about as many tangles worse."""
    other = rights() + np.where(np.arange(40) % 2, -1.0, 1.0)
    other[0] += 1
    compared = [tried("calibrated", other), tried("induction", rights())]
    trigger, gains = choose(compared, "induction", {})
    assert trigger == "induction" and list(gains) == ["calibrated"]
    gain = gains["calibrated"]
    assert gain.low < 0 < gain.point < gain.high
    assert gain.point == pytest.approx(compared[0].hm - compared[1].hm)
    assert choose(compared, "calibrated", {})[0] == "calibrated"


def test_tangles_are_resampled_in_pairs() -> None:
    """Tangles differ by far more than triggers do, and yet one is ahead on nearly all of them."""
    ahead = rights() + np.where(np.arange(40) < 36, 0.2, -0.1)
    trigger, gains = choose([tried("hazard", ahead), tried("induction", rights())], "induction", {})
    assert trigger == "hazard" and 0 < gains["hazard"].low < gains["hazard"].point


def test_of_several_that_are_ahead_the_best_is_taken() -> None:
    compared = [tried("hazard", rights() + 0.5), tried("calibrated", rights() + 0.9), tried("induction", rights())]
    assert choose(compared, "induction", {})[0] == "calibrated"


@pytest.mark.parametrize(
    ("target", "taken"),
    [({}, "calibrated"), ({"earliness": 0.3}, "hazard"), ({"cost_per_error": 1.0, "cost_per_item": 0.1}, "induction")],
)
def test_what_counts_is_what_was_asked_for(target: dict[str, float], taken: str) -> None:
    """HM, accuracy at an earliness, or cost: each is led by another trigger."""
    compared = [
        tried("hazard", rights() + 0.9, late=0.6, cost=3.0),
        tried("calibrated", rights() + 0.5, late=0.1, cost=2.0),
        tried("induction", rights(), late=0.2, cost=1.0),
    ]
    assert {choose(compared, each.trigger, target)[0] for each in compared} == {taken}


def test_of_few_tangles_nothing_is_told() -> None:
    """An interval over draws of a few tangles is too narrow: one of two equals would be ahead too often."""
    for n, taken in ((FEWEST_TANGLES - 1, "induction"), (FEWEST_TANGLES, "calibrated")):
        compared = [tried("calibrated", rights(n) + 0.5), tried("induction", rights(n))]
        trigger, gains = choose(compared, "induction", {})
        assert trigger == taken
        assert np.isfinite(gains["calibrated"].low) == (n == FEWEST_TANGLES)


def test_without_the_present_trigger_the_best_is_taken() -> None:
    compared = [tried("calibrated", rights() + 0.01), tried("induction", rights())]
    assert choose(compared, "hazard", {}) == ("calibrated", {})
    assert choose(compared[1:], "induction", {}) == ("induction", {})
