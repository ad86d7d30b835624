from __future__ import annotations

import polars as pl

from kvec.doors.writing import SHOWN, decision_rows, decision_text

FRAME = pl.DataFrame({
    "id": ["t/7/0", "t/8/1"], "tangle": ["t", "t"], "key": [7, 8], "sequence": [0, 1], "label": ["a", "b"],
    "probability": [0.25, 1.0], "true_label": ["a", None], "n_observed": [1, 2], "length": [3, 4],
    "reason": ["halted", "closed"], "is_known": [True, False],
    "true_label.more": pl.Series([None, None], dtype=pl.String),
})  # fmt: skip


def test_rows_have_their_order_and_only_known_truths() -> None:
    rows = decision_rows(FRAME.select(reversed(FRAME.columns)))
    assert rows.columns == [
        "id", "tangle", "key", "sequence", "label", "probability", "n_observed", "length", "reason", "is_known",
        "true_label",
    ]  # fmt: skip


def test_text_shows_the_first_rows_and_counts_the_rest() -> None:
    rows = decision_rows(FRAME)
    assert decision_text(rows).splitlines()[2].split() == [
        "t", "7", "0", "a", "0.250", "1", "3", "halted", "a",
    ]  # fmt: skip
    many = pl.concat([rows] * SHOWN)
    assert decision_text(many).splitlines()[-1].startswith(f"… and {SHOWN} more")
    assert "sequence" not in decision_text(rows[:1]), "a number that is always 0 tells nothing"
    assert decision_text(rows).splitlines()[3].split()[3] == "(unknown)", "in place of the label"
