"""Sequences and sessions of a few items that can be followed by eye."""

from __future__ import annotations

import numpy as np

from kvec.tangle.sessions import find_sequences, find_sessions


def numbers(*given: float) -> np.ndarray:
    return np.array(given, np.int64)


def test_a_key_in_two_tangles_is_two_sequences() -> None:
    found = find_sequences(numbers(0, 0, 1, 1), numbers(5, 6, 5, 5))
    assert found.sequence.tolist() == [0, 1, 2, 2]
    assert found.number.tolist() == [0, 0, 0]
    assert (found.first.tolist(), found.last.tolist(), found.length.tolist()) == ([0, 1, 2], [0, 1, 3], [1, 1, 2])


def test_an_end_mark_closes_and_the_key_returns_as_the_next_sequence() -> None:
    ends = np.array([0, 1, 0, 0, 1, 0], bool)
    found = find_sequences(numbers(0, 0, 0, 0, 0, 0), numbers(1, 1, 2, 1, 1, 1), is_end=ends)
    assert found.sequence.tolist() == [0, 0, 1, 2, 2, 3]
    assert found.position.tolist() == [0, 1, 0, 0, 1, 0]
    assert found.number.tolist() == [0, 0, 1, 2]


def test_idling_longer_than_the_expiry_starts_anew() -> None:
    time = np.array([0.0, 1.0, 2.0, 3.5, 4.5])
    found = find_sequences(numbers(0, 0, 0, 0, 0), numbers(1, 2, 1, 1, 2), time, expiry=2.0)
    assert found.sequence.tolist() == [0, 1, 0, 0, 2]  # exactly 2 s is not longer; 3.5 s is
    assert find_sequences(numbers(0, 0), numbers(1, 1), np.array([0.0, 9.0])).sequence.tolist() == [0, 0]


def test_no_items() -> None:
    found = find_sequences(numbers(), numbers())
    assert (len(found.sequence), len(found.first), len(found.length)) == (0, 0, 0)
    assert len(find_sessions(found, [])) == 0


def test_sessions_run_on_through_the_items_of_others() -> None:
    found = find_sequences(numbers(0, 0, 0, 0, 0), numbers(1, 2, 1, 1, 2))
    direction = numbers(0, 0, 0, 1, 0)
    session = find_sessions(found, [direction])
    assert session.tolist() == [0, 2, 0, 1, 2]
    assert find_sessions(found, []).tolist() == [0, 1, 0, 0, 1]
    assert find_sessions(found, [direction, numbers(0, 0, 1, 1, 0)]).tolist() == [0, 3, 1, 2, 3]


def test_a_gap_closes_a_session() -> None:
    time = np.array([0.0, 1.0, 2.0, 2.5, 6.0])
    found = find_sequences(numbers(0, 0, 0, 0, 0), numbers(1, 1, 1, 1, 1), time)
    assert find_sessions(found, [], time, gap=1.0).tolist() == [0, 0, 0, 0, 1]
    assert find_sessions(found, [], time, gap=0.9).tolist() == [0, 1, 2, 2, 3]
    assert find_sessions(found, [], None, gap=0.9).tolist() == [0, 0, 0, 0, 0]
