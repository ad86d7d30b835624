"""The stream equals one pass over the whole table, however it is cut; stopping, saving and resuming changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.stories import DROPPING

from kvec.decide.deployed import Deployed
from kvec.decide.halting import decision_table, first_halts
from kvec.decide.model import build_network
from kvec.decide.replaying import dropped_items, replay
from kvec.decide.scoring import score
from kvec.decide.stream import Stream, resume
from kvec.read.rows import read_table
from kvec.read.table import Table, iterate
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.tangling import arrange
from kvec.tangle.visibility import make_rule, without
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config
from kvec.words.items import Decision, Item
from kvec.words.schema import Field, Schema

SMALL = [
    "visibility.window=9", "visibility.own=3", "visibility.others=4", "encoder.width=8", "encoder.heads=2",
    "encoder.feed_forward=12", "encoder.fusion=6", "encoder.slots=3", "encoder.positions=5",
    "encoder.time=auto", "encoder.time_modulus=16", "encoder.use_membership=true",
]  # fmt: skip
SCHEMA = Schema(
    key=("key",), tangle="tangle", time="time", end="end", labels=("label",), session=("way",), session_gap=4.0,
    expiry=9.0,
    values=(Field("size", kind="categorical"), Field("way", kind="categorical"), Field("load", kind="binned", bins=3),
            Field("rate", kind="projected")),
    match=("size", "way"),
)  # fmt: skip
RULES = ("paper", "window", "typed")
SCORE = 1e-6  # batch scores are kept in single precision


@st.composite
def tables(draw: Callable[..., object]) -> pl.DataFrame:
    """Items of a few tangles and keys, times with long gaps, missing values, end marks."""
    n = draw(st.integers(2, 60))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n_tangles, n_keys = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    missing = rng.random(n) < 0.1
    return pl.DataFrame(
        {
            "tangle": rng.integers(0, n_tangles, n),
            "key": rng.integers(0, n_keys, n),
            "time": np.cumsum(rng.choice([0.0, 0.5, 2.0, 6.0, 15.0], n, p=[0.2, 0.4, 0.25, 0.1, 0.05])),
            "size": pl.Series(rng.integers(0, 4, n)).set(pl.Series(missing), None),
            "way": rng.choice(["up", "down"], n),
            "load": rng.normal(size=n),
            "rate": rng.normal(size=n),
            "end": rng.random(n) < 0.05,
        }
    ).with_columns(label=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("a")).otherwise(pl.lit("b")))


def one_label(frame: pl.DataFrame) -> pl.DataFrame:
    """Labels play no part here; every key gets one."""
    return frame.with_columns(label=pl.when(pl.col("key") % 2 == 0).then(pl.lit("a")).otherwise(pl.lit("b")))


def deployed(rule: str, schema: Schema = SCHEMA) -> tuple[Deployed, torch.nn.Module]:
    """An untrained model whose halting scores lie around its threshold."""
    config = Config().override([*SMALL, f"visibility.rule={rule}"])
    rng = np.random.default_rng(5)
    known = pl.DataFrame(
        {"value.size": [0, 0, 1, 1, 2, 2], "value.way": ["up", "down"] * 3, "value.load": rng.normal(size=6),
         "value.rate": rng.normal(size=6), "label.label": ["a", "b"] * 3}
    )  # fmt: skip
    vocabulary = Vocabulary.fit(known, schema)
    torch.manual_seed(3)
    relations = make_rule(config.visibility).relations
    network = build_network(vocabulary, config.encoder, has_time=True, n_relations=len(relations)).double().eval()
    with torch.no_grad():
        for layer in network.layers():
            if layer.attention.relation is not None:
                layer.attention.relation.normal_(0, 2)
        network.policy.weight.mul_(4)
        network.policy.bias.fill_(-0.5)
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    return Deployed(weights, vocabulary, schema, config, True, 0.5), network


MODELS = {rule: deployed(rule) for rule in RULES}


def read(frame: pl.DataFrame) -> Table:
    table = read_table(one_label(frame), SCHEMA)
    return Table(arrange(table.frame), table.schema, "made")


def in_one_pass(rule: str, table: Table) -> pl.DataFrame:
    model, network = MODELS[rule]
    tangles = encode_tangles(table.frame, model.schema, model.vocabulary)
    scores = score(network, tangles, make_rule(model.config.visibility))  # type: ignore[arg-type]
    return decision_table(tangles, model.vocabulary, scores, model.threshold)


def fed(stream: Stream, items: list[Item], cuts: list[int]) -> list[Decision]:
    """Feed in pieces of the given sizes, over and over; a piece of one by `feed`."""
    decisions, start, turn = [], 0, 0
    while start < len(items):
        size = cuts[turn % len(cuts)]
        piece = items[start : start + size]
        decisions += stream.feed(piece[0]) if size == 1 else stream.feed_many(piece)
        start, turn = start + size, turn + 1
    return decisions


def by_name(decisions: list[Decision]) -> dict[str, Decision]:
    named = {decision.id: decision for decision in decisions}
    assert len(named) == len(decisions), "a sequence was decided twice"
    return named


def assert_same(found: list[Decision], wanted: list[Decision]) -> None:
    left, right = by_name(found), by_name(wanted)
    assert left.keys() == right.keys()
    for name, one in left.items():
        other = right[name]
        assert (one.labels, one.n_observed, one.reason) == (other.labels, other.n_observed, other.reason)
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-12)


@pytest.mark.parametrize("rule", RULES)
@given(frame=tables(), cuts=st.lists(st.integers(1, 20), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_stream_equals_batch(rule: str, frame: pl.DataFrame, cuts: list[int]) -> None:
    table = read(frame)
    wanted = in_one_pass(rule, table)
    stream = Stream(MODELS[rule][0], dtype=np.float64)
    named = by_name(fed(stream, list(iterate(table)), cuts) + stream.close())
    assert len(named) == len(wanted)
    for row in wanted.iter_rows(named=True):
        one = named[f"{row['tangle']}/{row['key']}/{row['sequence']}"]
        assert (one.n_observed, one.reason) == (row["n_observed"], row["reason"])
        assert one.probability == pytest.approx(row["probability"], abs=SCORE)
        assert one.label == row["label"] or one.probability == pytest.approx(0.5, abs=SCORE)


@pytest.mark.parametrize("rule", RULES)
@given(frame=tables(), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=3), share=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_stop_save_resume_equals_never_stopping(
    tmp_path_factory: pytest.TempPathFactory, rule: str, frame: pl.DataFrame, cuts: list[int], share: float
) -> None:
    items = list(iterate(read(frame)))
    stop = int(share * len(items))
    whole = Stream(MODELS[rule][0], dtype=np.float64)
    wanted = fed(whole, items, cuts) + whole.close()
    first = Stream(MODELS[rule][0], dtype=np.float64)
    found = fed(first, items[:stop], cuts)
    file: Path = tmp_path_factory.mktemp("state") / "stream.state"
    first.save(file, note={"offset": stop})
    second = resume(file)
    assert second.note == {"offset": stop}
    assert second.counters == first.counters
    found += fed(second, items[stop:], cuts) + second.close()
    assert_same(found, wanted)
    assert second.reasons == whole.reasons


@given(frame=tables(), share=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_the_same_model_takes_over_unnoticed(frame: pl.DataFrame, share: float) -> None:
    """While nothing has been forgotten, replaying to the same model changes nothing."""
    model = MODELS["paper"][0]
    wide = Deployed(
        model.weights, model.vocabulary, model.schema, model.config.override(["visibility.window=100"]), True, 0.5
    )
    items = list(iterate(read(frame)))
    stop = int(share * len(items))
    whole, changed = Stream(wide, dtype=np.float64), Stream(wide, dtype=np.float64)
    wanted = fed(whole, items, [5]) + whole.close()
    found = fed(changed, items[:stop], [5])
    changed.take_over(wide)
    found += fed(changed, items[stop:], [5]) + changed.close()
    assert_same(found, wanted)


@pytest.mark.parametrize("rule", RULES)
@given(frame=tables())
@settings(max_examples=40, deadline=None)
def test_dropping_after_a_halt_hides_exactly_what_came_after(rule: str, frame: pl.DataFrame) -> None:
    """The replay agrees with one pass in which the items that it dropped are hidden, and the stream with the replay."""
    model, network = MODELS[rule]
    config = model.config.override(["visibility.window=100", *DROPPING])
    table = read(frame)
    tangles = encode_tangles(table.frame, model.schema, model.vocabulary)
    replayed = replay(network, tangles, config, 0.5, dtype=np.float64)
    halted = first_halts(replayed, 0.5)
    length = tangles.sequences.length
    n_observed = np.where(halted > 0, halted, length)
    hidden = without(make_rule(config.visibility), dropped_items(tangles, n_observed))
    one_pass = score(network, tangles, hidden)
    reached = tangles.sequences.position[tangles.sequences.by_sequence] < np.repeat(n_observed, length)
    np.testing.assert_allclose(one_pass.halt[reached], replayed.halt[reached], atol=SCORE)
    np.testing.assert_allclose(one_pass.classes[0][reached], replayed.classes[0][reached], atol=SCORE)
    dropping = Deployed(model.weights, model.vocabulary, model.schema, config, True, 0.5)
    stream = Stream(dropping, dtype=np.float64)
    named = by_name(stream.feed_many(iterate(table)) + stream.close())
    wanted = decision_table(tangles, model.vocabulary, replayed, 0.5)
    assert len(named) == len(wanted)
    for row in wanted.iter_rows(named=True):
        one = named[f"{row['tangle']}/{row['key']}/{row['sequence']}"]
        assert (one.n_observed, one.reason) == (row["n_observed"], row["reason"])
        assert one.probability == pytest.approx(row["probability"], abs=SCORE)
    assert stream.counters.after_halt == int((length - n_observed).sum())
