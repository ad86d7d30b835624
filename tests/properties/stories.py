"""What a stream may live through: items of a few keys with odd times, ticks, end marks, looks at keys, and stops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from kvec.decide.deployed import Deployed
from kvec.decide.model import Network, build_network
from kvec.decide.stream import Stream
from kvec.tangle.relations import RELATIONS
from kvec.tangle.vocabulary import FieldVocabulary, Vocabulary
from kvec.words.config import Config
from kvec.words.items import Decision, Item
from kvec.words.limits import Limits
from kvec.words.schema import Field, Schema

SCHEMA = Schema(
    key=("key",), tangle="tangle", time="time", end="end", labels=("kind", "side"), session=("way",), session_gap=4.0,
    expiry=9.0, match=("size", "way"),
    values=(Field("size", kind="categorical"), Field("way", kind="categorical"), Field("load", kind="binned"),
            Field("rate", kind="projected")),
)  # fmt: skip
VOCABULARY = Vocabulary(
    fields=(
        FieldVocabulary("size", "categorical", values=(0, 1, 2), edges=(0.5, 1.5)),  # items hold 3 and 4 too
        FieldVocabulary("way", "categorical", values=("in", "out")),
        FieldVocabulary("load", "binned", edges=(0.5, 1.5)),
        FieldVocabulary("rate", "projected", mean=0.5, scale=2.0),
    ),
    labels=(("a", "b", "c"), ("no", "yes")),
    label_names=("kind", "side"),
)
SMALL = (
    "encoder.width=8", "encoder.heads=2", "encoder.feed_forward=12", "encoder.fusion=6", "encoder.slots=3",
    "encoder.positions=4", "encoder.time=auto", "encoder.time_modulus=5", "encoder.use_membership=true",
)  # fmt: skip


def network_of(vocabulary: Vocabulary, config: Config, has_time: bool, seed: int) -> Network:
    """A network whose every number is random and large enough to matter, in float64; it halts now and then."""
    generator = torch.Generator().manual_seed(seed)
    network = build_network(vocabulary, config.encoder, has_time, n_relations=len(RELATIONS)).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.6)
        network.policy.weight.mul_(3)
        network.policy.bias.fill_(-1.5)
    return network


def model_of(
    *settings: str, has_time: bool = True, seed: int = 0, schema: Schema = SCHEMA, vocabulary: Vocabulary = VOCABULARY
) -> Deployed:
    """A small model with the given settings."""
    config = Config().override([*SMALL, *settings])
    network = network_of(vocabulary, config, has_time, seed)
    weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    return Deployed(weights, vocabulary, schema, config, has_time, 0.5)


def changed(model: Deployed, *settings: str) -> Deployed:
    """The same weights under other settings that they fit."""
    return replace(model, config=model.config.override(settings))


MODEL = model_of()
OTHER = model_of("encoder.fusion=5", "encoder.slots=4", seed=7, schema=replace(SCHEMA, session=(), match=("load",)))
TIMELESS = model_of(has_time=False, seed=3, schema=replace(SCHEMA, time="", expiry=None, session_gap=None))
SPARE = model_of("encoder.use_membership=false", "encoder.use_position=false", "encoder.time=gaps", seed=4)


# halts must be learned where what comes after them is dropped
DROPPING = ("training.objective=expected", "deciding.after_halt=drop")
BASES = {"timed": MODEL, "timeless": TIMELESS, "spare": SPARE, "other": OTHER}


@dataclass(frozen=True)
class Choice:
    """One of a few networks under some settings; its words are few, so that a failure can be read."""

    base: str
    settings: tuple[str, ...]

    @property
    def model(self) -> Deployed:
        return _chosen(self.base, self.settings)


@cache
def _chosen(base: str, settings: tuple[str, ...]) -> Deployed:
    return changed(BASES[base], *settings)


@st.composite
def choices(
    draw: st.DrawFn, *settings: str, bases: tuple[str, ...] = ("timed", "timed", "timeless", "spare")
) -> Choice:
    """One of a few networks, under any rule of visibility."""
    rule = draw(st.sampled_from(["paper", "paper", "typed", "window"]))
    window, own, others = draw(st.sampled_from([(1, 2, 2), (4, 2, 3), (9, 3, 4), (9, 0, 5), (30, 2, 9), (30, 50, 50)]))
    recent = draw(st.sampled_from([3, 0, 9, 40]))
    by_key, by_value = (draw(st.sampled_from(["true", "true", "true", "true", "false"])) for _ in range(2))
    chosen = (
        f"visibility.rule={rule}", f"visibility.window={window}", f"visibility.own={own}",
        f"visibility.others={others}", f"visibility.recent={recent}", f"visibility.use_key_correlation={by_key}",
        f"visibility.use_value_correlation={by_value}",
    )  # fmt: skip
    return Choice(draw(st.sampled_from(bases)), (*chosen, *settings))


LIMITS = st.builds(
    Limits,
    max_live_keys=st.sampled_from([1, 2, 3, 5, 1000]),
    max_tangles=st.sampled_from([1, 2, 1000, 1000]),
    max_cached_items=st.sampled_from([1, 3, 8, 20, 1000, 1000]),
    max_returning_keys=st.sampled_from([1, 2, 1000]),
    expiry=st.sampled_from([None, None, 3.0, 0.0, np.inf]),
    idle=st.sampled_from([None, None, 4.0]),
    late=st.sampled_from(["take", "take", "drop"]),
    reorder=st.sampled_from([0.0, 0.0, 3.0]),
    duplicates=st.sampled_from(["take", "drop"]),
)


@dataclass(frozen=True)
class Feed:
    """Some items at once, or one alone."""

    items: tuple[Item, ...]
    wall: float


@dataclass(frozen=True)
class Tick:
    """Time moves on."""

    now: float | None
    wall: float


@dataclass(frozen=True)
class End:
    """A source marks the end of a key."""

    tangle: Any
    key: Any
    wall: float


@dataclass(frozen=True)
class Look:
    """Somebody asks for a key."""

    tangle: Any
    key: Any


@dataclass(frozen=True)
class Stop:
    """The stream is saved, and another goes on from there."""


Step = Feed | Tick | End | Look | Stop
Story = list[Step]


def made_item(rng: np.random.Generator, tangle: Any, key: Any, time: float, ends: float = 0.05) -> Item:
    """An item of few values, so that many match; some are missing or unseen."""
    value: dict[str, Any] = {
        "size": None if rng.random() < 0.05 else int(rng.choice(5, p=[0.4, 0.3, 0.1, 0.1, 0.1])),
        "way": ("in", "out", "both", None)[int(rng.choice(4, p=[0.6, 0.3, 0.07, 0.03]))],
        "load": (0.0, 0.5, 1.0, None)[int(rng.integers(4))],
        "rate": (-1.0, 0.25, 3.0, None)[int(rng.integers(4))],
    }
    if rng.random() < 0.05:
        del value["way"]
    return Item(tangle, key, value, time, bool(rng.random() < ends))


@dataclass(frozen=True)
class Plan:
    """A story of `n` steps; items come in pieces of up to `most`, a share of `verbs` is something else than items."""

    seed: int
    n: int
    n_tangles: int
    n_keys: int
    most: int = 6
    verbs: float = 0.35
    ends: float = 0.05
    jitter: float = 0.2

    @property
    def story(self) -> Story:
        rng = np.random.default_rng(self.seed)
        story: Story = []
        time, wall = float(rng.integers(-20, 20)), 0.0
        recent: list[Item] = []
        for _ in range(self.n):
            wall += float(rng.choice([0.0, 0.5, 2.0, 6.0], p=[0.5, 0.35, 0.1, 0.05]))
            tangle, key = int(rng.integers(self.n_tangles)), f"k{rng.integers(self.n_keys)}"
            if rng.random() >= self.verbs:
                items = []
                for _ in range(int(rng.integers(1, self.most + 1))):
                    time += float(rng.choice([0.0, 0.25, 1.0, 5.0, 12.0], p=[0.3, 0.4, 0.2, 0.07, 0.03]))
                    shift = float(rng.integers(1, 6)) if rng.random() < self.jitter else 0.0
                    tangle, key = int(rng.integers(self.n_tangles)), f"k{rng.integers(self.n_keys)}"
                    item = made_item(rng, tangle, key, time - shift, self.ends)
                    if recent and rng.random() < 0.15:
                        item = recent[int(rng.integers(len(recent)))]
                    recent = [*recent[-3:], item]
                    items.append(item)
                story.append(Feed(tuple(items), wall))
            else:
                now = None if rng.random() < 0.3 else time + float(rng.choice([-3.0, 0.0, 2.0, 6.0, 11.0]))
                look = Look(tangle, key)
                other: list[Step] = [Tick(now, wall), End(tangle, key, wall), look, look, Stop()]
                story.append(other[int(rng.integers(len(other)))])
        return story


def plans(most_steps: int = 40, **given: Any) -> st.SearchStrategy[Plan]:
    """Stories of a few tangles and keys."""
    return st.builds(
        Plan, seed=st.integers(0, 2**32 - 1), n=st.integers(2, most_steps), n_tangles=st.integers(1, 3),
        n_keys=st.integers(1, 5), most=st.sampled_from([1, 3, 7]), **{name: st.just(v) for name, v in given.items()},
    )  # fmt: skip


def through_plain(stream: Stream) -> Stream:
    """The stream after a stop, by way of text and copies as a file would hold them."""
    facts, arrays = stream.to_plain()
    return Stream.from_plain(json.loads(json.dumps(facts)), {name: array.copy() for name, array in arrays.items()})


def do(stream: Stream, step: Step) -> tuple[Stream, list[Decision]]:
    """One step; the stream that goes on, and the decisions that fell."""
    match step:
        case Feed([item], wall):
            return stream, stream.feed(item, wall)
        case Feed(items, wall):
            return stream, stream.feed_many(items, wall)
        case Tick(now, wall):
            return stream, stream.tick(now, wall)
        case End(tangle, key, wall):
            return stream, stream.end(tangle, key, wall)
        case Stop():
            return through_plain(stream), []
    return stream, []


def lived(stream: Stream, story: Sequence[Step]) -> list[list[Decision]]:
    """The decisions of each step, and those of closing."""
    told = []
    for step in story:
        stream, decisions = do(stream, step)
        told.append(decisions)
    return [*told, stream.close()]


def items_of(story: Sequence[Step]) -> list[Item]:
    """All items of a story, in order."""
    return [item for step in story if isinstance(step, Feed) for item in step.items]


def assert_same(found: Sequence[Decision], wanted: Sequence[Decision], tolerance: float = 1e-11) -> None:
    """The same decisions in the same order, but for rounding."""
    assert [_told(one) for one in found] == [_told(one) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=0, atol=tolerance)


def _told(one: Decision) -> tuple[Any, ...]:
    return one.tangle, one.key, one.sequence, one.labels, one.n_observed, one.length, one.reason
