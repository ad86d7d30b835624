"""The paper's claims of §V, each with what the results say of it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kvec.reproduce import discussions
from kvec.reproduce.convergence import doubts
from kvec.reproduce.curves import (
    Comparison,
    Lines,
    best_hm,
    compare,
    drawn_methods,
    is_reached,
    lines_of,
    spread,
    swept_points,
)
from kvec.reproduce.looks import ABLATION, MOVED, RIVALS, look_of
from kvec.reproduce.results import Results
from kvec.reproduce.verdicts import (
    EARLY,
    FAILS,
    HOLDS,
    PARTLY,
    UNTESTED,
    Judged,
    in_doubt,
    joined,
    judge_gain,
    points_of,
    range_of,
)

VARIANTS = ("kvec-paper", "kvec")  # KVEC in the paper's objective, and in the one that goes beyond it
RIVAL = "srn-earliest"
NOT_ABOUT_RIVALS = ("synthetic-early", "synthetic-late", "made-early", "made-late")  # made for halting positions


@dataclass(frozen=True)
class Gain:
    """A claim of size: so much more accuracy or HM on a data set, over a range of earliness."""

    dataset: str
    size: float
    low: float = 0.0
    high: float = 1.0


ACCURACY = (
    Gain("traffic-fg", 0.175, 0.02, 0.08), Gain("ustc-tfc2016", 0.047, 0.02, 0.08),
    Gain("traffic-app", 0.064, 0.02, 0.08), Gain("movielens-1m", 0.078, 0.1, 0.4),
)  # fmt: skip
HM = (Gain("traffic-fg", 0.14), Gain("movielens-1m", 0.053), Gain("ustc-tfc2016", 0.029), Gain("traffic-app", 0.037))


def judge(results: Results) -> list[Judged]:
    """Every claim of the paper, judged on every data set that it is about or that can test it."""
    rows = [_accuracy(results, gain, variant) for gain in ACCURACY for variant in VARIANTS]
    rows += [_hm(results, gain, variant) for gain in HM for variant in VARIANTS]
    compared = [name for name in results.datasets() if name not in NOT_ABOUT_RIVALS]
    for dataset in compared:
        rows += [row for variant in VARIANTS for row in _highest(results, dataset, variant)]
    for dataset in compared:
        rows += _poorest(results, dataset)
    with_ablation = [name for name in results.datasets() if "kvec-no-value" in results.methods(name)]
    for dataset in with_ablation:
        rows += [*_ablation(results, dataset), _value(results, dataset)]
    return rows + discussions.judge(results)


def _accuracy(results: Results, gain: Gain, variant: str) -> Judged:
    share = f"{100 * gain.low:.0f}–{100 * gain.high:.0f} %"
    claim = f"accuracy +{100 * gain.size:.3g} points over SRN-EARLIEST at earliness {share}"
    return _gain(results, gain, variant, claim, (RIVAL,), "accuracy")


def _hm(results: Results, gain: Gain, variant: str) -> Judged:
    claim = f"HM +{100 * gain.size:.3g} % over the best rival, on average along the curve"
    return _gain(results, gain, variant, claim, RIVALS, "hm")


def _gain(
    results: Results, gain: Gain, variant: str, claim: str, against: tuple[str, ...], measure: str
) -> Judged:  # fmt: skip
    """A claim of size against the best of some rivals: the comparison is shown even where it cannot count."""

    def judged(measured: str, verdict: str, reason: str) -> Judged:
        return Judged(claim, gain.dataset, variant, measured, verdict, reason)

    if gain.dataset not in results.datasets():
        return judged("", UNTESTED, "no results of this data set")
    lines = lines_of(results, gain.dataset, variant, measure, as_trained=True)
    rivals = _rivals(results, gain.dataset, variant, against, measure, gain.low, gain.high)
    for name, there in ((variant, lines), (against[0], rivals)):
        if not there:
            return judged("", UNTESTED, f"no results of {look_of(name).label}")
    best = _strongest(lines, rivals, gain.low, gain.high)
    if best is None:
        return judged("", UNTESTED, f"no earliness of {100 * gain.low:g}–{100 * gain.high:g} % that both reach")
    rival, found = best
    measured = f"{points_of(found.spread)} over {look_of(rival).label} at {range_of(found)}"
    measured += f", {found.spread.mean / gain.size:.2f} of the paper's"
    if measure == "hm":
        measured += _at_best(results, gain.dataset, variant, rival)
    measured += _new(results, gain.dataset, variant, rival, gain.low, gain.high, measure)
    for name in (variant, rival):
        if not is_reached(results, gain.dataset, name, gain.low, gain.high):
            reason = f"in most seeds no policy of {look_of(name).label} was trained to halt there"
            return judged(measured, UNTESTED, reason)
    found_out = judge_gain(found.spread, gain.size)
    return judged(measured, *in_doubt(results, gain.dataset, [variant], [rival], *found_out))


def _at_best(results: Results, dataset: str, variant: str, rival: str) -> str:
    """The gain in HM between the points that validation chose."""
    best = [best_hm(results, dataset, name) for name in (variant, rival)]
    seeds = sorted(set(best[0]) & set(best[1]))
    return f"; best HM {points_of(spread([best[0][seed] - best[1][seed] for seed in seeds]))}" if seeds else ""


def _new(
    results: Results, dataset: str, variant: str, rival: str, low: float, high: float, measure: str = "accuracy"
) -> str:  # fmt: skip
    """The same without test sequences that occur in training, where there are such."""
    if not has_repeats(results, dataset):
        return ""
    first, second = (lines_of(results, dataset, name, measure, True, as_trained=True) for name in (variant, rival))
    found = compare(first, second, low, high)
    return "" if found is None else f"; without repeats {points_of(found.spread)} at {range_of(found)}"


def _highest(results: Results, dataset: str, variant: str) -> list[Judged]:
    """KVEC against the best rival early, and against the best over the whole common range."""
    lines = lines_of(results, dataset, variant, as_trained=True)
    if not lines or not _rivals(results, dataset, variant, RIVALS):
        return []
    parts: list[tuple[str, str, str]] = []
    told: list[str] = []
    best: list[str] = []
    others: list[str] = []
    for name, low, high in (("below 10 %", 0.0, EARLY), ("whole range", 0.0, 1.0)):
        rivals = _rivals(results, dataset, variant, RIVALS, "accuracy", low, high)
        others += rivals
        strongest = _strongest(lines, rivals, low, high)
        if strongest is None:
            parts.append((name, UNTESTED, "no item lies there"))
            continue
        rival, found = strongest
        if not all(is_reached(results, dataset, each, low, high) for each in (variant, rival)):
            parts.append((name, UNTESTED, "in most seeds no policy was trained to halt there"))
            continue
        best.append(rival)
        parts.append((name, *judge_gain(found.spread)))
        gain = f"{name} {points_of(found.spread)} over {look_of(rival).label} at {range_of(found)}"
        told.append(gain + _new(results, dataset, variant, rival, low, high))
    verdict, reason = in_doubt(results, dataset, [variant], best, *joined(parts))
    if verdict == HOLDS and (
        doubt := doubts(results, dataset, [name for name in dict.fromkeys(others) if name not in best])
    ):
        verdict, reason = PARTLY, f"{reason}; {doubt}"
    claim = "KVEC has the highest accuracy of all methods, above all early"
    return [Judged(claim, dataset, variant, ", ".join(told), verdict, reason)]


def _poorest(results: Results, dataset: str) -> list[Judged]:
    """EARLIEST against every other rival: nearly the poorest, so one may be below it.

    Beside a moved threshold the better of its own two lines counts; trainings that had not converged do not.
    """
    lines = _lines(results, dataset, (*RIVALS, f"earliest{MOVED}"))
    own = [lines.pop(name) for name in ("earliest", f"earliest{MOVED}") if name in lines]
    gains = {}
    for name, theirs in lines.items():
        is_swept = swept_points(results, dataset, name).height > 0
        found = [gain for ours in (own[:1] if is_swept else own) if (gain := compare(theirs, ours)) is not None]
        if found and all(is_reached(results, dataset, each, 0.0, 1.0) for each in ("earliest", name)):
            gains[name] = min(found, key=lambda gain: gain.spread.mean)
    if not gains:
        return []
    told = [f"{look_of(name).label} {points_of(gain.spread)} at {range_of(gain)}" for name, gain in gains.items()]
    doubtful = {name: doubt for name in ("earliest", *gains) if (doubt := doubts(results, dataset, [name]))}
    parts = [(look_of(name).label, *judge_gain(gains[name].spread)) for name in gains if name not in doubtful]
    if parts and "earliest" not in doubtful:
        below = [part for part in parts if part[1] == FAILS]
        if len(below) == 1 and len(parts) > 2:
            verdict, reason = joined([part for part in parts if part not in below], needs_all=True)
            reason += f"; only {below[0][0]} is below it: {below[0][2]}"
        else:
            verdict, reason = joined(parts, needs_all=True)
        if doubtful:
            verdict = PARTLY if verdict == HOLDS else verdict
            reason += f"; not counted: {'; '.join(doubtful.values())}"
    else:
        verdict, reason = UNTESTED, "; ".join(doubtful.values())
    claim = "EARLIEST is nearly the poorest method"
    return [Judged(claim, dataset, "earliest", f"above EARLIEST: {', '.join(told)}", verdict, reason)]


def _ablation(results: Results, dataset: str) -> list[Judged]:
    """What each part is worth, and whether value correlation is worth most."""
    whole = lines_of(results, dataset, "kvec")
    without = _lines(results, dataset, ABLATION[1:])
    drops = {name: found for name, lines in without.items() if (found := compare(whole, lines)) is not None}
    if len(drops) < 2 or "kvec-no-value" not in drops:
        return []
    next_to = max((name for name in drops if name != "kvec-no-value"), key=lambda name: drops[name].spread.mean)
    parts = [("its loss", *judge_gain(drops["kvec-no-value"].spread))]
    if (more := compare(without[next_to], without["kvec-no-value"])) is not None:
        words = f"{points_of(more.spread)} more than {look_of(next_to).label}"
        parts.append((words, *judge_gain(more.spread)))
    others = [name for name in drops if name != next_to]
    verdict, reason = in_doubt(results, dataset, ["kvec", next_to], others, *joined(parts, needs_all=True))
    told = "KVEC above itself " + ", ".join(f"{look_of(name).label} {points_of(f.spread)}" for name, f in drops.items())
    claim = "value correlation is the most important part: without it accuracy falls most"
    return [Judged(claim, dataset, "kvec", told, verdict, reason)]


def _value(results: Results, dataset: str) -> Judged:
    """What value correlation gives early and in all, beside what may explain it."""
    first, second = (lines_of(results, dataset, name) for name in ("kvec", "kvec-no-value"))
    parts, told = [], []
    for name, low, high in (("below 10 %", 0.0, EARLY), ("whole range", 0.0, 1.0)):
        if (found := compare(first, second, low, high)) is not None:
            parts.append((name, *judge_gain(found.spread)))
            told.append(f"{name} {points_of(found.spread)}")
    claim = "value correlation lifts accuracy, above all early"
    if not parts:
        return Judged(claim, dataset, "kvec", "", UNTESTED, "no results of KVEC to compare with")
    verdict, reason = in_doubt(results, dataset, ["kvec"], ["kvec-no-value"], *joined(parts))
    facts = describe(results, dataset)
    return Judged(claim, dataset, "kvec", ", ".join(told), verdict, reason + (f". Here {facts}" if facts else ""))


def describe(results: Results, dataset: str) -> str:
    """The statistics of a data set that may explain what value correlation does there."""
    rows = results.data.filter(pl.col("dataset") == dataset).to_dicts()
    told = {
        "keys_per_tangle": "{:.3g} keys per tangle",
        "related_keys": "{:.0f} % of keys share a tangle with one of their class",
        "seeing_items": "{:.0f} % of items see another sequence",
        "same_class_seen": "{:.0f} % of what they see is of their class",
    }
    known = rows[0] if rows else {}
    return ", ".join(
        words.format(100 * known[name] if "%" in words else known[name])
        for name, words in told.items()
        if known.get(name) is not None
    )


def _rivals(
    results: Results,
    dataset: str,
    variant: str,
    names: tuple[str, ...],
    measure: str = "accuracy",
    low: float = 0.0,
    high: float = 1.0,
) -> dict[str, Lines]:
    """Lines of rivals that reach a range, or of all if none does; beside KVEC's moved threshold theirs as well."""
    moved = () if swept_points(results, dataset, variant).height else tuple(f"{name}{MOVED}" for name in names)
    drawn = drawn_methods(results, dataset)
    lines = _lines(results, dataset, tuple(name for name in (*names, *moved) if name in drawn), measure)
    reached = {name: found for name, found in lines.items() if is_reached(results, dataset, name, low, high)}
    return reached or lines


def _strongest(
    lines: Lines, rivals: dict[str, Lines], low: float, high: float
) -> tuple[str, Comparison] | None:  # fmt: skip
    """The rival over which KVEC gains least, and by how much; nothing where none shares a range with it."""
    found = {name: gain for name, theirs in rivals.items() if (gain := compare(lines, theirs, low, high)) is not None}
    return min(found.items(), key=lambda pair: pair[1].spread.mean) if found else None


def _lines(results: Results, dataset: str, methods: tuple[str, ...], measure: str = "accuracy") -> dict[str, Lines]:
    found = {name: lines_of(results, dataset, name, measure, as_trained=True) for name in methods}
    is_point = {name: any(line.earliness.size < 2 for line in lines.values()) for name, lines in found.items()}
    return {name: lines for name, lines in found.items() if lines and not is_point[name]}


def has_repeats(results: Results, dataset: str) -> bool:
    """Whether some test sequences of a data set occur in training."""
    cells = results.cells.filter(pl.col("dataset") == dataset)
    return bool((cells["n_new"] < cells["n_test"]).any())
