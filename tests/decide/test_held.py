"""Held-out sequences as arrays: whose tangle is whose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.decide.made_held import made_held
from tests.properties.strategies import SCHEMA, VOCABULARY, Arrival, frame_of

from kvec.decide.held import held_out, joined_arrays
from kvec.decide.scores import Scores
from kvec.learn.validating import traces
from kvec.tangle.tangles import encode_tangles


def idle() -> list[Arrival]:
    """Three keys, each alone in a piece of the tangle, for it was idle between them for longer than the expiry."""
    return [Arrival(i // 2, 0, "in", 1.0, 0.0, 100.0 if i % 2 == 0 else 1.0, False) for i in range(6)]


def test_a_tangle_that_started_anew_is_still_one() -> None:
    """Promises count the sequences of the tangles that were given, and triggers are compared on halves of these."""
    schema = replace(SCHEMA, time="time", expiry=10.0)
    tangles = encode_tangles(frame_of(idle(), idle()), schema, VOCABULARY)
    assert tangles.tangle_of.tolist() == [0, 1, 2, 3, 4, 5], "pieces"
    n = tangles.n_items
    scores = Scores(
        tangles.offsets, np.zeros(n, np.float32), (np.ones((n, 3), np.float32), np.ones((n, 2), np.float32))
    )
    held = held_out(tangles, scores)
    assert held["tangle"].tolist() == [0, 0, 0, 1, 1, 1]
    known = traces(tangles, scores)
    assert known.tangle.tolist() == held["tangle"][held["labels"][:, 0] >= 0].tolist()


def test_parts_keep_tangles_of_their_own() -> None:
    one, other = made_held(6, 0), made_held(4, 1)
    joined = joined_arrays([one, other])
    assert joined["tangle"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
