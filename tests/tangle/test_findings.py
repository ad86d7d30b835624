"""What looks wrong in fields and labels."""

from __future__ import annotations

import pytest

from kvec.read.rows import read_table
from kvec.tangle.inspection import inspect_items, misleading
from kvec.words.schema import Schema


def test_a_field_that_gives_the_label_away_and_one_that_never_repeats_are_found() -> None:
    n = 60
    key = [i % 6 for i in range(n)]
    items = {
        "key": key, "size": [i * 7 % 5 for i in range(n)], "code": [k % 2 + 10 for k in key], "id": list(range(n)),
        "label": ["web" if k % 2 else "mail" for k in key],
    }  # fmt: skip
    table = read_table(items)
    kinds = {finding.kind: finding.text for finding in inspect_items(table.frame, table.schema).findings}
    assert "'code' never changes within a key and tells the label 'label'" in kinds["field that gives the label away"]
    assert "'id' differs in every row" in kinds["field that never repeats"]
    assert not any("'size'" in text for text in kinds.values())


def test_text_that_hardly_repeats_reads_as_dates_or_may_be_the_label() -> None:
    n = 40
    rows = {
        "key": [i // 4 for i in range(n)], "note": ["same", "same", *(f"note {i}" for i in range(2, n))],
        "when": [f"2024-03-{1 + i // 4:02} 12:00:{i % 4:02}" for i in range(n)], "size": [i % 3 for i in range(n)],
        "sort": ["ab"[i // 4 % 2] for i in range(n)],
    }  # fmt: skip
    table = read_table(rows, Schema.from_dict({"key": "key"}))
    kinds = {finding.kind: finding.text for finding in inspect_items(table.frame, table.schema).findings}
    assert kinds["field that hardly repeats"] == (
        "field 'note' has 39 values in 40 rows, too many to learn any of them; leave it out"
    )
    assert kinds["dates as text"].startswith("field 'when' reads as dates, such as '2024-03-01 12:00:00'; ")
    assert kinds["dates as text"].endswith("name it as the time: --time when")
    assert kinds["no label"].endswith("'sort' never changes within a key: is it --label sort?")
    named = read_table(rows, Schema.from_dict({"key": "key", "time": "when", "label": "sort", "values": ["size"]}))
    assert {finding.kind for finding in inspect_items(named.frame, named.schema).findings} == {"one tangle"}


@pytest.mark.parametrize(
    ("cell", "is_date"),
    [("2024-03-01", True), ("1.3.2024", True), ("03/01/24 12:00", True), ("10.0.0.1", False), ("1.2.3", False)],
)
def test_what_reads_as_a_date(cell: str, is_date: bool) -> None:
    table = read_table({"key": [1] * 6, "what": [cell] * 3 + [f"{cell} "] * 3}, Schema.from_dict({"key": "key"}))
    findings = inspect_items(table.frame, table.schema).findings
    assert any(finding.kind == "dates as text" for finding in findings) == is_date


@pytest.mark.parametrize(
    ("cells", "is_told"),
    [(["20,5", "3", "-,25", "4,0"], True), (["20.5", "3", "4"], False), (["a,1", "b,2", "20,5"], False)],
)
def test_numbers_with_decimal_commas_are_told(cells: list[str], is_told: bool) -> None:
    table = read_table({"key": [1] * len(cells), "price": cells}, Schema.from_dict({"key": "key"}))
    found = {finding.kind: finding.text for finding in inspect_items(table.frame, table.schema).findings}
    assert ("decimal commas" in found) == is_told
    if is_told:
        assert found["decimal commas"] == (
            "field 'price' holds numbers with decimal commas, such as '20,5', which count as text; write them with "
            "points, as in 20.5"
        )
        assert "field that never repeats" not in found, "another way out would be wrong"


def test_what_misleads_a_training_is_what_inspect_finds_of_fields_and_classes() -> None:
    keys = [key for key in range(10) for _ in range(3)]
    app = [key % 2 + (key == 9) for key in keys]  # the third of them has key 9 alone
    rows = {"key": keys, "size": range(30), "same": [7] * 30, "app": ["abc"[a] for a in app], "code": app}
    table = read_table(rows, Schema.from_dict({"key": "key", "label": "app"}))
    found = misleading(table.frame, table.schema)
    assert [finding.kind for finding in found] == [
        "field with one value", "field that never repeats", "field that gives the label away", "rare classes",
    ]  # fmt: skip
    assert {finding.text for finding in found} < {
        finding.text for finding in inspect_items(table.frame, table.schema).findings
    }
