"""ECONOMY's expected costs, CALIMERA's induction and the temperatures as plain loops, beside the real ones."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.decide.triggers.made import apart, walks

from kvec.decide.triggers.base import Floats, Prefixes, logs_of
from kvec.decide.triggers.calibrated import Temperatures, fit_sharpness
from kvec.decide.triggers.calimera import Calimera, features
from kvec.decide.triggers.economy import Economy, Link, expected_costs, link_up
from kvec.decide.triggers.ridge import PENALTIES, Ridge

PER_ITEM = [0.004, 0.1]


def slow_group(link: Link, shares: Floats) -> int:
    return sum(float(max(shares)) >= edge for edge in link.edges)


def slow_expected_cost(known: Prefixes, chain: list[Link], i: int, group: int, horizon: int, per_item: float) -> float:
    """What deciding at a step `horizon`, or at the end if that is beyond the last, costs a member of a group.

    Counted over held-out sequences: one step forward, then as from the group reached there. That is the Markov chain.
    """
    parts = apart(known)
    members = [s for s, p in enumerate(parts) if len(p) >= chain[i].step]
    members = [s for s in members if slow_group(chain[i], parts[s][chain[i].step - 1]) == group]
    total = 0.0
    for s in members:
        following = chain[i + 1].step if i + 1 < len(chain) else math.inf
        if i == horizon:
            total += (parts[s][chain[i].step - 1].argmax() != known.truth[s]) + per_item * chain[i].step
        elif len(parts[s]) < following:
            total += (parts[s][-1].argmax() != known.truth[s]) + per_item * len(parts[s])
        else:
            then = slow_group(chain[i + 1], parts[s][chain[i + 1].step - 1])
            total += slow_expected_cost(known, chain, i + 1, then, horizon, per_item)
    return total / len(members)


@pytest.mark.parametrize("per_item", PER_ITEM)
def test_expected_costs_of_economy(per_item: float) -> None:
    known = walks(50, seed=0, longest=4)
    chain = link_up(known, 3)
    assert len(chain) >= 3
    for i, table in enumerate(expected_costs(chain, per_item)):
        assert table.shape == (len(chain[i].edges) + 1, len(chain) - i + 1)
        for group, row in enumerate(table):
            slow = [slow_expected_cost(known, chain, i, group, j, per_item) for j in range(i, len(chain) + 1)]
            assert row.tolist() == pytest.approx(slow)


@pytest.mark.parametrize("setting", [0.1, 1.0, 4.0])
def test_stops_of_economy(setting: float) -> None:
    known, others = walks(150, seed=1), walks(40, seed=2)
    economy = Economy().fit(known)
    tables = expected_costs(economy.chain, setting / known.length.mean())
    slow = []
    for shares in apart(others):
        stop = len(shares)
        for link, table in zip(economy.chain, tables, strict=True):
            if link.step <= len(shares) and int(np.argmin(table[slow_group(link, shares[link.step - 1])])) == 0:
                stop = link.step
                break
        slow.append(stop)
    assert economy.stops(others, setting).tolist() == slow


def slow_fit(rows: Floats, target: Floats, penalty: float) -> tuple[Floats, float]:
    """Slopes and level that minimise the squares plus the penalty on the squared slopes."""
    with_one = np.column_stack([rows, np.ones(len(rows))])
    fine = np.diag([penalty] * rows.shape[1] + [0.0])
    solved = np.linalg.solve(with_one.T @ with_one + fine, with_one.T @ target)
    return solved[:-1], float(solved[-1])


def slow_best_prediction(rows: Floats, target: Floats) -> Floats:
    """Predictions by the penalty that predicts rows best when each is left out in turn."""
    scaled = rows / np.where(rows.std(axis=0) > 1e-9, rows.std(axis=0), np.inf)
    best, lowest = scaled[:, 0], math.inf
    for penalty in PENALTIES * len(rows):
        error = 0.0
        for left_out in range(len(rows)):
            rest = np.arange(len(rows)) != left_out
            slope, level = slow_fit(scaled[rest], target[rest], penalty)
            error += (scaled[left_out] @ slope + level - target[left_out]) ** 2
        if error < lowest:
            slope, level = slow_fit(scaled, target, penalty)
            best, lowest = scaled @ slope + level, error
    return best


def test_ridge_chooses_its_penalty_by_leaving_out() -> None:
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.normal(2, 3, (30, 4)), np.full(30, 7.0)])
    targets = np.column_stack([rows @ rng.normal(0, 1, 5), rng.normal(1, 1, 30), np.sin(rows[:, 0])])
    targets += rng.normal(0, 0.5, targets.shape)
    predicted = Ridge.of(rows).solve(targets).predict(rows)
    for column in range(3):
        assert predicted[:, column] == pytest.approx(slow_best_prediction(rows, targets[:, column]))


def test_a_row_left_out_of_a_ridge_misses_by_its_residual_over_its_share() -> None:
    rng = np.random.default_rng(5)
    rows, target = rng.normal(0, 1, (9, 3)), rng.normal(2, 1, 9)
    scaled = rows / rows.std(axis=0)
    for penalty, left_out in zip(PENALTIES * 9, Ridge.of(rows).left_out, strict=True):
        slope, level = slow_fit(scaled, target, penalty)
        for i in range(9):
            without, without_level = slow_fit(np.delete(scaled, i, axis=0), np.delete(target, i), penalty)
            missed = target[i] - scaled[i] @ without - without_level
            assert (target[i] - scaled[i] @ slope - level) / left_out[i] == pytest.approx(missed)


@pytest.mark.parametrize("setting", [0.2, 2.0])
def test_induction_of_calimera(setting: float) -> None:
    """From the last step back: who would wait there pays what waiting led to, all others what deciding costs."""
    known = walks(40, seed=4, n_classes=3, longest=4)
    calimera = Calimera().fit(known)
    per_item = setting / known.length.mean()
    shares = np.split(Temperatures.fit(known).apply(known.probabilities, known.place), known.offsets[1:-1])
    later = [1 - p[-1].max() + per_item * len(p) for p in shares]
    learned = calimera.induce(np.array([per_item]))
    assert len(calimera.steps) >= 2
    for step, weights in reversed(list(zip(calimera.steps, learned, strict=True))):
        members = [s for s, p in enumerate(shares) if len(p) >= step]
        rows = np.concatenate([features(shares[s][[step - 1]]) for s in members])
        now = [1 - shares[s][step - 1].max() + per_item * step for s in members]
        loss = slow_best_prediction(rows, np.array([later[s] - n for s, n in zip(members, now, strict=True)]))
        assert weights.predict(rows)[:, 0] == pytest.approx(loss, abs=1e-9)
        for s, n, lost in zip(members, now, loss, strict=True):
            later[s] = later[s] if lost < 0 else n


@pytest.mark.parametrize("seed", range(3))
def test_temperatures_are_those_of_largest_likelihood(seed: int) -> None:
    known = walks(60, seed, n_classes=3, longest=1)
    logs = logs_of(known.probabilities)

    def slow_likelihood(pair: tuple[float, float]) -> float:
        total = 0.0
        for row, own in zip(logs, known.truth, strict=True):
            sure = (math.exp(max(row)) - 1 / 3) / (1 - 1 / 3)
            beta = (1 - sure) * pair[0] + sure * pair[1]
            total += beta * row[own] - math.log(sum(math.exp(beta * value) for value in row))
        return total

    found = fit_sharpness(logs, known.truth)
    best = slow_likelihood(tuple(found))
    tried = itertools.product(np.geomspace(0.05, 20, 41), repeat=2)
    near = [tuple(np.clip(found * factors, 0.05, 20)) for factors in itertools.product((0.99, 1.0, 1.01), repeat=2)]
    assert all(slow_likelihood(pair) <= best + 1e-9 for pair in [*tried, *near])
