"""The paper's claims about what is inside KVEC, §V-C and §V-E: α and β, attention, halting, number of keys."""

from __future__ import annotations

import numpy as np
import polars as pl

from kvec.report.metrics import Floats
from kvec.reproduce.convergence import convergence
from kvec.reproduce.curves import SAME, common_range, lines_of, spread
from kvec.reproduce.looks import GROUPED, SWEPT, look_of
from kvec.reproduce.results import Results, main_cells
from kvec.reproduce.verdicts import (
    CONCORDANT,
    EARLY,
    FAILS,
    HOLDS,
    PARTLY,
    UNTESTED,
    WIDE,
    Judged,
    in_doubt,
    joined,
    judge_gain,
    points_of,
)

ALPHA = "α steers accuracy and hardly earliness"
BETA = "β steers earliness: a larger penalty halts earlier"
ATTENTION = "attention to other keys fades: it is higher below 10 % earliness than later"
HALTING = "KVEC's halting positions are closer to the true ones than without value correlation"
KEYS = "more concurrent keys help early (below 10 %) and hurt late"
FEWEST_ITEMS = 20  # of a bin of attention: with fewer it is noise
CLOSER = 0.5  # items by which halting positions must be closer


def judge(results: Results) -> list[Judged]:
    """The claims on sensitivity, attention, halting and number of keys; what was not run is not tested."""
    rows = [row for setting in ("alpha", "beta") for row in _steering(results, setting)]
    rows += _attention(results) + _halting(results) + _keys(results)
    named = {row.claim for row in rows}
    missing = [claim for claim in (ALPHA, BETA, ATTENTION, HALTING, KEYS) if claim not in named]
    return rows + [
        Judged(claim, "", "", "", UNTESTED, "this experiment was not run, or too little of it") for claim in missing
    ]


def sweep(results: Results, dataset: str, setting: str) -> pl.DataFrame:
    """Accuracy and earliness of the trained policy for each value of α or β: means, deviations and seeds."""
    points = results.points.filter(
        (pl.col("dataset") == dataset)
        & (pl.col("training") == "kvec-paper")
        & (pl.col("curve") == "swept")
        & (pl.col("swept") == setting)
    )
    means = [pl.col(name).mean() for name in ("accuracy", "earliness")]
    sds = [pl.col(name).std().fill_null(0.0).alias(f"{name}_sd") for name in ("accuracy", "earliness")]
    numbered = points.with_columns(pl.col("value").cast(pl.Float64, strict=False)).drop_nulls("value")
    return numbered.group_by("value").agg(*means, *sds, n=pl.len()).sort("value")


def concordance(values: Floats, earliness: Floats) -> float:
    """Share of the pairs of values in which the larger is earlier; earlinesses told as one count half.

    >>> concordance(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.2, 0.201]))
    0.8333333333333334
    """
    i, j = np.triu_indices(values.size, 1)
    later = earliness[i] - earliness[j]
    sign = np.where(np.abs(later) > SAME, np.sign(later * (values[j] - values[i])), 0.0)
    return float(np.mean((sign + 1) / 2))


def distance(halts: pl.DataFrame) -> float:
    """How many items apart halting positions and true ones lie on average, each sorted (Wasserstein's distance)."""
    weight = halts["count"].to_numpy().astype(np.int64)
    found, true = (np.sort(np.repeat(halts[name].to_numpy(), weight)) for name in ("n_observed", "true"))
    return float(np.mean(np.abs(found - true)))


def attention_of(results: Results, dataset: str, training: str) -> pl.DataFrame:
    """Attention in the cells of a training, of each seed the one with the best HM on validation."""
    cells = main_cells(results.cells.filter(pl.col("dataset") == dataset)).filter(pl.col("training") == training)
    best = cells.sort("validation_hm", descending=True, nulls_last=True, maintain_order=True)
    kept = best.unique("seed", keep="first", maintain_order=True).select("cell")
    return results.attention.join(kept, on="cell", how="semi")


def _steering(results: Results, setting: str) -> list[Judged]:
    """Whether α moves accuracy and leaves earliness, and β moves earliness the right way."""
    rows = []
    for dataset in results.datasets():
        table = sweep(results, dataset, setting)
        if table.height < (3 if setting == "alpha" else 2) or (
            setting == "beta" and not _has_sensitivity(results, dataset)
        ):
            continue
        right, late = (float(table[name].max() - table[name].min()) for name in ("accuracy", "earliness"))  # type: ignore[operator,arg-type]
        few, many = int(table["n"].min()), int(table["n"].max())  # type: ignore[arg-type]
        told = f"{table.height} values{_held(results, dataset, setting)} spread accuracy by {100 * right:.1f}"
        told += f" and earliness by {100 * late:.1f} points"
        if setting == "alpha":
            parts = [right >= WIDE, late <= right / 2]
        else:
            order = concordance(table["value"].to_numpy(), table["earliness"].to_numpy())
            told += f"; the larger β is earlier in {100 * order:.0f} % of pairs"
            parts = [late >= WIDE, order >= CONCORDANT]
        verdict = (HOLDS if few > 1 else PARTLY) if all(parts) else PARTLY if parts[0] else FAILS
        reason = "as stated" if all(parts) else "only the first half of it" if parts[0] else "hardly any effect"
        if setting == "alpha" and parts[0] and late > right:
            verdict, reason = FAILS, "it moves earliness more than accuracy"
        if setting == "beta" and parts[0] and order < 0.5:
            verdict, reason = FAILS, "the larger β is later"
        reason += ", on one seed" if many == 1 else ", some values on one seed" if few == 1 else ""
        found = convergence(results, dataset, "kvec-paper", setting)
        if not found.is_converged:
            verdict, reason = UNTESTED, f"{look_of('kvec-paper').label} {found.words()}"
        seeds = "1 seed" if many == 1 else f"{many} seeds" if few == many else f"{few}–{many} seeds"
        claim = ALPHA if setting == "alpha" else BETA
        rows.append(Judged(claim, dataset, "kvec-paper", f"{told} ({seeds})", verdict, reason))
    return rows


def _held(results: Results, dataset: str, setting: str) -> str:
    """At which value of the other setting one was swept, as far as its cells agree on it."""
    place = (pl.col("dataset") == dataset) & (pl.col("training") == "kvec-paper") & (pl.col("swept") == setting)
    other = "beta" if setting == "alpha" else "alpha"
    pairs = {pair for text in results.cells.filter(place)["settings"].to_list() for pair in text.split()}
    values = [pair.partition("=")[2] for pair in pairs if pair.startswith(f"training.{other}=")]
    return f" at {SWEPT[other]} = {values[0]}" if len(values) == 1 else ""


def _has_sensitivity(results: Results, dataset: str) -> bool:
    """Whether α was swept here: β is swept for the curves of every data set, but judged where both were."""
    return sweep(results, dataset, "alpha").height > 0


def _attention(results: Results) -> list[Judged]:
    rows = []
    pairs = results.attention.select("dataset", "training").unique(maintain_order=True).rows()
    for dataset, training in pairs:
        if "@" in dataset or training not in ("kvec", "kvec-paper"):
            continue
        own = attention_of(results, dataset, training)
        if not own["outside"].max():
            continue
        early = _outside(own.filter(pl.col("earliness") <= EARLY + 1e-9))
        late = _outside(own.filter(pl.col("earliness") > EARLY + 1e-9))
        seeds = sorted(set(early) & set(late))
        if not seeds:
            continue
        gain = spread([early[seed] - late[seed] for seed in seeds])
        told = {"of attention goes to other keys below 10 %": early, "later": late}
        parts = [("early above later", *judge_gain(gain))]
        last = _outside(own.filter(pl.col("earliness") == own["earliness"].max(), pl.col("items") >= FEWEST_ITEMS))
        if set(last) >= set(seeds):
            told["in the last bin"] = last
            parts.append(("early above the end", *judge_gain(spread([early[seed] - last[seed] for seed in seeds]))))
        measured = ", ".join(
            f"{100 * float(np.mean([found[seed] for seed in seeds])):.1f} % {words}" for words, found in told.items()
        )
        verdict, reason = joined(parts)
        verdict, reason = in_doubt(results, dataset, [training], [], verdict, reason)
        rows.append(Judged(ATTENTION, dataset, training, f"{measured}: {points_of(gain)}", verdict, reason))
    return rows


def _outside(own: pl.DataFrame) -> dict[int, float]:
    """Attention to other keys by seed, bins weighted by their items."""
    weighted = (pl.col("outside") * pl.col("items")).sum() / pl.col("items").sum()
    by_seed = own.group_by("seed").agg(weighted.alias("outside"))
    return dict(zip(by_seed["seed"].to_list(), by_seed["outside"].to_list(), strict=True))


def _halting(results: Results) -> list[Judged]:
    rows = []
    for dataset in results.halts["dataset"].unique(maintain_order=True).to_list():
        found: dict[str, dict[int, float]] = {}
        for method in ("kvec", "kvec-no-value"):
            own = results.halts.filter((pl.col("dataset") == dataset) & (pl.col("method") == method))
            found[method] = {seed: distance(own.filter(pl.col("seed") == seed)) for seed in set(own["seed"].to_list())}
        seeds = sorted(set(found["kvec"]) & set(found["kvec-no-value"]))
        if not seeds:
            continue
        gain = spread([found["kvec-no-value"][seed] - found["kvec"][seed] for seed in seeds])
        mean = {method: float(np.mean([by_seed[seed] for seed in seeds])) for method, by_seed in found.items()}
        n = "1 seed" if gain.n == 1 else f"{gain.n} seeds, {gain.low:+.1f} to {gain.high:+.1f}"
        told = (
            f"{mean['kvec']:.1f} items from the true ones, {mean['kvec-no-value']:.1f} without value correlation ({n})"
        )
        is_large = gain.mean >= CLOSER
        verdict = HOLDS if is_large and gain.is_positive else PARTLY if is_large or gain.is_positive else FAILS
        reason = f"closer by {gain.mean:.1f} items" if gain.mean > 0 else "not closer"
        if _at_end(results, dataset):
            reason += "; KVEC decides all at their end, where the signal is complete"
        reason += ", on one seed" if gain.n == 1 else ""
        verdict, reason = in_doubt(results, dataset, ["kvec"], ["kvec-no-value"], verdict, reason)
        rows.append(Judged(HALTING, dataset, "kvec", told, verdict, reason))
    return rows


def _at_end(results: Results, dataset: str) -> bool:
    """Whether KVEC decided every sequence of a data set where it is complete, and no earlier."""
    own = results.halts.filter((pl.col("dataset") == dataset) & (pl.col("method") == "kvec"))
    return own["true"].n_unique() == 1 and own["n_observed"].to_list() == own["true"].to_list()


def key_counts(results: Results) -> dict[str, list[int]]:
    """Data sets whose keys were tangled anew, with their numbers of keys."""
    found: dict[str, set[int]] = {}
    for name in results.cells["dataset"].to_list():
        base, _, keys = name.partition("@")
        if keys.isdigit() and base not in GROUPED:
            found.setdefault(base, set()).add(int(keys))
    return {base: sorted(counts) for base, counts in found.items()}


def _keys(results: Results) -> list[Judged]:
    rows = []
    for base, counts in key_counts(results).items():
        lines = {k: lines_of(results, f"{base}@{k}", "kvec") for k in counts}
        lines = {k: found for k, found in lines.items() if found}
        seeds = sorted(set.intersection(*(set(found) for found in lines.values()))) if lines else []
        reach = common_range(list(lines.values()))
        if len(lines) < 2 or not seeds or reach is None or not reach[0] < EARLY < reach[1]:
            continue
        doublings = np.log2(np.array(list(lines)))
        parts, told = [], []
        for name, low, high, sign in (("early", reach[0], EARLY, 1), ("late", EARLY, reach[1], -1)):
            heights = np.array([[lines[k][seed].mean(low, high) for k in lines] for seed in seeds])
            slope = np.polyfit(doublings, heights.T, 1)[0] * (doublings[-1] - doublings[0])
            told.append(f"{name} {points_of(spread(slope))}")
            parts.append((name, *judge_gain(spread(sign * slope))))
        verdict, reason = joined(parts)
        rising = [k for k in lines if not convergence(results, f"{base}@{k}", "kvec").is_converged]
        if rising:
            verdict, reason = UNTESTED, f"KVEC had not converged with {', '.join(map(str, rising))} keys"
        names = f"from {min(lines)} to {max(lines)} keys, by a straight line over doublings: "
        rows.append(Judged(KEYS, base, "kvec", names + ", ".join(told), verdict, reason))
    return rows
