"""Class probabilities made for triggers: walks of noisy evidence, coins with exact posteriors, and two kinds of key."""

from __future__ import annotations

import numpy as np

from kvec.decide.triggers.base import Floats, Ints, Prefixes


def prefixes(probabilities: list[Floats], truth: list[int]) -> Prefixes:
    """Sequences given one by one."""
    offsets = np.cumsum([0, *(len(p) for p in probabilities)])
    return Prefixes(offsets, np.concatenate(probabilities), np.array(truth))


def apart(given: Prefixes) -> list[Floats]:
    """The probabilities of each sequence."""
    return np.split(given.probabilities, given.offsets[1:-1])


def taken(given: Prefixes, order: Ints) -> Prefixes:
    """These sequences, in this order."""
    parts = apart(given)
    return prefixes([parts[i] for i in order], given.truth[order].tolist())


def cut(given: Prefixes, length: Ints) -> Prefixes:
    """Every sequence's first items."""
    return prefixes([p[:n] for p, n in zip(apart(given), length, strict=True)], given.truth.tolist())


def walks(n: int, seed: int, n_classes: int = 4, shortest: int = 1, longest: int = 40) -> Prefixes:
    """Evidence that adds up, item by item, to ever surer and mostly right probabilities of float32."""
    rng = np.random.default_rng(seed)
    length, truth = rng.integers(shortest, longest + 1, n), rng.integers(0, n_classes, n)
    found = []
    for size, own in zip(length, truth, strict=True):
        evidence = rng.normal(0, 0.6, (size, n_classes))
        evidence[:, own] += 0.36
        found.append(softmax(evidence.cumsum(axis=0)).astype(np.float32))
    return prefixes(found, truth.tolist())


def coins(n: int, seed: int, bias: float, length: int, share: float = 0.5) -> Prefixes:
    """Tosses of one of two coins, and the exact posterior after each; `share` is how many are of class 1."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < share).astype(np.int64)
    heads = rng.random((n, length)) < np.where(truth == 1, bias, 1 - bias)[:, None]
    lead = np.where(heads, 1, -1).cumsum(axis=1)
    odds = lead * np.log(bias / (1 - bias)) + np.log(share / (1 - share))
    shares = softmax(np.stack([np.zeros_like(odds), odds], axis=-1))
    return prefixes(list(shares), truth.tolist())


def best_coin_cost(bias: float, length: int, per_item: float) -> float:
    """The lowest cost that any rule can reach on fair draws of two coins: every state, from the last toss backwards."""
    lead = np.arange(-length, length + 1)
    right = 1 / (1 + (bias / (1 - bias)) ** -np.abs(lead.astype(float)))  # posterior of the likelier coin
    is_one = 1 / (1 + (bias / (1 - bias)) ** -lead.astype(float))
    up = is_one * bias + (1 - is_one) * (1 - bias)  # chance of heads next
    cost = 1 - right + per_item * length
    for n in range(length - 1, 0, -1):
        wait = np.full(lead.size, np.inf)
        wait[1:-1] = (up * np.roll(cost, -1) + (1 - up) * np.roll(cost, 1))[1:-1]
        cost = np.minimum(1 - right + per_item * n, wait)
    return float(cost[[length - 1, length + 1]].mean())


def two_kinds(n: int, seed: int, sure: float, at: int = 5) -> Prefixes:
    """Half of the sequences tell their class (0 or 1) for certain at an item, half (2 or 3) never do.

    Before that the first kind is 0.7 sure, the second is `sure`, and stays so. One in ten ends after three items.
    """
    rng = np.random.default_rng(seed)
    found, truth = [], []
    for _ in range(n):
        length = 3 if rng.random() < 0.1 else int(rng.choice([12, 24]))
        is_telling = rng.random() < 0.5
        own, first, p = int(rng.random() < 0.5), 0 if is_telling else 2, 0.7 if is_telling else sure
        guess = own if rng.random() < p else 1 - own
        shares = np.zeros((length, 4))
        shares[:, first + guess], shares[:, first + 1 - guess] = p, 1 - p
        if is_telling:
            shares[at - 1 :] = np.eye(4)[own]
        found.append(shares)
        truth.append(first + own)
    return prefixes(found, truth)


def best_two_kinds_cost(given: Prefixes, per_item: float) -> float:
    """The lowest cost on these sequences when each kind stops at a number of items of its own: all pairs are tried.

    Nothing else could be better: until a kind tells its class, or ends, nothing tells its sequences apart.
    """
    is_telling = given.truth < 2
    costs = np.array([costs_of(given, np.minimum(given.length, n), per_item) for n in range(1, 25)])
    best: float = sum(costs[:, kind].sum(axis=1).min() for kind in (is_telling, ~is_telling))
    return best / len(given.truth)


def costs_of(given: Prefixes, stopped: Ints, per_item: float) -> Floats:
    """(S,) the chance of an error, by probabilities that are exact, and the delay."""
    risk: Floats = 1 - given.probabilities[given.rows(stopped)].max(axis=1)
    return risk + per_item * stopped


def lowest_cost(given: Prefixes, sweep: Ints, per_item: float) -> float:
    """Of all settings of a trigger."""
    return min(float(costs_of(given, row, per_item).mean()) for row in sweep)


def accuracy(given: Prefixes, stopped: Ints) -> float:
    """Share of right classes when decided so."""
    return float(np.mean(given.predicted(stopped) == given.truth))


def softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return shares
