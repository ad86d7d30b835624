"""What is said of a claim: what was measured, and by fixed rules whether it holds here."""

from __future__ import annotations

from dataclasses import dataclass

from kvec.reproduce.collapse import NEAR
from kvec.reproduce.convergence import GAIN
from kvec.reproduce.curves import Comparison, Spread

HOLDS, PARTLY, FAILS, UNTESTED = "holds", "holds partly", "does not hold here", "not tested"
LEAST = 0.005  # half a point: what counts where the paper names no size
WIDE = 0.05  # by how much a setting must move accuracy or earliness to steer it
CONCORDANT = 0.8  # share of pairs of values in the claimed order
EARLY = 0.1  # earliness that the paper calls the early period
RULES = (
    "A gain **holds** when it has the paper's direction, its 95 % interval over seeds (Student's t, paired by seed) "
    f"lies off zero, and it has at least half of the paper's size, or {100 * LEAST:g} points where the paper names no "
    "size. The paper's percentages of accuracy and HM are read as points; beside each gain stands its ratio to them.",
    "It **holds partly** when one of the two is missing: it is large enough but its interval touches zero, or there is "
    f"only one seed, so no interval; or its interval lies off zero but it is smaller, {100 * LEAST:g} points at least. "
    "A claim with several parts holds partly when some of them hold; a superlative (the poorest, the most important) "
    "does not hold where one comparison goes against it, and holds partly at the most where a rival had not converged.",
    "Else it **does not hold here**.",
    "It is **not tested** without data or points, and when a training that it needs had not converged on validation in "
    f"most seeds. A cell has collapsed when its policy halts within {100 * NEAR:g} % of the way from the first item to "
    "the end, or as close to the end, unless the signal is complete only there; a policy halts by its own word (θ = "
    "0.5) where it was sampled and where true halting positions are known, else at the θ of best HM on validation. "
    f"A cell had settled when the last third of its epochs brought a best HM on validation not more than {GAIN:g} "
    "above the best before. Since learning rates fall to nothing, that says little: where a control was run, the same "
    f"training with more time, all cells of that training had settled when it gained not more than {GAIN:g}. A seed "
    "had converged when one of its cells at least had not collapsed, since the ends of a sweep may, and at least half "
    "of those had settled.",
    "A swept method's curve joins its trained policies by straight lines, from deciding after the first item to "
    "reading all; other methods have their curve from one training, and are compared with the better of a swept "
    "rival's two: its sweep, and its threshold moved after training. Curves are compared at equal earliness by the "
    "mean of their difference over the range that both reach; HM along a curve is that of the interpolated accuracy. "
    "A straight line says nothing about a range in which, in most seeds, none of the trained policies halts; one that "
    "has collapsed halts nowhere.",
    f"α steers accuracy when its values spread it by {100 * WIDE:g} points or more, and earliness by at most half of "
    "that; it does not when they spread earliness more. β steers earliness when its values spread it by "
    f"{100 * WIDE:g} points or more, and in at least {100 * CONCORDANT:g} % of the pairs the larger β is earlier; "
    "it does not when the larger is later in most.",
)


@dataclass(frozen=True)
class Judged:
    """One claim of the paper as it was found on one data set."""

    claim: str
    dataset: str
    method: str  # the method or training that stands for KVEC
    measured: str
    verdict: str
    reason: str


def judge_gain(gain: Spread, size: float | None = None) -> tuple[str, str]:
    """Verdict and reason for a gain that the paper states as positive, and of a size if it names one."""
    least = LEAST if size is None else size / 2
    whole = f"{100 * least:.3g} points" if size is None else f"half of the paper's {100 * size:.3g} points"
    if gain.mean >= least and gain.is_positive:
        return HOLDS, f"at least {whole}, and the interval lies off zero"
    if gain.mean >= least:
        lacking = "one seed has no interval" if gain.n == 1 else "the interval touches zero"
        return PARTLY, f"at least {whole}, but {lacking}"
    if gain.is_positive and gain.mean >= LEAST:
        return PARTLY, f"the interval lies off zero, but the gain is less than {whole}"
    seeds = ", on one seed" if gain.n == 1 else ""
    return FAILS, f"less than {whole}{seeds}" if gain.mean > 0 else f"no gain{seeds}"


def joined(parts: list[tuple[str, str, str]], needs_all: bool = False) -> tuple[str, str]:
    """The verdict on a claim of several named parts (name, verdict, reason): that of all, or partly.

    A claim that needs all of its parts, as a superlative does, does not hold where one of them does not.
    """
    verdicts = {verdict for _, verdict, _ in parts}
    reasons = dict.fromkeys(why for _, _, why in parts)
    told = [(", ".join(name for name, _, own in parts if own == why), why) for why in reasons]
    reason = "; ".join(f"{names}: {why}" for names, why in told)
    if len(verdicts) == 1:
        return verdicts.pop(), reason
    if needs_all and FAILS in verdicts:
        return FAILS, reason
    return (PARTLY if verdicts & {HOLDS, PARTLY} else FAILS), reason


def points_of(gain: Spread) -> str:
    """A difference of shares in points, with its interval and seeds.

    >>> points_of(Spread(0.1427, 0.01, 0.13, 0.15, 0.12, 0.165, 3))
    '+14.3 points (+12.0 to +16.5; 3 seeds)'
    """
    if gain.n == 1:
        return f"{100 * gain.mean:+.1f} points (1 seed)"
    return f"{100 * gain.mean:+.1f} points ({100 * gain.low:+.1f} to {100 * gain.high:+.1f}; {gain.n} seeds)"


def range_of(found: Comparison) -> str:
    """The range of earliness that was compared.

    >>> range_of(Comparison(Spread(0, 0, 0, 0, 0, 0, 1), 0.023, 0.08))
    '2.3–8 %'
    """
    return f"{100 * found.low:.3g}–{100 * found.high:.3g} %"
