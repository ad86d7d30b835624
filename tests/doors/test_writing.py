from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kvec.doors.writing import SHOWN, decision_rows, decision_text, require_apart, require_place
from kvec.words.errors import SettingError

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


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    items, folder, model = tmp_path / "items.csv", tmp_path / "days", tmp_path / "model"
    for made in (folder, model):
        made.mkdir()
    for file in (items, folder / "day.csv", model / "kvec.json", model / "items.csv"):
        file.touch()
    (tmp_path / "link.csv").symlink_to(items)
    (tmp_path / "hard.csv").hardlink_to(items)
    for place in ("items.csv", "link.csv", "hard.csv", "days/../items.csv"):
        with pytest.raises(SettingError, match=f"{place} is what is read, and would be overwritten"):
            require_place(tmp_path / place, inputs=(None, "by-file", str(items)))
    with pytest.raises(SettingError, match=r"day\.csv is there already, in the folder that is read"):
        require_place(folder / "day.csv", inputs=(folder,))
    with pytest.raises(SettingError, match="model is a model, and nothing else is kept in it"):
        require_place(model / "vocabulary.ndjson")
    with pytest.raises(SettingError, match=r"model would be replaced, and .*items\.csv, which is read, lies in it"):
        require_apart(model, (model / "items.csv",))


def test_what_is_not_read_may_be_written_over(tmp_path: Path) -> None:
    for file in ("items.csv", "decisions.csv", "day.pcap", "labels.csv"):
        (tmp_path / file).touch()
    require_place(tmp_path / "decisions.csv", inputs=(tmp_path / "items.csv", tmp_path / "none.csv", "by-file"))
    require_place(tmp_path / "report.html", inputs=(tmp_path,))
    require_place(tmp_path / "labels.csv", inputs=(tmp_path,))  # of its captures alone
    require_place(Path("/dev/null"), inputs=("/dev/null",))
