from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.reproduce import made

from kvec.reproduce.curves import SAME
from kvec.reproduce.discussions import concordance, distance, judge, key_counts, sweep
from kvec.reproduce.results import read_results
from kvec.reproduce.verdicts import FAILS, HOLDS, PARTLY


def test_distance_is_the_mean_gap_of_sorted_positions() -> None:
    halts = pl.DataFrame({"true": [10, 10, 20], "n_observed": [12, 25, 11], "count": [2, 1, 1]})
    true, found = sorted([10, 10, 10, 20]), sorted([12, 12, 25, 11])
    assert distance(halts) == pytest.approx(np.mean([abs(a - b) for a, b in zip(true, found, strict=True)]))


def test_concordance_counts_pairs() -> None:
    random = np.random.default_rng(1)
    values, late = random.random(7), random.random(7).round(1)
    late[:2] = 0.3, 0.3 + 0.9 * SAME  # told as one
    pairs = [(i, j) for i in range(7) for j in range(i)]
    slow = np.mean(
        [
            0.5 if abs(late[i] - late[j]) <= SAME else float((values[i] > values[j]) == (late[i] < late[j]))
            for i, j in pairs
        ]
    )
    assert concordance(values, late) == pytest.approx(slow)


def test_sweep_is_sorted_by_value(tmp_path: Path) -> None:
    results = read_results(made.Made().sensitivity("a", (0, 1)).write(tmp_path))
    table = sweep(results, "a", "alpha")
    assert table["value"].to_list() == [0, 0.01, 0.1, 1, 10] and table["n"].to_list() == [2] * 5
    assert table["accuracy"][1] == pytest.approx(0.581)
    assert {row.verdict for row in judge(results) if "steers" in row.claim} == {HOLDS}


def test_settings_without_effect_steer_nothing(tmp_path: Path) -> None:
    tables = made.Made()
    for name in ("alpha", "beta"):
        for value in (0.1, 1.0, 10.0):
            cell = tables.cell("a", "kvec-paper", 0, f"training.{name}", value)
            tables.point(cell, "kvec-paper", "swept", 0.5, 0.3, 0.5 if name == "alpha" else 0.5 + value / 50)
    rows = {row.claim[0]: row.verdict for row in judge(read_results(tables.write(tmp_path)))}
    assert rows["α"] == FAILS and rows["β"] == FAILS


def test_a_setting_that_moves_earliness_more_does_not_leave_it(tmp_path: Path) -> None:
    tables = made.Made()
    for seed in (0, 1):
        for i, value in enumerate((0.1, 1.0, 10.0)):
            cell = tables.cell("a", "kvec-paper", seed, "training.alpha", value)
            tables.point(cell, "kvec-paper", "swept", 0.5, 0.2 + 0.2 * i, 0.5 + 0.1 * i)
    for row in tables.cells:
        row["settings"] = "training.beta=0.02 encoder.blocks=1"
    (row,) = [row for row in judge(read_results(tables.write(tmp_path))) if row.claim.startswith("α")]
    assert (row.verdict, row.reason) == (FAILS, "it moves earliness more than accuracy")
    assert row.measured.startswith("3 values at β = 0.02 spread")


def test_a_beta_that_halts_later_steers_the_wrong_way(tmp_path: Path) -> None:
    tables = made.Made()
    for i, value in enumerate((0.1, 1.0, 10.0)):
        for name in ("alpha", "beta"):
            cell = tables.cell("a", "kvec-paper", 0, f"training.{name}", value)
            tables.point(cell, "kvec-paper", "swept", 0.5, 0.2 + 0.2 * i, 0.5)
    (row,) = [row for row in judge(read_results(tables.write(tmp_path))) if row.claim.startswith("β")]
    assert (row.verdict, row.reason) == (FAILS, "the larger β is later, on one seed")


def test_halting_and_keys_over_seeds(tmp_path: Path) -> None:
    tables = made.Made().halting("synthetic-early", 10, (0, 1, 2)).keys("traffic-fg", (0, 1), (2, 4, 8, 16))
    results = read_results(tables.write(tmp_path))
    assert key_counts(results) == {"traffic-fg": [2, 4, 8, 16]}
    found = {row.claim[:4]: row for row in judge(results)}
    assert found["KVEC"].verdict == HOLDS and "3 seeds" in found["KVEC"].measured
    assert found["more"].verdict == HOLDS and found["more"].measured.startswith("from 2 to 16 keys")


def test_attention_that_grows_does_not_fade(tmp_path: Path) -> None:
    tables = made.Made()
    for seed in (0, 1):
        cell = tables.cell("a", "kvec", seed)
        tables.point(cell, "kvec", "moved", 0.5, 0.3, 0.5)
        tables.attend(cell, seed)
    for row in tables.attention:
        row["outside"], row["inside"] = row["inside"], row["outside"]
    found = [row for row in judge(read_results(tables.write(tmp_path))) if row.claim.startswith("attention")]
    assert [row.verdict for row in found] == [FAILS] and PARTLY not in {row.verdict for row in found}


@pytest.mark.parametrize(("n_items", "verdict"), [(1000, PARTLY), (5, HOLDS)])  # of five items nothing is said
def test_attention_fades_only_if_its_end_is_low(tmp_path: Path, n_items: int, verdict: str) -> None:
    tables = made.Made()
    for seed in (0, 1):
        cell = tables.cell("a", "kvec", seed)
        tables.point(cell, "kvec", "moved", 0.5, 0.3, 0.5)
        tables.attend(cell, seed)
        tables.attention[-1] |= {"outside": 0.9, "items": n_items}
    (row,) = [row for row in judge(read_results(tables.write(tmp_path))) if row.claim.startswith("attention")]
    assert (row.verdict, "90.0 % in the last bin" in row.measured) == (verdict, n_items == 1000)


def test_a_signal_at_the_end_leaves_nothing_to_halt(tmp_path: Path) -> None:
    tables = made.Made().halting("synthetic-late", 100)
    for row in tables.halts:
        if row["method"] == "kvec":
            row["n_observed"] = 100
    (row,) = [row for row in judge(read_results(tables.write(tmp_path))) if row.claim.startswith("KVEC's halting")]
    assert "KVEC decides all at their end, where the signal is complete" in row.reason
