"""What is said of a claim: what was measured, and by fixed rules whether it holds here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvec.reproduce.collapse import NEAR
from kvec.reproduce.convergence import BLIND, GAIN, doubts
from kvec.reproduce.curves import Comparison, Spread
from kvec.reproduce.results import Results

HOLDS, PARTLY, FAILS, UNTESTED = "holds", "holds partly", "does not hold here", "not tested"
UNDECIDED = "undecided"
KINDS = (HOLDS, PARTLY, FAILS, UNDECIDED, UNTESTED)
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
    "A claim with several parts holds partly when some of them hold, or hold partly and none fails; a superlative (the "
    "most important) does not hold where one comparison goes against it, and holds partly at the most where a rival "
    "had not converged. Where three comparisons or more count, *nearly* the poorest allows one "
    "to fail. Of other parts the worst counts: one that fails, then one that is undecided, then one not tested.",
    "It is **undecided** when it does neither, but the interval over seeds holds gains of the size that is asked for.",
    "Else it **does not hold here**. One seed has no interval: it lets a claim hold partly at the most, and where it "
    "goes against a claim that is said.",
    "It is **not tested** without data or points, and when a training that it needs had collapsed or named one class "
    "in most seeds. Where KVEC had not converged, being still on the rise, what it lacks may be time: what does not "
    "hold is not tested either, and what holds does so in equal time, so partly. A rival that had not converged may "
    "only be worse than it could be: what fails against it fails all the same, and what holds does so partly. What is "
    "said of α, β and the number of keys is not tested then. "
    f"A sampled policy has collapsed when it halts by its own word (θ = 0.5), on test, within {100 * NEAR:g} % of the "
    "way from the first item to the end, or as close to the end, unless the signal is complete only there. A network "
    f"names one class only when its macro recall is nowhere {100 * BLIND:g} points above chance. A cell had "
    "settled when the "
    f"last third of its epochs brought a best HM on validation not more than {GAIN:g} above the best before. Since "
    "learning rates fall to nothing, that says little: where a control was run, the same "
    f"training with more time, all cells of that training had settled when it gained not more than {GAIN:g}. A seed "
    "had converged when one of its cells at least had neither collapsed nor named one class only, since the ends of a "
    "sweep may, and at least half of those had settled.",
    "A swept method's curve joins its trained policies by straight lines, from deciding after the first item to "
    "reading all; claims are judged up to its latest trained policy that has not collapsed, and say nothing about a "
    "range in which, in most seeds, none halts. Other methods have their curve from one training, and are compared "
    "with the better of a swept rival's two: its sweep, and its threshold moved after training. Curves are compared at "
    "equal earliness by the mean of their difference over the range that both reach; HM along a curve is that of the "
    "interpolated accuracy. Of several rivals the one counts over which KVEC gains least on test, each over the "
    "range that it shares with KVEC, which favours them.",
    "All settings were tuned on Traffic-FG alone. Seeds draw other splits of the same data, so intervals over seeds "
    "are somewhat too narrow for new data.",
    f"α steers accuracy when its values spread it by {100 * WIDE:g} points or more, and earliness by at most half of "
    "that; it does not when they spread earliness more. β steers earliness when its values spread it by "
    f"{100 * WIDE:g} points or more, and in at least {100 * CONCORDANT:g} % of the pairs the larger β is earlier; "
    "it does not when the larger is later in most. Attention fades when it is higher below 10 % earliness than later "
    "and than in the last bin. Halting positions are closer by half an item or more. What the number of keys does is "
    "the slope of a straight line over its doublings.",
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
    if gain.n > 1 and gain.high >= least:
        return UNDECIDED, f"the interval holds gains of {whole}"
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
    if HOLDS in verdicts or (PARTLY in verdicts and FAILS not in verdicts):
        return (FAILS if needs_all and FAILS in verdicts else PARTLY), reason
    return next(verdict for verdict in (FAILS, UNDECIDED, UNTESTED) if verdict in verdicts), reason


def in_doubt(
    results: Results, dataset: str, ours: Sequence[str], theirs: Sequence[str], verdict: str, reason: str
) -> tuple[str, str]:
    """A verdict on methods that speak for a claim, against others, in the light of which trainings had converged."""
    doubt = doubts(results, dataset, dict.fromkeys((*ours, *theirs)))
    if not doubt:
        return verdict, reason
    if doubts(results, dataset, (*ours, *theirs), only_dead=True):
        return UNTESTED, doubt
    if verdict in (FAILS, UNDECIDED) and doubts(results, dataset, ours):
        return UNTESTED, doubt
    return (PARTLY if verdict == HOLDS else verdict), f"{reason}; in equal time of training: {doubt}"


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
