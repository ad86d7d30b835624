"""What a dial can be aimed at: targets by name, checked before anything is reckoned from them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.dial import LEAST, MOST
from kvec.words.errors import SettingError
from kvec.words.plain import meant, require_known

TARGETS = ("earliness", "accuracy", "threshold", "delay_cost", "cost_per_error", "cost_per_item", "cost_per_second")
WHEN_UNKNOWN = ("abstain_below", "abstain_at_halts", "unknown_below")  # may go with any target
COSTS = ("cost_per_error", "cost_per_item", "cost_per_second")

Target = Mapping[str, Any]  # by name, numbers; `cost_per_error` may be a matrix, (true class, decided class)


def require_target(target: Target) -> None:
    """Refuse what no model can be aimed at."""
    if not target:
        raise SettingError(f"say what to aim at: {', '.join(TARGETS)}")
    if unknown := set(target) - set(TARGETS):
        name, known = min(unknown), (*TARGETS, *WHEN_UNKNOWN)
        raise SettingError(f"unknown target {name!r}; known: {', '.join(known)}{meant(name, known)}")
    for name, value in target.items():
        if name != "cost_per_error" or not isinstance(value, np.ndarray):
            require_number(value, name)
    if set(target) <= set(COSTS):
        if any(not np.all(np.asarray(c) >= 0) for c in target.values()) or not any(np.any(c) for c in target.values()):
            raise SettingError("costs must be numbers from 0 on, and one of them above 0")
    elif len(target) > 1 and set(target) != {"threshold", "delay_cost"}:
        raise SettingError(f"one target at a time, or costs together; found {', '.join(target)}")
    for name in ("earliness", "accuracy"):
        if name in target and not 0 < target[name] <= 1:
            raise SettingError(f"{name} is {target[name]:g}; it must lie above 0 and be at most 1")


def require_mapping(target: Any) -> None:
    """Refuse a target that is not named, such as the text of --at."""
    if not isinstance(target, Mapping):
        raise SettingError(f"at is {target!r:.40}; give targets by name, as in {{'threshold': 0.3}}")


def hints(target: Target) -> list[str]:
    """What costs leave out, where that settles the point by itself, and what they can hardly mean.

    >>> [hint.split(" here")[0] for hint in hints({"cost_per_error": {"a": {"b": 0}}, "cost_per_item": 0.01})]
    ['errors cost nothing']
    """
    errs = _costs_something(target.get("cost_per_error", 0.0))
    waits = any(_costs_something(target.get(name, 0.0)) for name in COSTS[1:])
    if right := _right_ones(target.get("cost_per_error")):
        return [f"{right} costs something here, though it is right; only errors should"]
    if waits and not errs:
        return [
            "errors cost nothing here, so one item of each sequence is read; say what they cost too, as in "
            "cost_per_error=1,cost_per_item=0.01"
        ]
    if errs and not waits:
        return [
            "waiting costs nothing here, so sequences are read for as long as it helps, mostly to their end; say what "
            "it costs too, as in cost_per_error=1,cost_per_item=0.01"
        ]
    return []


def warn_of_costs(target: Target) -> None:
    """Warn who called the caller of what costs leave out."""
    for hint in hints(target):
        warnings.warn(hint, stacklevel=3)


def _right_ones(costs: Any) -> str:
    """A class that costs something where it is decided rightly, in words."""
    if not isinstance(costs, Mapping):
        return ""
    rows = {str(true): row for true, row in costs.items() if isinstance(row, Mapping)}
    return next((f"deciding {name!r} for {name!r}" for name, row in rows.items() if row.get(name)), "")


def _costs_something(cost: Any) -> bool:
    if isinstance(cost, Mapping):
        return any(map(_costs_something, cost.values()))
    return bool(np.any(cost))


def with_classes(target: Target, classes: Sequence[str]) -> Target:
    """The target with costs of errors by class, if they are {true class: {decided class: cost}}, as a matrix.

    >>> with_classes({"cost_per_error": {"a": {"b": 2}}}, ["a", "b"])["cost_per_error"].tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    """
    given = target.get("cost_per_error")
    if not isinstance(given, Mapping | Sequence | np.ndarray):
        return target
    return {**target, "cost_per_error": _matrix(given, classes)}


def _matrix(given: Any, classes: Sequence[str]) -> npt.NDArray[np.float64]:
    how = "give a number, or {true class: {decided class: cost}}"
    if isinstance(given, np.ndarray):
        if given.shape != (len(classes),) * 2 or given.dtype.kind not in "iuf" or not np.isfinite(given).all():
            raise SettingError(
                f"cost_per_error is an array of shape {given.shape}; a row of numbers for each of the {len(classes)} "
                f"true classes is needed, with one for each decided class; or {how}"
            )
        return given.astype(np.float64)
    if not isinstance(given, Mapping):
        raise SettingError(f"cost_per_error is a {type(given).__name__}; {how}")
    matrix = np.zeros((len(classes), len(classes)))
    for true, row in given.items():
        if not isinstance(row, Mapping):
            raise SettingError(f"cost_per_error[{true!r}] is {row!r}; {how}")
        for decided, cost in row.items():
            require_known([str(true), str(decided)], classes, "class", "cost_per_error")
            require_number(cost, f"cost_per_error[{true!r}][{decided!r}]")
            matrix[classes.index(str(true)), classes.index(str(decided))] = cost
    return matrix


def require_number(given: Any, name: str) -> None:
    """Refuse what is no finite number."""
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not np.isfinite(given):
        where = f" between {LEAST:g} and {MOST:g}" if name == "delay_cost" else ""
        raise SettingError(f"{name} is {' '.join(repr(given).split())[:40]}; write a number{where}")
