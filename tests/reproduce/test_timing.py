from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reproduce.fake import cell

from kvec.reproduce.plan import Sizes
from kvec.reproduce.timing import Timing, Took, time_left

SECONDS = st.lists(st.floats(0, 1e4), max_size=20)


def test_a_cell_takes_what_others_of_its_data_set_took() -> None:
    timing = Timing({"planted/kvec/0": Took(4.0), "planted/srn/0": Took(6.0), "other/kvec/0": Took(50.0)})
    assert timing.expected(cell("earliest"), Sizes()) == 5.0
    assert timing.expected(cell("earliest", dataset="third"), Sizes()) == 6.0
    timing.add("third", Took(9.0))
    assert timing.expected(cell("earliest", dataset="third"), Sizes()) == 9.0


def test_a_cell_takes_for_its_time_what_others_took_for_theirs() -> None:
    timing = Timing({f"planted/kvec/{i}": Took(each, 240.0) for i, each in enumerate((320.0, 330.0, 3600.0))})
    assert timing.expected(cell("earliest"), Sizes(train_seconds=240)) == pytest.approx(330)
    assert timing.expected(cell("earliest"), Sizes(train_seconds=480)) == pytest.approx(660), "a control"
    assert timing.expected(cell("earliest", dataset="sepsis"), Sizes(train_seconds=30)) == pytest.approx(41.25)


def test_before_any_cell_is_done_the_time_of_training_tells() -> None:
    expected = Timing({}).expected(cell("kvec"), Sizes(train_seconds=240))
    assert expected is not None and 1.35 * 240 <= expected < 340
    assert Timing({}).expected(cell("kvec"), Sizes(epochs=100)) is None


@given(SECONDS, st.integers(1, 8))
def test_time_left_lies_between_the_sum_over_jobs_and_the_sum(waiting: list[float], jobs: int) -> None:
    left = time_left([], waiting, jobs)
    assert sum(waiting) / jobs <= left + 1e-6
    assert left <= sum(waiting) / jobs + max(waiting, default=0) + 1e-6


def test_a_cell_that_takes_longer_than_expected_is_about_to_end() -> None:
    assert time_left(running=[-5.0], waiting=[], jobs=1) == 0
    assert time_left(running=[-5.0], waiting=[10.0], jobs=1) == 10
    assert time_left(running=[], waiting=[], jobs=3) == 0
    assert time_left(running=[3.0], waiting=[10.0, 1.0], jobs=2) == pytest.approx(10)
