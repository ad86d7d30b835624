"""What is told after n items, in figures and tables."""

from pathlib import Path

import pytest
from tests.reproduce.made import Made
from tests.reproduce.test_figures import words

from kvec.reproduce.by_items import (
    VISIBILITY,
    by_items,
    draw_by_items,
    draw_side_by_side,
    items_rows,
    measured_trainings,
    side_by_side,
)
from kvec.reproduce.gallery import pictures
from kvec.reproduce.page import make_report
from kvec.reproduce.results import read_results


def made() -> Made:
    tables = Made().read_on("movielens-1m", ("kvec-every", "logistic"), (0, 1, 2), has_auc=True)
    for number in (2, 16):
        tables.read_on(f"fgnet-d1@{number}", VISIBILITY, (0, 1))
    tables.read_on("traffic-fg@4", ("kvec",), (0,))
    tables.curves("planted", (0,), ["kvec"])
    return tables


def test_means_are_over_seeds(tmp_path: Path) -> None:
    results = read_results(made().write(tmp_path))
    found = by_items(results, "movielens-1m", "logistic")
    assert found is not None and found.n_observed == (1, 2, 5, 20)
    assert [each.mean for each in found.measured] == pytest.approx([0.532, 0.552, 0.612, 0.912])
    assert (found.end.mean, found.end.n, found.end.sd) == pytest.approx((0.912, 3, 0.002))
    assert by_items(results, "fgnet-d1@2", "kvec", "auc") is None and by_items(results, "planted", "kvec") is None
    assert measured_trainings(results, "movielens-1m") == ["kvec-every", "logistic"]
    header, rows = items_rows(results, "movielens-1m", ["kvec-every", "logistic"])
    assert header == ["method", "measure", "seeds", "n = 1", "n = 2", "n = 5", "n = 20", "end"]
    assert rows[1][:4] == ["logistic regression", "accuracy", "3", "0.532 ± 0.002"]
    assert rows[3][:4] == ["logistic regression", "area under ROC", "3", "0.432 ± 0.002"]


def test_rules_of_visibility_are_set_side_by_side(tmp_path: Path) -> None:
    results = read_results(made().write(tmp_path))
    assert side_by_side(results) == {"fgnet-d1": [2, 16]}, "one rule alone is no comparison"
    figure = draw_side_by_side(results, "fgnet-d1", [2, 16])
    told = words(figure)
    assert {"FG-Net D1: 2 in a tangle", "16 in a tangle", "at the end", "KVEC (by default)"} <= set(told)
    assert [len(axes.lines) for axes in figure.axes[:2]] == [len(VISIBILITY)] * 2 and len(figure.axes) == 3
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    last = figure.axes[2].lines[0].get_ydata()
    assert list(last) == pytest.approx([0.901, 0.901]), "at the end, against the size of tangles"
    two = draw_by_items(results, "movielens-1m", ["kvec-every", "logistic"])
    assert {"MovieLens-1M: accuracy", "area under ROC", "logistic regression", "end"} <= set(words(two))


def test_the_report_has_a_part_for_each(tmp_path: Path) -> None:
    folder = made().write(tmp_path / "in")
    names = [picture.name for picture in pictures(read_results(folder))]
    assert {"movielens-1m-items", "fgnet-d1-visibility"} <= set(names) and "fgnet-d1-keys" not in names
    make_report(folder, tmp_path / "out")
    plain = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    assert "## Beyond the paper: items seen and told" in plain and "## Beyond the paper: what other keys tell" in plain
    assert "FG-Net D1 (16 captures per tangle): after n items" in plain and "same test tangles" not in plain
