"""Do thresholds per predicted class help? Chosen on one half of held-out tangles, measured on the other half.

python experiments/beyond/per_class.py made -o experiments/beyond/per_class.csv
python experiments/beyond/per_class.py traffic_fg.parquet --name traffic_fg --share 0.25

A sequence halts at the first item whose score reaches the threshold of the class that it would get there. The objective
is the expected cost: errors + μ · earliness. One threshold for all (and the delay cost λ, where the score is learned)
is chosen on the first half, from a grid of both; coordinate ascent then moves the threshold of one class at a time, as
long as the cost on that half falls. Both are measured on the other half, many times. `gain` is by how much the cost
there falls; the interval is over the random halves, with the correction of Nadeau and Bengio for their overlap. `path`
is the cost on the other half of the best point of the dial's own path, where θ moves only at the ends of λ.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from trying import BEFORE, add_rows, some_table

from kvec.decide.dial import LEAST, MOST
from kvec.decide.held import held_out, scores_of, some_of
from kvec.decide.operating import Held, OperatingPoint
from kvec.decide.readiness import Readiness
from kvec.decide.replaying import score_table
from kvec.estimator import KVEC
from kvec.read.table import Table
from kvec.tangle.tangling import Split

COSTS = (0.1, 0.3, 1.0, 3.0)  # μ: what reading a whole sequence costs, in errors
CANDIDATES, SWEEPS, DELAYS = 25, 4, 16
T = {8: 2.365, 10: 2.262}  # halves: the 97.5 % point of Student with one degree less


@dataclass(frozen=True)
class Part:
    """Scores of some sequences at one delay cost."""

    score: np.ndarray  # (N,)
    predicted: np.ndarray  # (N,)
    offsets: np.ndarray
    truth: np.ndarray

    def stops(self, thresholds: np.ndarray) -> np.ndarray:
        """(G, S) items seen, by (G, C) thresholds."""
        n = len(self.score)
        reached = np.where(self.score >= thresholds[:, self.predicted], np.arange(n), n)
        return np.minimum(np.minimum.reduceat(reached, self.offsets[:-1], axis=1), self.offsets[1:] - 1)

    def measured(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(G,) accuracy and earliness."""
        length = np.diff(self.offsets)
        right = (self.predicted[at] == self.truth).mean(axis=-1)
        return right, ((at - self.offsets[:-1] + 1) / length).mean(axis=-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="made, or a table")
    parser.add_argument("--schema", type=Path)
    parser.add_argument("--name", default="made")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--tangles", type=int, default=800, help="made ones")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--halves", type=int, default=10, choices=T)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", default="5:1:4", help="training, validation, and what is cut into halves")
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).with_name("per_class.csv"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    table = some_table(given.data, given.schema, given.share, given.tangles)
    held, readiness = scored(table, given.seed, given.epochs, tuple(map(float, given.split.split(":"))))
    for trigger in ("hazard", "calibrated"):
        arrays = held
        if trigger == "calibrated":
            arrays = {name: array for name, array in held.items() if name != "knots"}
            arrays["halt"] = replace(readiness, trigger=trigger).applied(scores_of(held)).halt
        for row in compared(arrays, given.halves):
            about = {"data": given.name, "share": given.share, "split": given.split, "epochs": given.epochs}
            about |= {"seed": given.seed, "trigger": trigger}
            add_rows(given.out, [about | row])
            print(*(about | row).values(), sep=", ", flush=True)


def scored(table: Table, seed: int, epochs: int, shares: tuple[float, ...]) -> tuple[dict[str, np.ndarray], Readiness]:
    """A model with a dial, and what it says of the sequences that it was not trained on."""
    split = Split.of(table.frame, shares, seed)
    train, validation, rest = (split.part(table.frame, name) for name in ("train", "validation", "test"))
    model = KVEC(schema=table.schema, epochs=epochs, seed=seed, knots=9, device="cpu", **BEFORE)
    model.fit(replace(table, frame=train), replace(table, frame=validation))
    tangles = model.tangles(replace(table, frame=rest))
    return held_out(tangles, score_table(model.model_.network, tangles, model.model_.config)), model.model_.readiness


def compared(arrays: dict[str, np.ndarray], halves: int) -> list[dict[str, object]]:
    """One threshold for all against one for each class, by the cost of reading."""
    arrays = some_of(arrays, arrays["labels"][:, 0] >= 0)
    whole, tangle = Held.of(arrays), arrays["tangle"]
    names = np.unique(tangle)
    found: dict[float, list[tuple[float, ...]]] = {mu: [] for mu in COSTS}
    for draw in range(halves):
        is_first = np.isin(tangle, np.random.default_rng(draw).permutation(names)[: len(names) // 2])
        first, second = (Held.of(some_of(arrays, chosen)) for chosen in (is_first, ~is_first))
        every = grid(first)
        for mu in COSTS:
            point = cheapest(every, mu)
            on_path = second.stops(path_point(first, mu))
            fit, rest = (part_of(half, point.delay_cost) for half in (first, second))
            n_classes = int(max(whole.predicted.max(), whole.truth.max())) + 1
            same = np.full(n_classes, point.threshold)
            own = ascended(fit, same, mu)
            (right, late), (own_right, own_late) = (
                tuple(float(v[0]) for v in rest.measured(rest.stops(theta[None]))) for theta in (same, own)
            )
            fit_gain = _cost(fit, same, mu) - _cost(fit, own, mu)
            found[mu].append((
                right, late, own_right, own_late, fit_gain, (1 - right + mu * late) - (1 - own_right + mu * own_late),
                1 - right + mu * late,
                1 - float(second.accuracy(on_path)) + mu * float(second.earliness(on_path)),
            ))  # fmt: skip
    rows = []
    for mu, results in found.items():
        table = np.array(results)
        mean = table.mean(axis=0)
        spread = table.std(axis=0, ddof=1) * np.sqrt(1 / halves + 1.0)  # the other half is as large as the first
        rows.append({
            "mu": mu, "sequences": len(whole.truth), "accuracy": round(mean[0], 4), "earliness": round(mean[1], 4),
            "own_accuracy": round(mean[2], 4), "own_earliness": round(mean[3], 4), "fitted_gain": round(mean[4], 5),
            "gain": round(mean[5], 5), "gain_low": round(mean[5] - T[halves] * spread[5], 5),
            "gain_high": round(mean[5] + T[halves] * spread[5], 5), "cost": round(mean[6], 5),
            "path": round(mean[7], 5),
        })  # fmt: skip
    return rows


def grid(half: Held) -> list[tuple[OperatingPoint, float, float]]:
    """One threshold for all at every delay cost of a few: accuracy and earliness of each pair."""
    found = []
    for cost in np.geomspace(LEAST, MOST, DELAYS) if half.knots is not None else [None]:
        part = part_of(half, None if cost is None else float(cost))
        highest = np.maximum.reduceat(part.score, part.offsets[:-1])
        thetas = np.append(np.unique(np.quantile(np.append(part.score, highest), np.linspace(0, 1, 2 * CANDIDATES))), 2)
        n_classes = int(part.predicted.max()) + 1
        right, late = part.measured(part.stops(np.repeat(thetas[:, None], n_classes, axis=1)))
        points = [OperatingPoint(float(theta), None if cost is None else float(cost)) for theta in thetas]
        found += list(zip(points, right.tolist(), late.tolist(), strict=True))
    return found


def cheapest(every: list[tuple[OperatingPoint, float, float]], mu: float) -> OperatingPoint:
    """The pair of least cost."""
    return min(every, key=lambda each: 1 - each[1] + mu * each[2])[0]


def path_point(half: Held, mu: float) -> OperatingPoint:
    """The point of least cost on the path of the dial."""
    return half.path[int(np.argmin(1 - half.accuracy(half.along) + mu * half.earliness(half.along)))]


def part_of(half: Held, delay_cost: float | None) -> Part:
    return Part(half.scores(delay_cost), half.predicted, half.offsets, half.truth)


def ascended(part: Part, start: np.ndarray, mu: float) -> np.ndarray:
    """Move the threshold of one class at a time while the cost falls."""
    best, own = _cost(part, start, mu), start.copy()
    for _ in range(SWEEPS):
        before = best
        for c in range(len(own)):
            scores = part.score[part.predicted == c]
            if not len(scores):
                continue
            tried = np.repeat(own[None], CANDIDATES + 1, axis=0)
            tried[:-1, c] = np.quantile(scores, np.linspace(0, 1, CANDIDATES))
            tried[-1, c] = 2.0
            right, late = part.measured(part.stops(tried))
            cost = 1 - right + mu * late
            if cost.min() < best - 1e-12:
                best, own = float(cost.min()), tried[int(cost.argmin())]
        if best >= before - 1e-12:
            break
    return own


def _cost(part: Part, thresholds: np.ndarray, mu: float) -> float:
    right, late = part.measured(part.stops(thresholds[None]))
    return float(1 - right[0] + mu * late[0])


if __name__ == "__main__":
    main()
