from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reproduce import made

from kvec.report.canvas import as_percent, sheet, styled, to_svg
from kvec.reproduce import figures
from kvec.reproduce.curves import straight
from kvec.reproduce.gallery import pictures
from kvec.reproduce.looks import look_of
from kvec.reproduce.results import Results, read_results
from kvec.reproduce.strokes import draw_line, fit_heights, spaced


def words(figure) -> list[str]:
    nodes = ElementTree.fromstring(to_svg(figure)).iter()
    return ["".join(node.itertext()) for node in nodes if node.tag.endswith("}text")]


def sizes(figure) -> set[float]:
    return {text.get_fontsize() for axes in figure.axes for text in axes.texts} | {
        label.get_fontsize() for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(made.everything().write(tmp_path_factory.mktemp("results")))


@given(st.lists(st.floats(0, 1), max_size=9), st.floats(0.02, 0.1))
def test_names_never_overlap(places: list[float], gap: float) -> None:
    found = spaced(sorted(places), gap)
    assert len(found) == len(places)
    assert all(b - a >= gap - 1e-5 for a, b in pairwise(found))


def test_every_line_is_named_where_it_leaves(results: Results) -> None:
    methods = figures.main_methods(results, "traffic-fg")
    figure = figures.draw_measure(results, "traffic-fg", "accuracy", methods)
    assert {look_of(name).label for name in methods} <= set(words(figure))
    early = figure.axes[1]
    named = [text.get_text() for text in sorted(early.texts, key=lambda text: text.get_position()[1])]
    right = {look_of(name).label: made.accuracy(name, 0.12) for name in methods}
    assert named[0] == min(right, key=lambda name: right[name])
    assert named[-1] == max(right, key=lambda name: right[name])
    assert "the early part; shaded 2–8 %" in words(figure)


def test_the_early_part_is_that_of_the_data_set(results: Results) -> None:
    late = figures.draw_measure(results, "movielens-1m", "hm", ["kvec"])
    assert late.axes[1].get_xlim()[1] == pytest.approx(0.46)
    plain = figures.draw_measure(results, "sepsis", "hm", ["kvec"])
    assert plain.axes[1].get_xlim()[1] == pytest.approx(0.12) and "the early part" in words(plain)


def test_drawn_mean_is_the_mean_over_seeds(results: Results) -> None:
    figure = figures.draw_measure(results, "traffic-fg", "accuracy", ["kvec"])
    line = figure.axes[0].lines[0]
    known = [np.mean([made.accuracy("kvec", x, seed) for seed in (0, 1, 2)]) for x in line.get_xdata()]
    np.testing.assert_allclose(line.get_ydata(), known, atol=2e-3)


def test_groups_of_methods(results: Results) -> None:
    assert figures.rules_of_srn(results, "traffic-fg")[0] == "kvec"
    assert "srn-earliest" not in figures.rules_of_srn(results, "traffic-fg")
    assert figures.rules_of_kvec(results, "traffic-fg") == ["kvec", "kvec-window", "kvec-confidence", "kvec-calimera"]
    assert figures.moved_methods(results, "traffic-fg") == ["kvec", "kvec-paper", "srn-earliest", "earliest"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("traffic-fg-measures", "one for each value and seed"),
        ("traffic-fg-ablation", "without value correlation"),
        ("traffic-fg-sensitivity", "earliness ↓"),
        ("traffic-fg-attention", "other keys"),
        ("halting", "┆ true position"),
        ("traffic-fg-keys", "K = 32"),
        ("table-1", "mean session"),
    ],
)
def test_every_kind_of_figure_can_be_drawn_and_read(results: Results, name: str, said: str) -> None:
    (picture,) = [picture for picture in pictures(results) if picture.name == name]
    figure = picture.draw()
    assert said in " ".join(words(figure))
    assert min(sizes(figure)) >= 9


def test_names_of_figures_are_one_each(results: Results) -> None:
    names = [picture.name for picture in pictures(results)]
    assert len(set(names)) == len(names) and {f"sepsis-{measure}" for measure in figures.TITLES} <= set(names)


def test_nothing_to_draw(tmp_path: Path) -> None:
    results = read_results(made.Made().table_one("sepsis").write(tmp_path))
    assert [picture.name for picture in pictures(results)] == ["table-1"]


def test_a_flat_line_has_an_axis_that_can_be_read() -> None:
    with styled():
        figure = sheet(4, 3)
        axes = figure.subplots()
        flat = {0: straight([0.0, 1.0], [0.5, 0.5])}
        fit_heights(axes, [draw_line(axes, flat, look_of("kvec"))], 0.0, 1.0)
        told = [word for word in words(figure) if word.endswith(" %")]
    assert np.ptp(axes.get_ylim()) == pytest.approx(0.05) and len(set(told)) == len(told) > 2


def test_percentages_are_told_as_they_are() -> None:
    with styled():
        figure = sheet(4, 3)
        axes = figure.subplots()
        axes.set_yticks([0.55, 0.575, 0.6])
        as_percent(axes.yaxis)
        assert [word for word in words(figure) if word.endswith(" %")] == ["55 %", "57.5 %", "60 %"]
