"""Saying unknown changes no decision but for the word: tables and streams say it of the same sequences, once each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decide.made_held import made_held
from tests.properties.test_stream import MODELS, by_name, fed, read, tables

from kvec.decide.halting import decision_table, decisions
from kvec.decide.operating import OperatingPoint
from kvec.decide.scoring import score
from kvec.decide.stream import Stream, resume
from kvec.decide.unknown import Unknown
from kvec.read.table import iterate
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.visibility import make_rule

USUAL = Unknown(unknown_below=0.3).settled(made_held(40, 0, classes=2), OperatingPoint(0.5))
STEP = 1 / 41  # by which familiarity may differ where a score is rounded
WORDS = {
    "nothing": Unknown(),
    "at ends": Unknown(abstain_below=0.6),
    "always": Unknown(abstain_below=0.6, abstain_at_halts=True),
    "strange": USUAL,
    "both": replace(USUAL, abstain_below=0.6),
}


@pytest.mark.parametrize("words", WORDS)
@given(frame=tables(), cuts=st.lists(st.integers(1, 20), min_size=1, max_size=3))
@settings(max_examples=15, deadline=None)
def test_streams_say_unknown_as_tables_do(words: str, frame: pl.DataFrame, cuts: list[int]) -> None:
    model, network = MODELS["paper"]
    table, unknown = read(frame), WORDS[words]
    tangles = encode_tangles(table.frame, model.schema, model.vocabulary)
    scores = score(network, tangles, make_rule(model.config.visibility))  # type: ignore[arg-type]
    wanted, plain = (
        by_name(decisions(decision_table(tangles, model.vocabulary, scores, 0.5, given), ("label",)))
        for given in (unknown, None)
    )
    stream = Stream(replace(model, unknown=unknown), dtype=np.float64)
    found = by_name(fed(stream, list(iterate(table)), cuts) + stream.close())
    assert found.keys() == wanted.keys() == plain.keys(), "one decision per sequence, whatever it says"
    for name, one in wanted.items():
        assert replace(one, is_known=True, familiarity=None) == plain[name]
        assert plain[name].is_known and plain[name].familiarity is None
        other = found[name]
        if one.familiarity is None:
            assert other.familiarity is None
        else:
            assert other.familiarity == pytest.approx(one.familiarity, abs=STEP + 1e-9)
            assert 0 < one.familiarity <= 1
        is_near = abs(one.probability - 0.6) < 1e-6 or abs((one.familiarity or 1) - 0.3) <= STEP
        assert other.is_known == one.is_known or is_near


@given(frame=tables(), share=st.floats(0, 1))
@settings(max_examples=10, deadline=None)
def test_a_saved_stream_says_unknown_as_one_that_never_stopped(
    tmp_path_factory: pytest.TempPathFactory, frame: pl.DataFrame, share: float
) -> None:
    model = replace(MODELS["paper"][0], unknown=WORDS["both"])
    items = list(iterate(read(frame)))
    stop = int(share * len(items))
    whole, first = (Stream(model, dtype=np.float64) for _ in range(2))
    wanted = by_name(whole.feed_many(items) + whole.close())
    found = first.feed_many(items[:stop])
    file: Path = tmp_path_factory.mktemp("state") / "stream.state"
    first.save(file)
    second = resume(file)
    assert second.model.unknown.to_plain() == model.unknown.to_plain()
    found += second.feed_many(items[stop:]) + second.close()
    assert {n: d.is_known for n, d in by_name(found).items()} == {n: d.is_known for n, d in wanted.items()}
