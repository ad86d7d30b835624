"""Decisions and what is known of keys, as the service tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from kvec.decide.looking_back import LookedBack
from kvec.decide.stream import Status
from kvec.doors.service.traces import Trace
from kvec.words.items import Decision


def decision_line(decision: Decision, n: int, model: str, label_names: Sequence[str], wall: float) -> bytes:
    """A decision as one line of JSON."""
    return orjson.dumps({
        "id": decision.id, "n": n, "model": model, "tangle": decision.tangle, "key": decision.key,
        "sequence": decision.sequence, "label": decision.label, "probability": decision.probability,
        "labels": _labels(label_names, decision.labels, decision.probabilities), "n_observed": decision.n_observed,
        "length": decision.length, "reason": decision.reason.value, "is_known": decision.is_known,
        "familiarity": decision.familiarity, "at": wall,
    })  # fmt: skip


def key_told(status: Status | None, trace: Trace | None, label_names: Sequence[str]) -> dict[str, Any] | None:
    """What is known of a key, with every item that is kept; None where nothing is."""
    found: dict[str, Any]
    if status is not None:
        found = {
            "tangle": status.tangle, "key": status.key, "sequence": status.sequence, "is_final": status.is_final,
            "label": status.label, "probability": status.probability,
            "labels": _labels(label_names, status.labels, status.probabilities), "n_observed": status.n_observed,
            "reason": None if status.reason is None else status.reason.value,
            "halt_probability": status.halt_probability,
        }  # fmt: skip
    elif trace is not None and trace.decision is not None:
        decision = trace.decision
        found = {
            "tangle": decision.tangle, "key": decision.key, "sequence": decision.sequence, "is_final": True,
            "label": decision.label, "probability": decision.probability,
            "labels": _labels(label_names, decision.labels, decision.probabilities),
            "n_observed": decision.n_observed, "reason": decision.reason.value,
            "halt_probability": trace.traced()[-1].halt,
        }  # fmt: skip
    else:
        return None
    is_its = trace is not None and trace.sequence == found["sequence"]
    return {**found, "trace": _items(trace) if trace is not None and is_its else []}


def looks_told(looked: LookedBack, key: str | int, sequence: int) -> dict[str, Any]:
    """The items of a tangle, and where those of one key looked."""
    items = [{"i": i, "key": item.key, "time": item.time, "value": item.value} for i, item in enumerate(looked.items)]
    looks = [
        {"item": i, "at": [{"i": one.place, "share": one.share, "kind": one.kind} for one in looks]}
        for i, (item, number, looks) in enumerate(zip(looked.items, looked.numbers, looked.looks, strict=True))
        if item.key == key and number == sequence
    ]
    return {"items": items, "looks": looks}


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
