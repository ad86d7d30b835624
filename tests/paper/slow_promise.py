"""The bounds and the test of operating points as plain definitions, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

PRIOR = 0.5


def slow_binomial(losses: int, n: int, alpha: Fraction) -> Fraction:
    """P(Bin(n, α) ≤ losses), in whole numbers."""
    return sum((math.comb(n, k) * alpha**k * (1 - alpha) ** (n - k) for k in range(losses + 1)), Fraction(0))


def slow_hoeffding_bentkus(x: Sequence[float], alpha: float) -> float:
    n, mean = len(x), min(sum(x) / len(x), alpha)
    entropy = (mean * math.log(mean / alpha) if mean > 0 else 0.0) + (
        (1 - mean) * math.log((1 - mean) / (1 - alpha)) if mean < 1 else 0.0
    )
    tail = slow_binomial(min(math.ceil(sum(x) - 1e-9), n), n, Fraction(alpha))
    return min(math.exp(-n * entropy), math.e * float(tail), 1.0)


def slow_share_of_jumps(kappa: float) -> float:
    """ρ with 1 − ρ + ρ ln ρ = κ, by halving."""
    if kappa >= 1:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        if 1 - middle + (middle * math.log(middle) if middle else 0.0) > kappa:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def slow_betting(losses: Sequence[int], keys: Sequence[int], most_keys: int, alpha: float, delta: float) -> float:
    """1 / the largest capital."""
    capital = largest = 1.0
    squares = sums = PRIOR
    size = 1.0
    for t, (lost, held) in enumerate(zip(losses, keys, strict=True)):
        jump = min(squares / sums, 1.0)
        jumps_to_come = -math.log(1 - alpha) * (len(losses) - t) * (size / (t + 1)) / jump
        missing = math.log(1 / delta) - math.log(max(capital, 1e-290))
        rho = slow_share_of_jumps(missing / jumps_to_come)
        stake = min((1 - rho) / jump, 1.0) / (1 - alpha)
        assert 0 <= stake <= 1 / (1 - alpha), "a stake from which nobody can owe"
        if largest < 1 / delta:
            capital *= max(1 + stake * (alpha * held - lost) / most_keys, 0.0)
            largest = max(largest, capital)
        squares += (lost / most_keys) ** 2
        sums += lost / most_keys
        size += held / most_keys
    return min(1 / largest, 1.0)


def slow_choice(p: Sequence[float], delta: float) -> int:
    """How many points pass, in their order."""
    for i, one in enumerate(p):
        if one > delta:
            return i
    return len(p)
