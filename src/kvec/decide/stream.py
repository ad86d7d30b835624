"""Decisions while items arrive: those of one pass over the whole table, with bounded memory (§IV).

A stream usually holds one engine. While a newer model takes over there are two: the old one decides the sequences that
were open when it came, the new one all later ones, and both see every item.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.deployed import Deployable, Deployed, deployed
from kvec.decide.engine import Counters, Engine
from kvec.decide.folder import as_damage, format_of
from kvec.decide.hearing import Listener
from kvec.decide.looking_back import LookedBack, Recalled, recall
from kvec.decide.models import Models, named
from kvec.decide.pending import due, open_since, spans
from kvec.decide.promise import Promise
from kvec.decide.snapshot import read_state, write_state
from kvec.decide.succession import adopt, succeed
from kvec.decide.targets import require_number
from kvec.tangle.coder import Coded
from kvec.words.errors import DataError, SettingError
from kvec.words.items import Decision, Item, Key, Reason, TangleId, admit, require_name, require_seconds, shown
from kvec.words.limits import Limits
from kvec.words.plain import under

MOST_ENGINES = 4  # models side by side
FEW = 4096  # items and sequences that any verb may move to give memory back; more wait for a tick


@dataclass(frozen=True)
class Status:
    """What a stream knows of a key."""

    tangle: TangleId
    key: Key
    sequence: int
    is_final: bool
    labels: tuple[str, ...]  # decided, or best so far
    probabilities: tuple[float, ...]
    halt_probability: float  # after its newest item
    n_observed: int
    reason: Reason | None  # None while waiting
    is_known: bool | None = None  # as in a decision; None while waiting

    @property
    def label(self) -> str:
        """The label of the first label column."""
        return self.labels[0]

    @property
    def probability(self) -> float:
        """The probability of `label`."""
        return self.probabilities[0]


class Stream:
    """Watches the items of any number of tangles, and decides each sequence once.

    Every verb returns the decisions that fell: one item can settle its own sequence, and expire or evict others.
    """

    def __init__(
        self, model: Deployable, limits: Limits | None = None, threshold: float | None = None,
        dtype: npt.DTypeLike = np.float32, models: Models | None = None,
    ) -> None:  # fmt: skip
        model = deployed(model)
        self._models = models  # what many streams share
        self.limits = _with_expiry(limits or Limits(), model)
        self.reasons = {reason.value: 0 for reason in Reason}  # decisions so far
        self.note: dict[str, Any] = {}  # what was kept beside the state that this stream was resumed from
        self._dtype = _precision(dtype)
        self._engines = [self._engine(model, _threshold(model, threshold))]

    def __repr__(self) -> str:
        """What it has done so far."""
        n_decided = sum(self.reasons.values())
        return f"<Stream: {self.counters.items:,} items, {self.n_live:,} live, {n_decided:,} decided>"

    # -- verbs --------------------------------------------------------------------------------------------------

    def feed(self, item: Item, wall: float | None = None) -> list[Decision]:
        """Take one item; `wall` is when it came, where `limits.idle` asks for it (else: now)."""
        return self.feed_many((item,), wall)

    def feed_many(self, items: Iterable[Item], wall: float | None = None) -> list[Decision]:
        """Take many items, in blocks; the same decisions as one by one. Of refused items none is taken."""
        if not isinstance(items, Iterable):
            raise DataError(f"{shown(items)} holds no items; give a list of them, or one item to feed")
        items = [admit(item, self.model.has_time) for item in items]
        given = [[(item, _coded(engine, item)) for item in items] for engine in self._engines]
        wall = self._wall(wall)
        return self._tell(engine.take(some, wall) for engine, some in zip(self._engines, given, strict=True))

    def tick(self, now: float | None = None, wall: float | None = None) -> list[Decision]:
        """Let time move on without an item: `now` by the items' own clock, `wall` by the wall clock."""
        now = None if now is None else require_seconds(now, "now")
        wall = self._wall(wall)
        decisions = self._tell(engine.tick(now, wall) for engine in self._engines)
        for engine in self._engines:
            engine.runner.shrink(engine.coder)
        return decisions

    def end(self, tangle: TangleId, key: Key, wall: float | None = None) -> list[Decision]:
        """Mark the end of a key's sequence; where it is not live, nothing happens."""
        tangle, key, wall = require_name(tangle, "tangle"), require_name(key, "key"), self._wall(wall)
        return self._tell(engine.end(tangle, key, wall) for engine in self._engines)

    def close(self, wall: float | None = None) -> list[Decision]:
        """Decide every sequence that is still waiting.

        The stream may go on: a key's later items open its next sequence, and see what is remembered, as after an end.
        """
        wall = self._wall(wall)
        return self._tell(engine.close(wall) for engine in self._engines)

    def status(self, tangle: TangleId, key: Key) -> Status | None:
        """What is known of a key; None where none of its sequences is live."""
        tangle, key = require_name(tangle, "tangle"), require_name(key, "key")
        for engine in self._engines:
            live = engine.arrivals.find(tangle, key)
            if live is None or not (engine.owns(live) or (engine is self._engines[-1] and live.decision is not None)):
                continue  # another engine knows
            said, decision = engine.memory.outputs[live.place], live.decision
            if decision is None:
                (labels,), (probabilities,) = engine.best(said[None], np.array([live.n_items]))
            else:
                labels, probabilities = decision.labels, decision.probabilities
            return Status(
                tangle, key, live.number, decision is not None, labels, probabilities,
                float(engine.readiness(said[None], np.array([live.n_items]))[0]),
                live.n_items if decision is None else decision.n_observed,
                None if decision is None else decision.reason, None if decision is None else decision.is_known,
            )  # fmt: skip
        return None

    def look_back(self, tangle: TangleId) -> LookedBack | None:
        """Where the items of a tangle looked, as far as they are remembered; None where none of them is."""
        recalled = self.recall(tangle)
        return None if recalled is None else recalled.looked()

    def recall(self, tangle: TangleId) -> Recalled | None:
        """A copy of what is remembered of a tangle, which can be looked at in another thread; None where nothing is."""
        return recall(self._engines[-1], require_name(tangle, "tangle"))

    # -- what it holds ------------------------------------------------------------------------------------------

    @property
    def model(self) -> Deployed:
        """The model that decides new sequences."""
        return self._engines[-1].model

    @property
    def threshold(self) -> float:
        """The halting score from which that model decides."""
        return self._engines[-1].threshold

    @property
    def promised(self) -> Promise | None:
        """What its model promises about errors at this threshold."""
        return self.model.promised if self.threshold == self.model.threshold else None

    def watches(self, tangle: TangleId, began: float | None = None) -> bool:
        """Whether anything of a tangle is live, remembered or held back; with `began`, of the one that began then."""
        state = self._engines[-1].arrivals.tangles.get(require_name(tangle, "tangle"))
        return tangle in self._engines[-1].held or (state is not None and began in (None, state.began))

    def open_since(self, tangle: TangleId) -> float | None:
        """The time before which no decision of a tangle falls any more; None where the stream has let go of it."""
        return open_since(self._engines[-1], require_name(tangle, "tangle"))

    def spans(self) -> dict[TangleId, tuple[float, float]]:
        """When each tangle that it watches or holds back began, and the time of its newest item."""
        return spans(self._engines[-1])

    @property
    def counters(self) -> Counters:
        """What has happened to the items so far."""
        return self._engines[-1].counters

    @property
    def n_live(self) -> int:
        """Sequences that are being watched, decided ones included."""
        return len(self._engines[-1].arrivals.live)

    @property
    def n_waiting(self) -> int:
        """Of these, sequences that are not decided yet."""
        return sum(live.decision is None for live in self._engines[-1].arrivals.live.values())

    @property
    def n_tangles(self) -> int:
        """Tangles that are being watched."""
        return len(self._engines[-1].arrivals.tangles)

    @property
    def n_cached(self) -> int:
        """Items that others may still see."""
        return self._engines[-1].arrivals.n_cached

    @property
    def n_models(self) -> int:
        """Models that decide: more than one while a newer one takes over."""
        return len(self._engines)

    @property
    def older(self) -> list[Deployed]:
        """Models that newer ones have replaced and that still wait for a sequence to decide, the oldest first."""
        return [engine.model for engine in self._engines[:-1]]

    @property
    def n_held(self) -> int:
        """Items that wait for late ones to find their place."""
        return self._engines[-1].n_held

    def due(self) -> tuple[float, float]:
        """By the items' clock and by the wall clock: when what has been silent for longest is over; never: infinity."""
        return due(self._engines[-1])

    @property
    def bytes(self) -> int:
        """Memory of all arrays; names, values and keys come on top."""
        return sum(engine.memory.bytes + engine.arrivals.sightings.links.bytes for engine in self._engines)

    # -- a newer model ------------------------------------------------------------------------------------------

    def take_over(self, model: Deployable, threshold: float | None = None) -> list[Decision]:
        """Let a newer model decide the sequences that open from now on; the remembered items are replayed to it.

        Of many models that still wait for a sequence to decide the oldest decides its rest at once.
        """
        model = deployed(model)
        old = self._engines[-1]
        for engine in self._engines:
            engine.require_caught_up()
        if model.has_time != old.model.has_time:
            which = ("needs times, which", "do not carry") if model.has_time else ("knows no times, which", "carry")
            raise SettingError(f"the newer model {which[0]} this stream's items {which[1]}; start a new stream")
        new = self._engine(model, _threshold(model, threshold))
        new.listener = old.listener
        try:
            succeed(new, old)
        except DataError as error:
            raise DataError(
                f"the newer model cannot read items that this stream remembers: {error}; start a new stream"
            ) from None
        self._engines = [engine for engine in self._engines if engine.n_waiting] + [new]
        adopt(new, self._engines[:-1])
        too_many = len(self._engines) - MOST_ENGINES
        return self._tell(engine.give_up() if i < too_many else [] for i, engine in enumerate(self._engines))

    def finish_old(self, keep: int = 1) -> list[Decision]:
        """Decide at once what older models still wait for; the newest `keep` go on, and the last one at least."""
        for engine in self._engines:
            engine.require_caught_up()
        go_on = self._engines[-max(keep, 1) :]
        return self._tell(engine.give_up() if engine not in go_on else [] for engine in self._engines)

    def listen(self, listener: Listener | None) -> None:
        """Let someone hear what is said of every item; None: nobody."""
        for engine in self._engines:
            engine.listener = listener

    # -- saving -------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, note: Mapping[str, Any] | None = None) -> None:
        """Write the whole stream into one file, its model included; `note` is kept beside it."""
        write_state(path, *self.noted(note))

    def noted(self, note: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """A copy of the stream with a note, as `write_state` writes it; the stream may go on meanwhile."""
        if note is not None and not isinstance(note, Mapping):
            raise SettingError(f"the note is {shown(note)}; it must map names to plain data")
        facts, arrays = self.to_plain()
        newest = max(format_of(e.model.config, e.model.readiness.trigger) for e in self._engines)
        return {**facts, "note": dict(note or {}), "format": newest}, arrays

    def to_plain(self, models: Models | None = None) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """The stream as plain data and arrays, its models included; or only named, where `models` knows them."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        engines = []
        for i, engine in enumerate(self._engines):
            facts, held = engine.to_plain()
            arrays |= {f"{i}.{name}": np.ascontiguousarray(array) for name, array in held.items()}
            if models is None:
                model = engine.model.to_plain()
                arrays |= {f"{i}.weights.{name}": np.ascontiguousarray(w) for name, w in engine.model.weights.items()}
            else:
                model = named(engine.model)
            engines.append({"model": model, "threshold": engine.threshold, **facts})
        return {
            "limits": asdict(self.limits), "reasons": dict(self.reasons), "dtype": np.dtype(self._dtype).name,
            "engines": engines,
        }, arrays  # fmt: skip

    @classmethod
    def from_plain(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], models: Models | None = None
    ) -> Stream:  # fmt: skip
        """Go on where the stream was that `to_plain` told of, to the same `models`."""
        stream = cls.__new__(cls)
        stream._models = models
        stream.limits, stream.reasons = Limits(**facts["limits"]), dict(facts["reasons"])
        stream._dtype = _precision(facts["dtype"])
        stream.note, stream._engines = facts.get("note", {}), []
        for i, told in enumerate(facts["engines"]):
            if models is None:
                model = Deployed.from_plain(told["model"], under(f"{i}.weights.", arrays))
            else:
                model = models.find(told["model"])
            engine = stream._engine(model, told["threshold"])
            engine.restore(told, under(f"{i}.", arrays))
            stream._engines.append(engine)
        return stream

    def _engine(self, model: Deployed, threshold: float) -> Engine:
        like = None if self._models is None else self._models.like(model, self.limits, self._dtype)
        return Engine(model, self.limits, threshold, self._dtype, like=like)

    def settle(self, told: Iterable[Decision]) -> None:
        """Hold these decisions for told: whoever fed the same items before has them, should rounding see it else."""
        for decision in told:
            for engine in self._engines:
                live = engine.arrivals.find(decision.tangle, decision.key)
                if live is not None and live.number == decision.sequence and live.decision is None:
                    engine.n_waiting -= engine.until is not None and engine.owns(live)
                    live.decision = decision

    def _wall(self, given: float | None) -> float:
        if given is None:
            return clock.time() if self.limits.idle is not None else 0.0
        return require_seconds(given, "wall")

    def _tell(self, told: Iterable[list[Decision]]) -> list[Decision]:
        """The decisions of each engine in turn, of which newer ones hear first; an old one without any left goes."""
        decisions: list[Decision] = []
        for i, some in enumerate(told):
            for decision in some:
                self.reasons[decision.reason.value] += 1
                for newer in self._engines[i + 1 :]:
                    live = newer.arrivals.find(decision.tangle, decision.key)
                    if live is not None and live.number == decision.sequence:
                        live.decision = decision
            decisions += some
        *older, newest = self._engines
        waiting = [engine for engine in older if engine.n_waiting]
        if len(waiting) < len(older):
            self._engines = [*waiting, newest]
            adopt(newest, waiting)
        for engine in self._engines:
            engine.runner.shrink(engine.coder, FEW)
        return decisions


def resume(path: str | Path) -> Stream:
    """Go on with a saved stream as if it had never stopped."""
    facts, arrays = read_state(path)
    with as_damage(path):
        return Stream.from_plain(facts, arrays)


def _with_expiry(limits: Limits, model: Deployed) -> Limits:
    return replace(limits, expiry=model.schema.expiry) if limits.expiry is None else limits


def _precision(dtype: npt.DTypeLike) -> np.dtype[Any]:
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise SettingError(f"dtype is {np.dtype(dtype)}; it can be float32 or float64")
    return np.dtype(dtype)


def _threshold(model: Deployed, given: float | None) -> float:
    if given is not None:
        require_number(given, "threshold")
    if given is not None and not 0 <= given <= 1:
        raise SettingError(f"the threshold is {given}; it must lie between 0 and 1")
    if given not in (None, model.threshold) and (asked := model.unknown.unknown_below):
        raise SettingError(
            f"unknown_below was settled for θ = {model.threshold:.4g}; turn the model itself elsewhere, with "
            f"model.at or --at unknown_below={asked:g},threshold={given:g}"
        )
    return model.threshold if given is None else given


def _coded(engine: Engine, item: Item) -> Coded:
    try:
        return engine.coder.code(item.value)
    except DataError as error:
        raise DataError(f"tangle {item.tangle!r}, key {item.key!r}, {error}") from None
