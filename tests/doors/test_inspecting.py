from __future__ import annotations

import pytest

from kvec.doors.inspecting import datasets_text, inspect_table, inspection_text
from kvec.read.catalogue import datasets
from kvec.read.rows import read_table


def text_of(times: list[float], labels: list[str]) -> str:
    items = {"key": range(len(times)), "time": times, "size": range(len(times)), "label": labels}
    table = read_table({name: list(cells) for name, cells in items.items()})
    return inspection_text(inspect_table(table), table, "a file")


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (0.25, "0.25 s\n"),
        (90.0, "90 s (1:30)"),
        (4000.0, "4,000 s (1:06:40)"),
        (41913691.0, "41,913,691 s (485.1 days)"),
    ],
)
def test_time_spans(last: float, shown: str) -> None:
    assert shown in text_of([0.0, last, last], ["a", "b", "b"])


def test_balance_is_cut_after_many_classes() -> None:
    text = text_of([0.0] * 40, [f"c{i:02}" for i in range(30)] + ["c00"] * 10)
    assert "… and 6 more" in text
    assert "c00           11  27.5 %  ████████████████████████" in text
    assert "(schema from a file)" in text
    assert "time: a column of that name" in text, "what was guessed is told"


def test_every_data_set_says_where_it_is_had() -> None:
    text = datasets_text(datasets())
    assert text.count("  from     https://") == len(datasets())


def test_how_each_set_is_read_is_said() -> None:
    paragraphs = datasets_text(datasets()).split("\n\n")
    for name, words in {
        "USTC-TFC2016": "kvec train USTC-TFC2016 --labels by-file", "IoT Sentinel": "--labels by-folder",
        "MovieLens-1M": "the folder itself", "Traffic-FG": "the .npy file itself",
    }.items():  # fmt: skip
        assert words in next(text for text in paragraphs if text.startswith(name))
