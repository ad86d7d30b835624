from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import to_rgb
from tests.report import made

from kvec.report import canvas, curves, pictures, trust
from kvec.report.canvas import to_svg
from kvec.words.errors import SettingError


def words(svg: str) -> list[str]:
    """The texts of a picture; also proves that it is well-formed."""
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("}text")]


def draw_curves(traces: curves.Traces) -> str:
    theta, _ = curves.best_threshold(traces)
    n, _ = curves.best_fixed(traces)
    thresholds, fixed = curves.threshold_curve(traces), curves.fixed_curve(traces)
    return to_svg(pictures.draw_curves(thresholds, fixed, (f"θ = {theta:.3g}", 0.2, 0.7), (n, 0.3, 0.6)))


def test_curves_say_what_is_better_and_name_both_rules() -> None:
    texts = " ".join(words(draw_curves(made.traces())))
    for phrase in (
        "lower is better",
        "the model, θ =",
        "70.0 % right after 20.0 %, HM 0.747",
        "best fixed rule, n =",
    ):
        assert phrase in texts


@pytest.mark.parametrize("n_sequences", [1, 2, 300])
def test_curves_of_few_and_many_sequences(n_sequences: int) -> None:
    assert words(draw_curves(made.traces(n_sequences)))


def test_same_picture_same_text() -> None:
    assert draw_curves(made.traces()) == draw_curves(made.traces())


def test_the_mean_stands_above_all_bars() -> None:
    (axes,) = pictures.draw_earliness(np.array([0.2] * 30 + [0.9]), np.array([True] * 20 + [False] * 11)).axes
    highest = max(bar.get_y() + bar.get_height() for bar in axes.patches)
    assert highest == 30 and axes.get_ylim()[1] * 0.9 > highest


def test_earliness_histogram_names_right_wrong_and_mean() -> None:
    texts = words(to_svg(pictures.draw_earliness(np.array([0.1, 0.2, 0.9]), np.array([True, False, True]))))
    assert {"■ right", "■ wrong", "mean 40.0 %"} <= set(texts)


def test_history_takes_losses_and_validation_measures() -> None:
    texts = words(to_svg(pictures.draw_history(made.HISTORY)))
    assert {"loss", "classification", "accuracy", "HM", "earliness ↓"} <= set(texts)
    assert "seconds" not in texts and "policy" not in texts
    assert "on validation" in texts, "no epoch is named where it is not known which was kept"


def test_history_draws_the_same_loss_once() -> None:
    same, other = ([row | {"every": factor * row["loss"]} for row in made.HISTORY] for factor in (1, 2))
    drawn = [words(to_svg(pictures.draw_history(rows))).count("every") for rows in (same, other)]
    assert drawn == [0, 1]


def test_history_rings_the_epoch_whose_weights_were_kept() -> None:
    rows = [row | {"unseen": loss} for row, loss in zip(made.HISTORY, (3.0, 2.0, 1.0, 1.5, 1.6), strict=True)]
    figure = pictures.draw_history(rows, kept=3.0)
    left, right = figure.axes
    rings = [
        [line.get_xydata().tolist() for line in axes.lines if line.get_markersize() == 9] for axes in (left, right)
    ]
    assert rings == [[[[3.0, 1.0]]], [[[3.0, rows[2]["validation_hm"]]]]], "not the best HM, that of epoch 5"
    texts = words(to_svg(figure))
    assert {"on validation; kept: epoch 3", "unseen"} <= set(texts)


@pytest.mark.parametrize("rows", [made.HISTORY[:1], [{"epoch": 1}], [{"loss": "nan"}, {"loss": None}]])
def test_history_with_little_in_it(rows: list[dict[str, object]]) -> None:
    assert "epoch" in words(to_svg(pictures.draw_history(rows)))


@pytest.mark.parametrize("n_classes", [1, 2, 12, 70])
def test_confusion_of_few_and_many_classes(n_classes: int) -> None:
    matrix = np.eye(n_classes, dtype=np.int64) * 5
    matrix[0, -1] += 2
    texts = words(to_svg(pictures.draw_confusion(matrix, [f"class {i}" for i in range(n_classes)])))
    assert len([text for text in texts if text.startswith("class ")]) == 2 * min(n_classes, pictures.MOST_CLASSES)
    assert ("% of each true class; 60 of 70 classes" in texts) == (n_classes == 70)


def test_confusion_leaves_out_classes_that_do_not_occur() -> None:
    matrix = np.zeros((4, 4), np.int64)
    matrix[0, 2] = 3
    assert [t for t in words(to_svg(pictures.draw_confusion(matrix, "abcd"))) if t in "abcd"] == ["a", "c"]


def test_names_are_letters_not_markup_nor_mathematics() -> None:
    matrix = np.eye(len(made.CLASSES), dtype=np.int64)
    texts = words(to_svg(pictures.draw_confusion(matrix, made.CLASSES)))
    assert {"<b>bold</b> & co", "$x^2$", "日本語", "tab·and·nul"} <= set(texts)


def test_reliability_shows_the_gap() -> None:
    table = trust.reliability([0.95, 0.95, 0.4], [True, True, False])
    before = trust.reliability([0.9, 0.9, 0.9], [True, True, False])
    shown = words(to_svg(pictures.draw_reliability(table, before)))
    assert {"● calibrated: ECE 0.167, Brier 0.055", "◇ before: ECE 0.233, Brier 0.277"} <= set(shown)
    assert not any(text.startswith("◇") for text in words(to_svg(pictures.draw_reliability(table))))


def test_coverage_shows_what_is_known() -> None:
    curve = trust.coverage_curve([0.9, 0.8, 0.4], [True, True, False])
    shown = words(to_svg(pictures.draw_coverage(curve, (2 / 3, 1.0))))
    assert {"known: 66.7 %,", "100.0 % of them right"} <= set(shown)
    assert not any("known" in text for text in words(to_svg(pictures.draw_coverage(curve))))


def test_end_labels_never_overlap_nor_leave_the_panel() -> None:
    with canvas.styled():
        axes = canvas.sheet(4, 3).subplots()
        axes.set_ylim(0, 2)
        canvas.label_ends(axes, [(2.0, c, canvas.BLUE) for c in "abc"] + [(0.1, "low", canvas.BLUE)], 1.0, gap=0.1)
    heights = sorted(note.xy[1] / 2 for note in axes.texts)
    assert np.diff(heights).min() >= 0.1 - 1e-9
    assert heights[0] == pytest.approx(0.05) and heights[-1] == pytest.approx(1.0)


def test_saving_writes_whole_files_of_two_kinds(tmp_path) -> None:
    figure = pictures.draw_earliness(np.array([0.5]), np.array([True]))
    for name, start in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
        canvas.save(figure, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(SettingError, match=r"a\.pdf.*\.svg or \.png"):
        canvas.save(figure, tmp_path / "a.pdf")
    with pytest.raises(SettingError, match="cannot be written"):
        canvas.save(figure, tmp_path / "missing" / "a.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "a.svg"]


def test_few_colours_are_enough_for_a_png(tmp_path) -> None:
    figure = pictures.draw_earliness(np.linspace(0, 1, 50), np.arange(50) % 3 > 0)
    canvas.save(figure, tmp_path / "few.png")
    with canvas.styled():
        figure.savefig(tmp_path / "all.png")
    few, all_of_them = (image.imread(tmp_path / f"{name}.png")[..., :3] for name in ("few", "all"))
    assert few.shape == all_of_them.shape
    assert np.abs(few - all_of_them).mean() < 0.002
    assert (tmp_path / "few.png").stat().st_size < 0.6 * (tmp_path / "all.png").stat().st_size


def test_letters_keep_their_hue_in_few_colours(tmp_path) -> None:
    with canvas.styled():
        figure = canvas.sheet(6, 4)
        axes = figure.subplots()
        x = np.linspace(0, 1, 60)
        for i, (colour, letters) in enumerate(canvas.LETTERS.items()):
            y = np.sin(x * (3 + i)) + i / 9
            axes.fill_between(x, y - 0.4, y + 0.4, color=colour, alpha=0.16, lw=0)  # bands mix to many colours
            axes.text(0.02, 0.9 - 0.1 * i, "halting positions", color=letters, transform=axes.transAxes)
        canvas.save(figure, tmp_path / "few.png")
        figure.savefig(tmp_path / "all.png")
    few, all_of_them = (image.imread(tmp_path / f"{name}.png")[..., :3] for name in ("few", "all"))
    for hue in canvas.LETTERS.values():
        given = np.array(to_rgb(hue))
        same = np.isclose(all_of_them, given, atol=1e-3).all(axis=-1)
        assert same.any() and np.abs(few[same] - given).max() < 0.02, hue
