import pytest

from kvec.read.rows import iterate, read_table, require_labels
from kvec.words.errors import DataError
from kvec.words.items import Item
from kvec.words.schema import Schema

ITEMS = {"key": ["a", "b", "a"], "size": [1, None, 3], "label": ["x", "y", "x"]}


def test_labels_are_required_by_name_and_place():
    require_labels(read_table(ITEMS))
    more = {name: [*cells, cells[0]] for name, cells in ITEMS.items()} | {"key": ["a", "b", "a", "c"]}
    require_labels(read_table(more | {"label": ["x", "y", "x", None]}))
    returning = Schema.from_dict({"key": "key", "time": "time", "values": ["size"], "label": "label", "expiry": 9.0})
    with pytest.raises(DataError) as caught:
        require_labels(read_table(more | {"label": ["x", "y", "x", None], "time": [1, 2, 3, 4]}, returning))
    assert str(caught.value).startswith("columns, row 4, column 'label': key c has no label (1 of 3 keys have none)")
    with pytest.raises(DataError, match="column 'label': every key has the label 'x'; training needs at least two"):
        require_labels(read_table(ITEMS | {"label": ["x", None, "x"]}))
    with pytest.raises(DataError, match="column 'label': no key has a label; training needs at least two"):
        require_labels(
            read_table(
                ITEMS | {"label": [None, None, None]},
                Schema.from_dict({"key": "key", "label": "label", "values": ["size"]}),
            )
        )
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
