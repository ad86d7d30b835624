"""The promise on real data: calibrate on random halves of unseen tangles, and measure the risk on the other halves.

python experiments/promise/splits.py MODEL DATA [--split test] [--alpha 0.02 0.05] [--draws 200] [-o splits.csv]

The network runs once. Operating points are thresholds θ, or, of a model with knots, delay costs λ. A half that is
measured is finite, so its share of losses scatters around the true risk; the table gives its distribution, how often it
exceeds α, the earliness that was reached, and the median λ.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from kvec.decide.calibrating import calibration
from kvec.decide.guarantee import Calibration, Wish
from kvec.decide.operating import Held
from kvec.doors.guaranteeing import units
from kvec.doors.sources import read_by_schema, take_part
from kvec.estimator import load


def part_of(whole: Calibration, which: np.ndarray) -> Calibration:
    return replace(
        whole, stops=whole.stops[:, which], is_right=whole.is_right[:, which], length=whole.length[which],
        is_right_at_end=whole.is_right_at_end[which], truth=whole.truth[which], unit=whole.unit[which],
    )  # fmt: skip


def halves(whole: Calibration, wish: Wish, draws: int, most_keys: int) -> dict[str, float]:
    """The distribution of the risk on the halves that were not calibrated on."""
    rng = np.random.default_rng(0)
    names = np.unique(whole.unit)
    risks, late, costs, refused = [], [], [], 0
    for _ in range(draws):
        is_first = np.isin(whole.unit, rng.permutation(names)[: len(names) // 2])
        calibrated = part_of(whole, is_first).sample(wish.kind, most_keys)
        chosen = calibrated.n_passed(wish.bound, wish.alpha, wish.delta) - 1
        if chosen < 0:
            refused += 1
            continue
        rest = part_of(whole, ~is_first)
        risks.append(rest.sample(wish.kind, most_keys).observed(chosen))
        late.append(float(np.mean(rest.stops[chosen] / rest.length)))
        costs.append(whole.points[chosen].get("delay_cost", np.nan))
    low, middle, high = np.quantile(risks, (0.05, 0.5, 0.95)) if risks else (np.nan,) * 3
    return {
        "units": len(names) // 2, "draws": draws, "refused": refused, "risk_5": low, "risk_50": middle, "risk_95": high,
        "above_alpha": float(np.mean(np.array(risks) > wish.alpha)) if risks else np.nan,
        "earliness": float(np.mean(late)) if late else np.nan,
        "delay_cost": float(np.median(costs)) if costs else np.nan,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", help="test: the part that was held out of the training data")
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.02, 0.05, 0.1])
    parser.add_argument("--bound", nargs="+", default=["betting", "hoeffding-bentkus"])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("-o", "--output", type=Path)
    wishes = parser.parse_args()
    model = load(wishes.model)
    table = read_by_schema(wishes.data, model.model_.schema)
    if wishes.split:
        table, _ = take_part(table, model.model_.split, wishes.split, wishes.model)
    tangles = model.tangles(table)
    known = tangles.labels[:, 0] >= 0
    points = Held.of(model.model_.validation).grid()
    whole = calibration(tangles, model.scores(tangles), known, units(tangles, None), points)
    most_keys = int(np.bincount(whole.unit).max())
    rows = []
    for kind in ("early error", "error"):
        for alpha in wishes.alpha:
            for bound in wishes.bound:
                found = halves(whole, Wish(kind, alpha, bound=bound), wishes.draws, most_keys)
                rows.append({"kind": kind, "alpha": alpha, "bound": bound} | {k: round(v, 5) for k, v in found.items()})
                print(*rows[-1].values(), sep=", ", flush=True)
    if wishes.output:
        pl.DataFrame(rows).write_csv(wishes.output)


if __name__ == "__main__":
    main()
