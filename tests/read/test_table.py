import pytest

from kvec.read.rows import iterate, read_table, require_labels
from kvec.words.errors import DataError
from kvec.words.items import Item
from kvec.words.schema import Schema

ITEMS = {"key": ["a", "b", "a"], "size": [1, None, 3], "label": ["x", "y", "x"]}


def test_labels_are_required_by_name_and_place():
    require_labels(read_table(ITEMS))
    with pytest.raises(DataError) as caught:
        require_labels(read_table(ITEMS | {"label": ["x", None, "x"]}))
    assert str(caught.value).startswith("columns, row 2, column 'label': key b has no label (1 of 2 keys have none)")
    with pytest.raises(DataError, match="column 'label': every key has the label 'x'; training needs at least two"):
        require_labels(read_table(ITEMS | {"label": ["x", "x", "x"]}))
    with pytest.raises(DataError, match="no label column is named"):
        require_labels(read_table({"key": [1], "size": [2]}))


def test_every_label_column_is_required():
    schema = Schema.from_dict({"key": "key", "values": ["size"], "labels": ["label", "other"]})
    with pytest.raises(DataError, match="column 'other': every key has the label '5'"):
        require_labels(read_table(ITEMS | {"other": [5, 5, 5]}, schema))


def test_iterating_gives_the_items_in_order():
    assert list(iterate(read_table(ITEMS))) == [
        Item(0, "a", {"size": 1}), Item(0, "b", {"size": None}), Item(0, "a", {"size": 3}),
    ]  # fmt: skip
    timed = {"tangle": ["u"], "key": [7], "time": [2], "end": [True], "size": [0.5], "kind": ["s"]}
    assert list(iterate(read_table(timed))) == [Item("u", 7, {"size": 0.5, "kind": "s"}, 2.0, True)]
