from __future__ import annotations

import polars as pl

from kvec.doors.writing import SHOWN, decision_rows, decision_text
from kvec.words.items import Decision, Reason

FRAME = pl.DataFrame({
    "tangle": ["t", "t"], "key": [7, 8], "sequence": [0, 1], "label": ["a", "b"], "probability": [0.25, 1.0],
    "true_label": ["a", None], "n_observed": [1, 2], "length": [3, 4], "reason": ["halted", "closed"],
    "true_label.more": pl.Series([None, None], dtype=pl.String),
})  # fmt: skip


def test_rows_have_an_id_and_only_known_truths() -> None:
    rows = decision_rows(FRAME)
    assert rows.columns == [
        "id", "tangle", "key", "sequence", "label", "probability", "n_observed", "length", "reason", "true_label",
    ]  # fmt: skip
    assert rows["id"].to_list() == ["t/7/0", "t/8/1"]


def test_text_shows_the_first_rows_and_counts_the_rest() -> None:
    rows = decision_rows(FRAME)
    assert decision_text(rows).splitlines()[2].split() == ["t", "7", "0", "a", "0.250", "1", "3", "halted", "a"]
    many = pl.concat([rows] * SHOWN)
    assert decision_text(many).splitlines()[-1].startswith(f"… and {SHOWN} more")
    assert "sequence" not in decision_text(rows[:1]), "a number that is always 0 tells nothing"


def test_ids_are_those_of_streams() -> None:
    """Also where a slash in a name could make two sequences look like one."""
    names = [("a", "b/c"), ("a/b", "c"), ("a\\/b", "c"), ("10.0.0.0/24", "k")]
    tangles, keys = (list(part) for part in zip(*names, strict=True))
    frame = pl.DataFrame({**FRAME[:1].to_dict(as_series=False)}).drop("tangle", "key")
    frame = pl.concat([frame] * len(names)).with_columns(tangle=pl.Series(tangles), key=pl.Series(keys))
    found = decision_rows(frame)["id"].to_list()
    decisions = [Decision(tangle, key, 0, ("a",), (1.0,), 1, 1, Reason.HALTED) for tangle, key in names]
    assert found == [decision.id for decision in decisions]
    assert len(set(found)) == len(found)
