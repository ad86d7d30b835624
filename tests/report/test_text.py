from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report import made

from kvec.report import metrics, text


@given(st.text(), st.integers(2, 30))
def test_plain_text_is_printable_and_fits(given_text: str, width: int) -> None:
    shown = text.plain(given_text, width)
    assert shown.isprintable() and text.columns(shown) <= width
    if given_text.isprintable() and text.columns(given_text) <= width:
        assert shown == given_text


@given(st.floats(-1, 2), st.integers(1, 20))
def test_bars_fill_their_width_in_order(share: float, width: int) -> None:
    assert len(text.bar(share, width)) == width
    assert (text.bar(0, width), text.bar(1, width)) == (" " * width, "█" * width)


def test_sparkline_spans_its_range() -> None:
    assert text.sparkline([2, 3, 4], low=2, high=4) == "▁▅█"
    assert text.sparkline([]) == ""


def test_tables_are_aligned_by_columns_not_letters() -> None:
    lines = text.table([("日本", "1"), ("web", "22")], ("class", "n"), right=(1,)).splitlines()
    assert lines == ["class   n", "─────  ──", "日本    1", "web    22"]


def test_summary_shows_intervals_and_direction() -> None:
    summary = metrics.summarise([0, 1, 1], [0, 1, 0], [1, 2, 3], [4, 4, 4], [0, 0, 1], 2, draws=20)
    shown = str(summary)
    assert "earliness  0.5000" in shown and "lower is better" in shown
    low, high = summary.intervals["hm"]
    assert f"{low:.4f} – {high:.4f}" in shown
    assert shown.endswith("3 sequences in 2 tangles; 2.0 items seen on average")


def test_explanation_marks_the_halting_item_and_stops_soon_after() -> None:
    explanation = made.explanation(30, 12)
    lines = text.explanation_text(explanation).splitlines()
    as_given = {name: getattr(explanation, name) for name in ("decision", "classes", "threshold", "steps")}
    assert str(text.Explained(**as_given)).splitlines() == lines
    assert lines[0] == "<b>bold</b> & co in link: web (70.0 %) after 12 of 30 items, halted, but its true label is mail"
    marked = [line for line in lines if line.startswith("▶")]
    assert len(marked) == 1 and marked[0].split()[1] == "12"
    assert lines[-2].split()[0] == "15" and lines[-1] == "(15 later items are left out)"
    assert all(line.isprintable() for line in lines)


def test_explanation_of_one_item_and_of_a_long_wait() -> None:
    assert "▶     1  value 0" in text.explanation_text(made.explanation(1, 1, n_others=0))
    lines = text.explanation_text(made.explanation(100, 90), most=10).splitlines()
    assert lines[2] == "(the first 83 items are left out)"
    assert len(lines) == 3 + 2 + 10 + 1


@pytest.mark.parametrize(("own", "others"), [(0, 0), (1, 2), (3, 3)])
def test_explanation_shows_the_heaviest_looks(own: int, others: int) -> None:
    one = made.explanation(5, 5)
    last = text.explanation_text(one, own=own, others=others).splitlines()[-1]
    assert last.count("%)") == own + others
    heaviest = max((look for look in one.steps[-1].looks if look.is_own), key=lambda look: look.weight)
    assert (f" {heaviest.position + 1} ({100 * heaviest.weight:.0f} %)" in last) == (own > 0)


def test_relations_are_named_where_they_are_told_apart() -> None:
    one = made.explanation(3, 3, n_others=1)
    looks = tuple(replace(look, relation="" if look.is_own else "same session value") for look in one.steps[-1].looks)
    named = replace(one, steps=(*one.steps[:-1], replace(one.steps[-1], looks=looks)))
    lines, plain = (text.explanation_text(each).splitlines() for each in (named, one))
    assert lines[-1].endswith(" %, same session value)") and "session" not in plain[-1]


def test_clock() -> None:
    assert [text.clock(s) for s in (0, 59.4, 60, 3599.6)] == ["0:00", "0:59", "1:00", "1:00:00"]
