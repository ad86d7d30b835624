"""Whoever listens hears of every item what the stream's own answers say, and of every end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.properties.stories import MODEL, OTHER, TIMELESS

from kvec.decide.deployed import Deployed
from kvec.decide.hearing import class_probabilities, halting_scores
from kvec.decide.stream import Stream
from kvec.tangle.live import Booked, Live
from kvec.words.items import Item


class Ears:
    """Notes all that it hears."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, int, int, float, list[float]]] = []
        self.ended: list[tuple[Any, int]] = []

    def heard(self, model: Deployed, booked: Sequence[Booked], said: npt.NDArray[Any]) -> None:
        halts, shares = halting_scores(model, booked, said), class_probabilities(model, booked, said)
        for one, halt, row in zip(booked, halts, shares, strict=True):
            self.said.append((one.live.key, one.live.number, one.position, float(halt), row.tolist()))

    def closed(self, live: Live) -> None:
        assert live.decision is not None
        self.ended.append((live.key, live.n_items))


def items(n: int, has_time: bool = True) -> list[Item]:
    rng = np.random.default_rng(3)
    return [
        Item(
            "t", f"k{rng.integers(3)}", {"size": int(rng.integers(5)), "way": "in", "load": 0.5, "rate": 1.0},
            float(i) if has_time else None, bool(rng.random() < 0.1),
        )
        for i in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize("model", [MODEL, TIMELESS], ids=["timed", "timeless"])
def test_what_is_heard_is_what_the_status_says(model: Deployed) -> None:
    stream, ears = Stream(model, dtype=np.float64), Ears()
    stream.listen(ears)
    for i, item in enumerate(items(60, model.has_time)):
        stream.feed(item)
        key, _, place, halt, shares = ears.said[i]
        status = stream.status("t", item.key)
        assert key == item.key
        if item.is_end:
            assert status is None and ears.ended[-1] == (key, place + 1)
            continue
        assert status is not None
        assert halt == pytest.approx(status.halt_probability, abs=1e-6)
        if not status.is_final:
            assert max(shares) == pytest.approx(status.probability, abs=1e-9)
    assert len(ears.said) == 60


def test_blocks_are_heard_as_single_items_are_and_decisions_do_not_change() -> None:
    one_by_one, at_once, alone = Stream(MODEL, dtype=np.float64), Stream(MODEL, dtype=np.float64), Stream(MODEL)
    ears, other = Ears(), Ears()
    one_by_one.listen(ears)
    at_once.listen(other)
    fallen = [decision for item in items(200) for decision in one_by_one.feed(item)]
    assert [d.id for d in at_once.feed_many(items(200))] == [d.id for d in fallen]
    assert [d.id for d in alone.feed_many(items(200))] == [d.id for d in fallen]
    assert other.ended == ears.ended
    for mine, theirs in zip(ears.said, other.said, strict=True):
        assert mine[:3] == theirs[:3]
        assert mine[3] == pytest.approx(theirs[3], abs=1e-9)
        assert mine[4] == pytest.approx(theirs[4], abs=1e-9)


def test_while_a_newer_model_takes_over_each_item_is_heard_once() -> None:
    stream, ears = Stream(MODEL, threshold=1.0), Ears()
    stream.listen(ears)
    stream.feed_many(items(40))
    stream.take_over(OTHER, threshold=1.0)
    assert stream.n_models == 2
    stream.feed_many(items(40))
    assert len(ears.said) == 80
    decided = sum(stream.reasons.values())
    left = stream.finish_old()
    assert stream.n_models == 1
    assert sum(stream.reasons.values()) == decided + len(left)
    assert {one.reason.value for one in left} == {"evicted"}
    stream.listen(None)
    stream.feed_many(items(10))
    assert len(ears.said) == 80


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_after_a_newer_model_took_over_decided_sequences_are_heard_too(threshold: float) -> None:
    stream, ears = Stream(MODEL, threshold=threshold), Ears()
    stream.listen(ears)
    for n, model in enumerate((OTHER, MODEL, OTHER), 1):
        stream.feed_many(items(40))
        stream.take_over(model, threshold=threshold)
        assert len(ears.said) == 40 * n
    for item in items(40):
        stream.feed(item)
    assert len(ears.said) == 160
    stream.finish_old()
    n_ended = len(ears.ended)
    stream.feed_many(items(40))
    assert len(ears.said) == 200
    stream.close()
    assert len(ears.ended) > n_ended
    assert stream.n_live == 0
