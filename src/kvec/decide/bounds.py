"""p-values of the risk E[L] / E[K]: how unlikely it is that n independent units look this good when their risk is α.

L of the K sequences of a unit are lost. The risk is at least α exactly when the mean of x = (L − αK) / K_max + α, which
lies in [0, 1], is at least α. A p-value of at most δ says, with confidence 1 − δ, that the risk is below α.

Letters: P rows (samples, or operating points), n units; `lost` is L / K_max, `held` is K / K_max.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kvec.words.errors import SettingError

BOUNDS = ("betting", "hoeffding-bentkus", "binomial")
PRIOR = 0.5  # whole losses, K_max at once, that bets start from before any is seen
Floats = npt.NDArray[np.float64]

_KNOTS = np.linspace(1.0, 0.0, 2049)  # ρ, from which κ = 1 − ρ + ρ·ln ρ grows from 0 to 1
_ROOT_KAPPA = np.sqrt(np.maximum(1 - _KNOTS + _KNOTS * np.log(np.maximum(_KNOTS, 1e-300)), 0))


def p_values(bound: str, lost: Floats, held: Floats, alpha: npt.ArrayLike, delta: float) -> Floats:
    """(P,) by the named bound; `delta` is the level that the bets of `betting` aim at."""
    if bound == "betting":
        return betting(lost, held, alpha, delta)
    if bound == "hoeffding-bentkus":
        return hoeffding_bentkus(mapped(lost, held, alpha), alpha)
    if bound != "binomial":
        raise SettingError(f"the bound is {bound!r}; it can be {', '.join(BOUNDS)}")
    if not (np.all(held == 1) and np.isin(lost, (0.0, 1.0)).all()):
        raise SettingError("the binomial bound needs exactly one sequence in every unit; use betting, which takes any")
    return binomial(lost.sum(axis=1), lost.shape[1], alpha)


def mapped(lost: Floats, held: Floats, alpha: npt.ArrayLike) -> Floats:
    """(P, n) x, with a mean of at least α exactly when the risk is at least α.

    >>> mapped(np.array([[0.0, 1.0, 0.0]]), np.array([1.0, 1.0, 0.25]), 0.5).tolist()
    [[0.0, 1.0, 0.375]]
    """
    rate = np.reshape(alpha, (-1, 1))
    x: Floats = lost - rate * held + rate
    return x.clip(0, 1)  # it lies in there but for rounding


def binomial(losses: npt.ArrayLike, n: int, alpha: npt.ArrayLike) -> Floats:
    """(P,) P(Bin(n, α) ≤ losses), exact.

    >>> binomial([0, 1], 2, 0.5).tolist()
    [0.25, 0.75]
    """
    counts, rate = np.broadcast_arrays(np.atleast_1d(losses), np.atleast_1d(np.asarray(alpha, np.float64)))
    found = np.ones(counts.shape)
    for p in np.unique(rate):
        where = (rate == p) & (counts < n)
        if where.any():
            tail = _binomial_tail(n, float(p), int(counts[where].max()))
            found[where] = np.where(counts[where] < 0, 0.0, tail[np.maximum(counts[where], 0).astype(np.int64)])
    return found


def hoeffding_bentkus(x: Floats, alpha: npt.ArrayLike) -> Floats:
    """(P,) the smaller of Hoeffding's exponential bound and Bentkus's e·P(Bin(n, α) ≤ ⌈Σ x⌉)."""
    n = x.shape[1]
    rate = np.broadcast_to(np.asarray(alpha, np.float64), x.shape[:1])
    low = np.clip(np.minimum(x.mean(axis=1), rate), 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.where(low > 0, low * np.log(low / rate), 0.0)
        entropy += np.where(low < 1, (1 - low) * np.log((1 - low) / (1 - rate)), 0.0)
    bentkus = math.e * binomial(np.ceil(x.sum(axis=1) - 1e-9), n, rate)
    found: Floats = np.minimum(np.exp(-n * entropy), np.minimum(bentkus, 1.0))
    return found


def betting(lost: Floats, held: Floats, alpha: npt.ArrayLike, delta: float) -> Floats:
    """(P,) 1 / the largest capital of one who bets, unit after unit, that the risk is below α.

    Capital 1 is multiplied by 1 + λ(αK − L) / K_max with λ between 0 and 1/(1 − α), chosen before the unit is seen:
    where the risk is α or more nobody can expect to gain, and the chance to ever hold 1/δ is at most δ (Ville),
    whatever λ is. The λ here aims at 1/δ by the last unit: it is the best constant one for the gain still missing if
    losses came in jumps of the size seen so far, worked out anew before each unit.
    """
    n = lost.shape[1]
    rate = np.broadcast_to(np.asarray(alpha, np.float64), lost.shape[:1])
    held = np.broadcast_to(held, lost.shape)
    share = np.full(len(lost), float(delta))  # of the aim that the capital is; 1 is enough, and ends the betting
    largest = share.copy()
    squares = np.full(len(lost), PRIOR)
    sums, size = squares.copy(), np.ones(len(lost))
    for t in range(n):
        jump = np.minimum(squares / sums, 1.0)
        expected = -np.log1p(-rate) * (n - t) * size / (t + 1) / jump  # jumps still to come where the risk is α
        missing = -np.log(np.clip(share, 1e-300, 1.0))
        rho = np.interp(np.sqrt(missing / expected), _ROOT_KAPPA, _KNOTS)
        stake = np.minimum((1 - rho) / jump, 1.0) / (1 - rate)
        gain = np.maximum(1 + stake * (rate * held[:, t] - lost[:, t]), 0.0)
        share = np.where(largest < 1, share * gain, share)
        largest = np.maximum(largest, share)
        squares = squares + lost[:, t] ** 2
        sums = sums + lost[:, t]
        size = size + held[:, t]
    return np.minimum(delta / largest, 1.0)


def _binomial_tail(n: int, p: float, most: int) -> Floats:
    """P(Bin(n, p) ≤ k) for k = 0 … most."""
    if p <= 0 or p >= 1:
        return np.full(most + 1, 1.0 if p <= 0 else 0.0)
    k = np.arange(1, most + 1)
    steps = np.log((n - k + 1) / k) + math.log(p) - math.log1p(-p)
    logs = n * math.log1p(-p) + np.concatenate([[0.0], np.cumsum(steps)])
    tail: Floats = np.minimum(np.exp(np.logaddexp.accumulate(logs)), 1.0)
    return tail
