"""How often promises are broken, and how loose they are, in worlds whose risk is known.

python experiments/promise/simulate.py [--draws 2000] [-o experiments/promise/results.csv]

A world draws units of K sequences. At operating point j a sequence is lost with probability r_j: together, all
sequences of a unit or none, or each alone. Each draw is a calibration of four times the fewest units that could be
enough; the chosen point breaks the promise where its true risk exceeds α. In the worlds on the brink every point but
the first has a risk just above α, so that any choice but the first is a broken promise: the worst case for the
confidence.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.decide.bounds import p_values
from kvec.decide.risk import units_needed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DELTA = 0.05
CHUNK = 1000  # draws at once
POINTS = 61  # operating points; their risk goes from 0 to 2α in equal steps


@dataclass(frozen=True)
class World:
    """Units of which the risk is known."""

    name: str
    sizes: tuple[int, ...]  # K of a unit, equally likely
    is_together: bool
    is_larger_riskier: bool = False
    is_brink: bool = False

    def risks(self, alpha: float) -> Floats:
        """The true risk of every operating point."""
        return np.append(0.0, np.full(8, alpha * 1.0001)) if self.is_brink else np.linspace(0, 2 * alpha, POINTS)

    def weight(self, keys: Ints) -> Floats:
        """By how much the chance of a loss in a unit of K sequences differs; E[K·weight] = E[K]."""
        sizes = np.array(self.sizes)
        return keys * sizes.mean() / np.mean(sizes**2) if self.is_larger_riskier else np.ones(keys.shape)


WORLDS = (
    World("one key", (1,), True),
    World("8 keys together", (8,), True),
    World("8 keys alone", (8,), False),
    World("1 to 8 keys together", tuple(range(1, 9)), True),
    World("1 to 8 keys together, larger are riskier", tuple(range(1, 9)), True, True),
    World("1 to 8 keys alone", tuple(range(1, 9)), False),
    World("1 to 30 keys together, mostly few", (1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8, 30), True),
    World("brink, one key", (1,), True, is_brink=True),
    World("brink, 1 to 8 keys together", tuple(range(1, 9)), True, is_brink=True),
    World("brink, 1 to 8 keys alone", tuple(range(1, 9)), False, is_brink=True),
)


def simulate(world: World, bound: str, alpha: float, n_draws: int, seed: int = 0) -> dict[str, float]:
    """Broken promises and the mean true risk at the chosen points."""
    rng = np.random.default_rng(seed)
    most_keys = max(world.sizes)
    minimal = units_needed(bound, np.array(world.sizes), alpha, DELTA, most_keys)
    risks = world.risks(alpha)
    chosen = np.concatenate([
        _choose(world, bound, alpha, 4 * minimal, min(CHUNK, n_draws - start), risks, rng)
        for start in range(0, n_draws, CHUNK)
    ])  # fmt: skip
    true = np.where(chosen >= 0, risks[chosen], 0.0)
    return {
        "minimal": minimal, "n_units": 4 * minimal, "broken": int((true > alpha).sum()),
        "refused": int((chosen < 0).sum()), "mean_risk_over_alpha": float(true.mean() / alpha),
    }  # fmt: skip


def _choose(
    world: World, bound: str, alpha: float, n: int, n_draws: int, risks: Floats, rng: np.random.Generator
) -> Ints:
    """(n_draws,) the point that each draw chooses, by testing them in order; -1 where none passes."""
    keys = rng.choice(np.array(world.sizes), (n_draws, n))
    losses = _losses(world, keys, rng)
    chosen = np.full(n_draws, -1)
    live = np.arange(n_draws)
    for point, risk in enumerate(risks):
        lost, held = losses(risk, live) / max(world.sizes), keys[live] / max(world.sizes)
        live = live[p_values(bound, lost, held, alpha, DELTA) <= DELTA]
        chosen[live] = point
        if not live.size:
            break
    return chosen


def _losses(world: World, keys: Ints, rng: np.random.Generator) -> Callable[[float, Ints], Ints]:
    """Losses of each unit of some draws at a risk; with a larger risk the same sequences are lost, and more."""
    weight = world.weight(keys)
    if world.is_together:
        luck = rng.random(keys.shape)
        return lambda risk, draws: np.where(luck[draws] < risk * weight[draws], keys[draws], 0)
    each = rng.random((*keys.shape, max(world.sizes)), dtype=np.float32)
    each[np.arange(max(world.sizes)) >= keys[..., None]] = 2.0  # there is no such sequence
    return lambda risk, draws: (each[draws] < risk * weight[draws][..., None]).sum(axis=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("results.csv"))
    wishes = parser.parse_args()
    rows = []
    for alpha in (0.02, 0.1):
        for world in WORLDS:
            for bound in ("betting", "hoeffding-bentkus", "binomial"):
                if (bound == "binomial" and max(world.sizes) > 1) or (bound != "betting" and max(world.sizes) > 8):
                    continue  # the one takes one sequence per unit; the other would need 26,000 units
                started = time.perf_counter()
                row = {"alpha": alpha, "world": world.name, "bound": bound, "draws": wishes.draws}
                row |= simulate(world, bound, alpha, wishes.draws)
                rows.append(row | {"mean_risk_over_alpha": f"{row['mean_risk_over_alpha']:.4f}"})
                print(*rows[-1].values(), f"{time.perf_counter() - started:.1f} s", sep=", ", flush=True)
    pl.DataFrame(rows).write_csv(wishes.output)


if __name__ == "__main__":
    main()
