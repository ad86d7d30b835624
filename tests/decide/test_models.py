"""Models that streams share, and what a stream tells those who keep it elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.properties.stories import MODEL, OTHER, assert_same

from kvec.decide.models import Models, named
from kvec.decide.snapshot import pack, unpack
from kvec.decide.stream import Stream
from kvec.decide.unknown import Unknown
from kvec.words.errors import ModelError
from kvec.words.items import Item
from kvec.words.limits import Limits


def items(n: int, first: float = 0.0) -> list[Item]:
    cells = {"size": 1, "way": "in", "load": 0.5, "rate": 0.25}
    return [Item("t", f"k{i % 3}", cells, first + i) for i in range(n)]


def test_a_model_is_found_by_its_name_and_turned_to_where_it_stood() -> None:
    models = Models(OTHER, [MODEL])
    assert models.find(named(MODEL)) is MODEL
    turned = replace(MODEL, threshold=0.75)
    found = models.find(named(turned))
    assert (found.hash, found.threshold) == (MODEL.hash, 0.75)
    assert models.find(named(turned)) is found
    assert models.is_newest(replace(OTHER)) and not models.is_newest(MODEL) and not models.is_newest(turned)
    doubting = replace(MODEL, unknown=Unknown(abstain_below=0.9))
    for unknown in (doubting, replace(MODEL, has_time=False)):
        with pytest.raises(ModelError, match="name its folder too"):
            models.find(named(unknown))


def test_streams_that_share_a_network_do_not_disturb_each_other() -> None:
    models = Models(MODEL)
    shared = [Stream(MODEL, dtype=np.float64, models=models) for _ in range(2)]
    alone = [Stream(MODEL, dtype=np.float64) for _ in range(2)]
    for start in range(0, 12, 3):
        for one, other in zip(shared, alone, strict=True):
            some = items(12)[start : start + 3]
            assert_same(one.feed_many(some), other.feed_many(some))
    for one, other in zip(shared, alone, strict=True):
        assert_same(one.close(), other.close())


def test_a_state_without_its_model_goes_on_with_the_same() -> None:
    models = Models(MODEL)
    stream, other = (Stream(MODEL, Limits(expiry=5.0), 0.9, np.float64, models) for _ in range(2))
    stream.feed_many(items(7))
    other.feed_many(items(7))
    content = pack(*stream.to_plain(models), "here")
    assert len(content) < len(pack(*stream.to_plain(), "here")) / 2
    again = Stream.from_plain(*unpack(content, "here"), models)
    assert_same(again.feed_many(items(9, 7.0)), other.feed_many(items(9, 7.0)))
    assert_same(again.close(), other.close())


def test_a_stream_tells_when_something_is_due() -> None:
    stream = Stream(MODEL, Limits(expiry=5.0, idle=60.0), 1.0)
    assert stream.due() == (math.inf, math.inf)
    stream.feed(Item("t", "a", {}, 10.0), wall=100.0)
    stream.feed(Item("t", "b", {}, 12.0), wall=101.0)
    assert stream.due() == (15.0, 160.0)
    assert not stream.tick(15.0, 160.0), "not yet"
    assert [one.key for one in stream.tick(15.1, 102.0)] == ["a"]
    assert stream.due() == (17.0, 161.0)
    held = Stream(MODEL, Limits(expiry=5.0, reorder=2.0), 1.0)
    held.feed(Item("t", "a", {}, 10.0))
    assert held.due() == (12.0, math.inf)


def test_decisions_that_were_told_elsewhere_are_not_told_again() -> None:
    sure, unsure = Stream(MODEL, threshold=0.0), Stream(MODEL, threshold=1.0)
    told = sure.feed_many(items(2))
    assert len(told) == 2
    assert unsure.feed_many(items(2)) == []
    unsure.settle(told)
    assert unsure.close() == []
