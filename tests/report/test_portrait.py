import pytest
from tests.report import made
from tests.report.test_pictures import words

from kvec.report.canvas import to_svg
from kvec.report.portrait import MOST_STEPS, draw_explanation


@pytest.mark.parametrize(("n_steps", "n_observed", "n_others"), [(1, 1, 0), (2, 1, 2), (30, 12, 3), (260, 240, 20)])
def test_explanations_of_any_length(n_steps: int, n_observed: int, n_others: int) -> None:
    texts = words(to_svg(draw_explanation(made.explanation(n_steps, n_observed, n_others))))
    assert any(f"web (70.0 %) after {n_observed} of {n_steps} items, halted" in text for text in texts)
    assert ("none was looked at" in texts) == (n_others == 0)


def test_stops_a_little_after_the_decision() -> None:
    figure = draw_explanation(made.explanation(30, 12))
    assert figure.axes[0].lines[0].get_xdata().tolist() == list(range(1, 16))
    values = [label.get_text() for label in figure.axes[3].get_xticklabels()]
    assert values[0] == "value 0  1" and values[-1] == "value 14  15"


def test_a_long_wait_shows_its_last_part() -> None:
    drawn = draw_explanation(made.explanation(260, 240)).axes[0].lines[0].get_xdata()
    assert (drawn[0], drawn[-1], len(drawn)) == (44, 243, MOST_STEPS)


def test_the_given_class_is_the_strongest_line_and_halting_bars_change_at_the_threshold() -> None:
    one = made.explanation(10, 6)
    axes = draw_explanation(one).axes
    widths = [line.get_linewidth() for line in axes[0].lines[:5]]
    assert widths[0] == max(widths) > max(widths[1:])
    assert axes[0].lines[0].get_ydata()[0] == one.steps[0].probabilities[one.classes.index("web")]
    colours = [bar.get_facecolor() for bar in axes[1].patches[:9]]
    reached = [step.halt_score >= one.threshold for step in one.steps[:9]]
    assert [colour == colours[-1] for colour in colours] == reached
