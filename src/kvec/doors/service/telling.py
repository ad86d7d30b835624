"""Decisions and what is known of keys, as the service tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from kvec.decide.looking_back import LookedBack
from kvec.decide.stream import Status
from kvec.doors.service.traces import Trace
from kvec.tangle.live import Remembered
from kvec.words.items import Decision, Item, Key, TangleId

Find = Callable[[TangleId, Key], Trace | None]


def decision_line(decision: Decision, n: int, model: str, label_names: Sequence[str], wall: float) -> bytes:
    """A decision as one line of JSON."""
    return kept_json({
        "id": decision.id, "n": n, "model": model, "tangle": decision.tangle, "key": decision.key,
        "sequence": decision.sequence, "label": decision.label, "probability": decision.probability,
        "labels": _labels(label_names, decision.labels, decision.probabilities), "n_observed": decision.n_observed,
        "length": decision.length, "reason": decision.reason.value, "is_known": decision.is_known,
        "familiarity": decision.familiarity, "at": wall,
    })  # fmt: skip


def kept_json(content: Any) -> bytes:
    """JSON that is kept: orjson's own bytes hold on to the 4 kB or more that they were written in."""
    return bytes(memoryview(orjson.dumps(content)))


def key_told(status: Status | None, trace: Trace | None, label_names: Sequence[str]) -> dict[str, Any] | None:
    """What is known of a key, with every item that is kept; None where nothing is."""
    found = status if status is not None else None if trace is None else trace.decision
    if found is None:
        return None
    traced = _items(trace) if trace is not None and trace.sequence == found.sequence else []
    return {
        "tangle": found.tangle, "key": found.key, "sequence": found.sequence, "is_final": found.reason is not None,
        "label": found.label, "probability": found.probability,
        "labels": _labels(label_names, found.labels, found.probabilities), "n_observed": found.n_observed,
        "reason": None if found.reason is None else found.reason.value, "is_known": found.is_known,
        "halt_probability": traced[-1]["halt"] if status is None else status.halt_probability, "trace": traced,
    }  # fmt: skip


def looks_told(looked: LookedBack, places: Sequence[int | None], key: Key, sequence: int) -> dict[str, Any]:
    """The items of a tangle by key, sequence and place in it, and where those of one sequence looked."""
    items = [
        {"i": i, "key": item.key, "sequence": number, "n": n, "time": item.time, "value": item.value}
        for i, (item, number, n) in enumerate(zip(looked.items, looked.numbers, places, strict=True))
    ]
    looks = [
        {"item": i, "at": [{"i": one.place, "share": one.share, "kind": one.kind} for one in looks]}
        for i, (item, number, looks) in enumerate(zip(looked.items, looked.numbers, looked.looks, strict=True))
        if item.key == key and number == sequence
    ]
    return {"key": key, "sequence": sequence, "items": items, "looks": looks}


def places_of(remembered: Sequence[Remembered], find: Find) -> list[int | None]:
    """The place of each item in its sequence, counted back from the newest one where a trace knows that."""
    found: list[int | None] = []
    before: dict[tuple[Key, int], int | None] = {}  # of each sequence, the place of the next item to come
    for item, number, *_ in reversed(remembered):
        name = (item.key, number)
        place = before[name] if name in before else _newest_place(find(item.tangle, item.key), item, number)
        found.append(place)
        before[name] = place - 1 if place else None
    return found[::-1]


def _newest_place(trace: Trace | None, item: Item, number: int) -> int | None:
    """The place of the newest item that is remembered of a sequence, if its trace ends with that one."""
    if trace is None or trace.sequence != number:
        return None
    place, time, value, *_ = trace.items[-1]
    return place if (time, value) == (item.time, item.value) else None


def _items(trace: Trace) -> list[dict[str, Any]]:
    return [
        {
            "i": one.place, "time": one.time, "value": one.value, "halt": one.halt,
            "probabilities": dict(zip(trace.classes, one.probabilities, strict=True)),
        }
        for one in trace.traced()
    ]  # fmt: skip


def _labels(names: Sequence[str], labels: Sequence[str], probabilities: Sequence[float]) -> dict[str, Any]:
    found = zip(names, labels, probabilities, strict=True)
    return {name: {"label": label, "probability": probability} for name, label, probability in found}
