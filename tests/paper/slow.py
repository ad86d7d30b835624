"""Plain-loop definitions of the paper's and SPEC's formulas: slow, obvious, and the judges of the fast ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SlowItem:
    """One arrival in a tangle, as the definitions speak of it."""

    key: int
    value: tuple[object, ...]  # match fields; None is missing
    session_value: tuple[object, ...]
    time: float = 0.0
    is_end: bool = False


def slow_sequences(items: list[SlowItem], expiry: float | None = None) -> list[tuple[int, int, int]]:
    """For each item: the number of sequences opened before its own, its index in it, the key's sequence number."""
    live: dict[int, dict[str, float]] = {}
    opened: dict[int, int] = {}
    total, result = 0, []
    for item in items:
        current = live.get(item.key)
        if current is None or current["ended"] or (expiry is not None and item.time - current["time"] > expiry):
            number = opened.get(item.key, -1) + 1
            opened[item.key] = number
            current = {"sequence": total, "count": 0, "number": number, "ended": 0, "time": item.time}
            live[item.key] = current
            total += 1
        result.append((int(current["sequence"]), int(current["count"]), int(current["number"])))
        current["count"] += 1
        current["time"] = item.time
        current["ended"] = item.is_end
    return result


def slow_sessions(items: list[SlowItem], gap: float | None = None, expiry: float | None = None) -> list[tuple[int, int]]:
    """For each item the pair (sequence, index of the session within it)."""
    sequences = [s for s, _, _ in slow_sequences(items, expiry)]
    newest: dict[int, tuple[SlowItem, int]] = {}
    result = []
    for item, sequence in zip(items, sequences, strict=True):
        if sequence not in newest:
            index = 0
        else:
            before, index = newest[sequence]
            agrees = before.session_value == item.session_value
            near = gap is None or item.time - before.time <= gap
            if not (agrees and near):
                index += 1
        newest[sequence] = (item, index)
        result.append((sequence, index))
    return result


def slow_visible(items: list[SlowItem], window: int, own: int, others: int, gap: float | None = None) -> list[set[int]]:
    """What each item sees under the paper's rule, straight from the definition."""
    sequences = [s for s, _, _ in slow_sequences(items)]
    sessions = slow_sessions(items, gap)
    result = []
    for i, item in enumerate(items):
        recent = [j for j in range(i + 1) if i - j < window]
        seen = {i}
        mine = [j for j in recent if j < i and sequences[j] == sequences[i]]
        seen |= set(sorted(mine, reverse=True)[:own])
        matching = [m for m in recent if sequences[m] != sequences[i] and _matches(items[m], item)]
        listed: list[int] = []
        for session in _unique([sessions[m] for m in sorted(matching, reverse=True)]):
            listed += sorted((j for j in recent if sessions[j] == session), reverse=True)
        seen |= set(listed[:others])
        result.append(seen)
    return result


def _matches(a: SlowItem, b: SlowItem) -> bool:
    return None not in a.value and None not in b.value and a.value == b.value


def _unique(values: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return list(dict.fromkeys(values))
