"""The paired bootstrap against plain counting, and on pairs whose difference is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.reproduce.made import Made

from kvec.report.metrics import harmonic_mean
from kvec.reproduce.paired import HALF, MEASURES, Points, drawn_weights, measured, paired_rows, read_points
from kvec.reproduce.results import read_results
from kvec.reproduce.store import units_of
from kvec.words.errors import DataError

UNITS = 40


def points(chance: float, n: int = UNITS, seed: int = 0) -> Points:
    """Three points of growing earliness, right with a growing chance."""
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 4, n).astype(float)
    right = np.stack([rng.binomial(count.astype(int), chance * share) for share in (0.3, 0.6, 0.9)]).astype(float)
    late = np.stack([count * share for share in (0.02, 0.12, 0.5)])
    return Points(right, late, count, ((0, 1, 2),), 1)


def test_a_draw_is_what_counting_the_drawn_units_gives() -> None:
    given, weights = points(1.0), drawn_weights(UNITS, 3, draws=20)
    found = measured(given, weights)
    for row, weight in zip(found, weights, strict=True):
        taken = np.repeat(np.arange(UNITS), weight.astype(int))
        total = given.count[taken].sum()
        right, late = (part[:, taken].sum(axis=1) / total for part in (given.right, given.late))
        assert row[:-1] == pytest.approx(np.interp((0.05, 0.1, 0.2, 0.3), late, right))
        assert row[-1] == pytest.approx(harmonic_mean(right[1], late[1]))
    assert (weights[0] == 1).all() and (weights[1:].sum(axis=1) == UNITS).all()


def test_beyond_the_ends_of_a_line_nothing_is_told_and_the_better_line_counts() -> None:
    given = points(1.0)
    early = Points(given.right, given.late, given.count, ((0, 1),), 1)
    found = measured(early, drawn_weights(UNITS, 0, draws=3))
    assert np.isfinite(found[:, :2]).all() and np.isnan(found[:, 2:4]).all()
    both = Points(given.right, given.late, given.count, ((0, 1), (0, 2)), 1)
    apart = [
        measured(Points(given.right, given.late, given.count, (line,), 1), np.ones((1, UNITS))) for line in both.lines
    ]
    assert measured(both, np.ones((1, UNITS)))[0] == pytest.approx(np.fmax(*apart)[0], nan_ok=True)


def kept(folder: Path, cell: str, methods: dict[str, Points], curve: str = "moved") -> None:
    """What a cell keeps of its units."""
    rows = []
    for method, given in methods.items():
        for place, (right, late) in enumerate(zip(given.right, given.late, strict=True)):
            for kind in (curve, "chosen") if place == given.chosen else (curve,):
                rows.append((method, kind, str(place), right, late, given.count))
    given = next(iter(methods.values()))
    training = cell.split("/")[1].split()[0]
    rows.append((training, "first", "0", given.right[0], given.count * 0.01, given.count))
    rows.append((training, "end", "0", given.right[-1], given.count, given.count))
    frames = [
        pl.DataFrame({"unit": [f"{u:03}" for u in range(len(count))], "sequences": count, "right": right, "late": late})
        .with_columns(method=pl.lit(method), curve=pl.lit(kind), setting=pl.lit(setting))
        for method, kind, setting, right, late, count in rows
    ]  # fmt: skip
    units_of(folder, cell).parent.mkdir(exist_ok=True)
    pl.concat(frames).write_parquet(units_of(folder, cell))


def test_methods_are_compared_where_all_was_kept(tmp_path: Path) -> None:
    tables = Made().curves("traffic-fg", (0, 1), ["kvec", "srn", "earliest"], values=1)
    for seed in (0, 1):
        cell = tables.cell("traffic-fg", "trees", seed)
        for method in ("trees-fixed", "trees-induction"):
            tables.curve(cell, method, seed)
    folder = tables.write(tmp_path)
    for seed in (0, 1):
        kept(folder, f"traffic-fg/kvec/{seed}", {"kvec": points(1.0, 400, seed)})
        kept(folder, f"traffic-fg/srn/{seed}", {"srn-fixed": points(0.7, 400, seed)})
        trees = {"trees-fixed": points(0.8, 400, seed), "trees-induction": points(0.9, 400, seed)}
        kept(folder, f"traffic-fg/trees/{seed}", trees)
    rows = paired_rows(read_results(folder), folder, ["kvec"], ["srn-fixed", "earliest", "trees-fixed"])
    found = {(row["other"], row["measure"]): row for row in rows}
    assert {other for other, _ in found} == {"srn-fixed", "trees-fixed", HALF}, "earliest has kept nothing"
    assert {measure for _, measure in found} == set(MEASURES)
    for measure in ("0.1", "0.2", "0.3", "hm"):
        row = found["srn-fixed", measure]
        assert 0 < float(row["low"]) < float(row["difference"]) < float(row["high"])
        half = found[HALF, measure]
        assert float(half["value"]) == float(row["value"]) and 0 < float(half["difference"]) < float(row["difference"])
    assert (found["srn-fixed", "hm"]["seeds"], found["srn-fixed", "hm"]["units"]) == (2, 800)
    tables.cell("sepsis", "kvec", 0)
    again = paired_rows(read_results(tables.write(folder)), folder, ["kvec"], ["srn-fixed", "earliest", "trees-fixed"])
    assert again == rows, "a data set of which nothing was kept adds nothing"
    kept(folder, "traffic-fg/srn/1", {"srn-fixed": points(0.7, 399)})
    with pytest.raises(DataError, match="different parts of traffic-fg"):
        paired_rows(read_results(folder), folder, ["kvec"], ["srn-fixed"])


def test_swept_policies_are_joined_from_the_first_item_to_the_end(tmp_path: Path) -> None:
    count = np.ones(4)
    for value, late, right in ((0.02, 0.3, 0.5), (0.5, 0.1, 0.25)):
        one = Points(np.full((1, 4), right), np.full((1, 4), late), count, (), 0)
        kept(tmp_path, f"planted/earliest beta={value}/0", {"earliest": one}, "swept")
    paths = [units_of(tmp_path, f"planted/earliest beta={value}/0") for value in (0.02, 0.5)]
    found = read_points(paths, "earliest")
    (line,) = found.lines
    assert found.late[list(line)].mean(axis=1) == pytest.approx([0.01, 0.1, 0.3, 1.0])
    assert found.right[list(line)].mean(axis=1) == pytest.approx([0.25, 0.25, 0.5, 0.5])
    assert found.late[found.chosen].mean() == 0.3, "of the cell that is best on validation"
