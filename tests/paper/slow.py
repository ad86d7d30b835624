"""Plain-loop definitions of the paper's formulas, made exact: slow, obvious, and the judges of the fast ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SlowItem:
    """One arrival in a tangle, as the definitions speak of it."""

    key: int
    value: tuple[object, ...]  # match fields; None is missing
    session_value: tuple[object, ...]
    time: float = 0.0
    is_end: bool = False


def slow_sequences(items: Sequence[SlowItem], expiry: float | None = None) -> list[tuple[int, int, int]]:
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


def slow_reasons(items: Sequence[SlowItem], expiry: float | None = None) -> list[str]:
    """Why each sequence is over when the tangle is: its source ended it, it was idle for too long, or nothing."""
    newest = {sequence: item for item, (sequence, _, _) in zip(items, slow_sequences(items, expiry), strict=True)}
    reasons = []
    for sequence in sorted(newest):
        idle = items[-1].time - newest[sequence].time
        is_expired = expiry is not None and idle > expiry
        reasons.append("ended" if newest[sequence].is_end else "expired" if is_expired else "closed")
    return reasons


def slow_sessions(
    items: Sequence[SlowItem], gap: float | None = None, expiry: float | None = None
) -> list[tuple[int, int]]:
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


def slow_visible(
    items: Sequence[SlowItem], window: int, own: int, others: int, gap: float | None = None, expiry: float | None = None
) -> list[set[int]]:
    """What each item sees under the paper's rule, straight from the definition."""
    sequences = [s for s, _, _ in slow_sequences(items, expiry)]
    sessions = slow_sessions(items, gap, expiry)
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


def slow_window(n: int, window: int) -> list[set[int]]:
    """What each item sees under the window rule."""
    return [{j for j in range(i + 1) if i - j < window} for i in range(n)]


def slow_relations(
    items: Sequence[SlowItem], window: int, own: int, others: int, recent: int, gap: float | None = None,
    expiry: float | None = None,
) -> list[dict[int, str]]:  # fmt: skip
    """What each item sees under the typed rule, and as what."""
    sequences = [s for s, _, _ in slow_sequences(items, expiry)]
    sessions = slow_sessions(items, gap, expiry)
    by_the_paper = slow_visible(items, window, own, others, gap, expiry)
    result = []
    for i, item in enumerate(items):
        correlated = {sessions[j] for j in by_the_paper[i] if sequences[j] != sequences[i]}
        found = {}
        for j in range(i + 1):
            if j in by_the_paper[i] or (i - j < window and i - j <= recent):
                if sequences[j] == sequences[i]:
                    found[j] = "own"
                elif sessions[j] in correlated:
                    found[j] = "value-correlated"
                elif item.session_value and items[j].session_value == item.session_value:
                    found[j] = "same session value"
                else:
                    found[j] = "other"
        result.append(found)
    return result


def _matches(a: SlowItem, b: SlowItem) -> bool:
    return bool(a.value) and None not in a.value and None not in b.value and a.value == b.value


def _unique(values: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return list(dict.fromkeys(values))


def slow_code(entry: object, values: Sequence[object]) -> int:
    """The code of a categorical entry: 0 missing, 1 unknown, then the known ones in their order."""
    if entry is None:
        return 0
    return values.index(entry) + 2 if entry in values else 1


def slow_bin(entry: float | None, edges: Sequence[float]) -> int:
    """The code of a binned entry: 0 missing, then 2 for below the first edge and one more for each edge reached."""
    return 0 if entry is None else 2 + sum(1 for edge in edges if entry >= edge)


def slow_gap(gap: float) -> int:
    """The whole number of doublings from a microsecond to the gap, from 0 to 47."""
    steps = 0
    while steps < 47 and gap >= 1e-6 * 2.0 ** (steps + 1):
        steps += 1
    return steps


def slow_attention(
    q: Tensor, k: Sequence[Tensor], v: Sequence[Tensor], relations: Sequence[int], table: Tensor
) -> tuple[Tensor, Tensor]:
    """Mix the visible items for one query: the mixed vector, and the share of each item, mean over heads.

    What is added to a score stands in the table, (heads, relations).
    """
    heads = len(table)
    size = len(q) // heads
    mixed, shares = [], torch.zeros(len(k), dtype=q.dtype)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        products = [float(q[part] @ key[part]) / math.sqrt(size) for key in k]
        scores = [product + float(table[head, r]) for product, r in zip(products, relations, strict=True)]
        weights = [math.exp(score - max(scores)) for score in scores]
        weights = [weight / sum(weights) for weight in weights]
        mixed.append(sum(weight * value[part] for weight, value in zip(weights, v, strict=True)))
        shares += torch.tensor(weights, dtype=q.dtype) / heads
    return torch.cat(mixed), shares  # type: ignore[arg-type]


def slow_norm(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Layer normalisation of one vector."""
    mean = sum(x.tolist()) / len(x)
    variance = sum((number - mean) ** 2 for number in x.tolist()) / len(x)
    return (x - mean) / math.sqrt(variance + 1e-5) * scale + shift


def slow_block(
    xs: Sequence[Tensor], visible: Sequence[Sequence[int]], relations: Sequence[Sequence[int]], w: Mapping[str, Tensor]
) -> list[Tensor]:
    """An attention block over a whole tangle, item by item; weights by name."""
    normed = [slow_norm(x, w["norm1.weight"], w["norm1.bias"]) for x in xs]
    projected = [w["attention.project.weight"] @ x + w["attention.project.bias"] for x in normed]
    q, k, v = zip(*(p.chunk(3) for p in projected), strict=True)
    result = []
    for i, x in enumerate(xs):
        seen = [k[j] for j in visible[i]], [v[j] for j in visible[i]]
        mixed, _ = slow_attention(q[i], *seen, relations[i], w["attention.relation"])
        x = x + w["attention.out.weight"] @ mixed + w["attention.out.bias"]
        hidden = w["widen.weight"] @ slow_norm(x, w["norm2.weight"], w["norm2.bias"]) + w["widen.bias"]
        relu = torch.tensor([max(number, 0.0) for number in hidden.tolist()], dtype=x.dtype)
        result.append(x + w["narrow.weight"] @ relu + w["narrow.bias"])
    return result


def slow_fusion(items: Sequence[Tensor], gates: Mapping[str, tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The paper's gated cell over the items of one sequence: each gate is (W, b) over [s; E]. All representations."""
    size = len(gates["forget"][1])
    s = torch.zeros(size, dtype=items[0].dtype)
    cell = torch.zeros(size, dtype=items[0].dtype)
    result = []
    for item in items:
        both = torch.cat([s, item])
        gate = {name: w @ both + b for name, (w, b) in gates.items()}
        f, i, o = (_sigmoid(gate[name]) for name in ("forget", "input", "output"))
        cell = f * cell + i * _tanh(gate["cell"])
        s = o * _tanh(cell)
        result.append(s)
    return result


def _sigmoid(x: Tensor) -> Tensor:
    return torch.tensor([1 / (1 + math.exp(-number)) for number in x.tolist()], dtype=x.dtype)


def _tanh(x: Tensor) -> Tensor:
    return torch.tensor([math.tanh(number) for number in x.tolist()], dtype=x.dtype)


def slow_cross_entropy(logits: Sequence[float], truth: int, weight: float = 1.0) -> float:
    """-log p of the true class; nothing where the label is not known."""
    if truth < 0:
        return 0.0
    total = sum(math.exp(logit) for logit in logits)
    return -weight * math.log(math.exp(logits[truth]) / total)


def slow_stopping(halt: Sequence[float]) -> list[float]:
    """P_i = h_i Π_{j<i} (1 - h_j) from halting probabilities; the last item takes the rest."""
    result: list[float] = []
    for i, h in enumerate(halt):
        waited = math.prod(1 - earlier for earlier in halt[:i])
        result.append(waited if i == len(halt) - 1 else waited * h)
    return result


def enumerated_stops(halt: Sequence[float]) -> list[tuple[float, int]]:
    """Every way the actions of one sequence can fall, as (its probability, where it stops)."""
    result = []
    for actions in itertools.product((True, False), repeat=len(halt)):
        probability = math.prod(h if a else 1 - h for h, a in zip(halt, actions, strict=True))
        result.append((probability, actions.index(True) if True in actions else len(halt) - 1))
    return result


def slow_every(costs: Sequence[float], is_early: bool = False) -> float:
    """The mean cost of a sequence over its lengths, the n-th counted by 1/n where these are to count early."""
    weight = [1 / n if is_early else 1.0 for n in range(1, len(costs) + 1)]
    return sum(w * c for w, c in zip(weight, costs, strict=True)) / sum(weight)


def slow_expected(
    sequences: Sequence[tuple[Sequence[float], Sequence[float], Sequence[float]]], delay_cost: float, floor: float,
    is_early: bool = False,
) -> float:  # fmt: skip
    """The expected objective of sequences (h, cost, d) by listing all their actions; cost is CE at each item."""
    total = 0.0
    for halt, cost, delay in sequences:
        expected = sum(p * (cost[i] + delay_cost * delay[i]) for p, i in enumerated_stops(halt))
        total += (1 - floor) * expected + floor * slow_every(cost, is_early)
    return total / len(sequences)


@dataclass(frozen=True)
class SlowEpisode:
    """One sequence as the paper's objective meets it: what the heads said up to its end, and where it stopped."""

    halt: Sequence[float]  # probability of Halt at each item
    logits: Sequence[Sequence[float]]  # class logits at each item
    baseline: Sequence[float]
    truth: int
    n_observed: int
    chose: bool  # False where the sequence ended before any Halt
    weight: float = 1.0


def slow_paper(episodes: Sequence[SlowEpisode], n_tangles: int, returns: str) -> dict[str, float]:
    """l1, l2, l3 and the baseline's error, summed over items and sequences, averaged over tangles."""
    l1 = l2 = l3 = error = 0.0
    n_seen = 0
    for e in episodes:
        n = e.n_observed
        final = list(e.logits[n - 1])
        reward = 1.0 if final.index(max(final)) == e.truth else -1.0
        l1 += slow_cross_entropy(final, e.truth, e.weight)
        for i in range(1, n + 1):  # as the paper counts
            value = sum(reward for _ in range(i + 1, n + 1)) if returns == "sum" else reward
            h = e.halt[i - 1]
            log_action = math.log(h) if i == n and e.chose else math.log(1 - h)
            l2 -= (value - e.baseline[i - 1]) * log_action
            l3 -= math.log(h)
            error += (e.baseline[i - 1] - value) ** 2
            n_seen += 1
    return {
        "classification": l1 / n_tangles,
        "policy": l2 / n_tangles,
        "lateness": l3 / n_tangles,
        "baseline": error / n_seen,
    }
