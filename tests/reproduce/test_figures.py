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
from kvec.reproduce.gallery import not_drawn, pictures
from kvec.reproduce.inner_figures import draw_attention, draw_sensitivity
from kvec.reproduce.looks import look_of
from kvec.reproduce.results import Results, read_results
from kvec.reproduce.strokes import draw_line, fit_heights, name_lines, set_earliness, spaced


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
    assert all(0 <= at <= 1 for at in found), "beside the axes, not above or below them"


def test_names_stand_in_the_order_of_lines_at_the_very_edge() -> None:
    with styled():
        axes = sheet(4, 3).subplots()
        falling, flat = look_of("earliest"), look_of("kvec")
        lines = {0: straight([0.1, 0.15, 0.16, 1.0], [0.5, 0.52, 0.4, 0.4])}  # crosses between places of the grid
        set_earliness(axes, 0.0, 0.158)
        found = [(draw_line(axes, lines, falling), falling)]
        found.append((draw_line(axes, {0: straight([0.1, 1.0], [0.5, 0.5])}, flat), flat))
        marks = [x for line in axes.lines[:2] for x in line.get_xdata()[line.get_markevery()]]
        fit_heights(axes, [each for each, _ in found], 0.0, 0.158)
        name_lines(axes, found)
    place = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert place[falling.label] < place[flat.label]
    assert axes.get_ylim()[0] < 0.424, "what leaves the picture is in it"
    assert max(marks) < 0.157, "no mark is cut in half"


def test_marks_where_all_is_read_are_whole(results: Results) -> None:
    assert figures.draw_measure(results, "traffic-fg", "accuracy", ["kvec"]).axes[0].get_xlim()[1] > 1.01
    measures = figures.draw_measures(results, "traffic-fg", ["kvec"])
    assert measures.axes[0].get_xlim()[1] > 1.01 and measures.axes[4].get_ylim()[0] < 0


def test_lines_that_begin_late_have_one_panel(tmp_path: Path) -> None:
    tables = made.Made()
    for method in ("kvec", "earliest"):
        cell = tables.cell("sepsis", method, 0)
        for late in (0.3, 0.6, 1.0):
            tables.point(cell, method, "moved", 1 - late, late, made.accuracy(method, late))
    results = read_results(tables.write(tmp_path))
    (axes,) = figures.draw_measure(results, "sepsis", "accuracy", ["kvec", "earliest"]).axes
    assert {text.get_text() for text in axes.texts} == {"KVEC (expected loss)", "EARLIEST"}
    captions = {picture.name: picture.caption for picture in pictures(results)}
    assert captions["sepsis-accuracy"] == "accuracy against earliness on Sepsis."
    ticks = figures.draw_measures(results, "sepsis", ["kvec", "earliest"]).axes[0].get_xticks()
    assert list(ticks) == [0.3, 0.4, 0.5, 0.7, 1.0]


def test_lines_that_lie_on_each_other_are_told_and_not_drawn(tmp_path: Path, results: Results) -> None:
    tables = made.Made()
    cell = tables.cell("sepsis", "kvec", 0)
    for method, right in (("kvec", 0.8), ("kvec-confidence", 0.8002), ("kvec-calimera", 0.8)):
        for late in (0.1, 1.0):
            tables.point(cell, method, "moved", 1 - late, late, right)
    flat = read_results(tables.write(tmp_path))
    assert "sepsis-rules-kvec" not in {picture.name for picture in pictures(flat)}
    (told,) = not_drawn(flat)
    assert told.startswith("Ways of halting on what KVEC says, on Sepsis: all lines lie on each other")
    assert not_drawn(results) == []


def test_bins_of_few_items_are_not_drawn(tmp_path: Path) -> None:
    tables = made.Made().curves("traffic-fg", (0,), ["kvec"]).attend("traffic-fg/kvec/0")
    tables.attention[0]["items"], tables.attention[1]["items"] = 19, 20
    results = read_results(tables.write(tmp_path / "one"))
    line = draw_attention(results, "traffic-fg", ["kvec"]).axes[0].lines[0]
    assert line.get_xdata()[0] == 0.04 and len(line.get_xdata()) == 13
    for row in tables.attention:
        row["items"] = 3
    results = read_results(tables.write(tmp_path / "none"))
    assert "too few items" in words(draw_attention(results, "traffic-fg", ["kvec"]))


def test_a_sweep_is_told_with_what_was_held(tmp_path: Path) -> None:
    tables = made.Made().sensitivity("traffic-fg", (0,))
    for row in tables.cells:
        other = "training.beta=0.02" if row["setting"] == "training.alpha" else f"training.alpha={row['value']}"
        row["settings"] = f"encoder.blocks=2 {other} training.epsilon=0.1"
    told = words(draw_sensitivity(read_results(tables.write(tmp_path)), "traffic-fg"))
    assert "Traffic-FG: α, at β = 0.02" in told and "Traffic-FG: β" in told, "of several values none is told"


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
        ("halting", "■ decided"),
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
