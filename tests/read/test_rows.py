import polars as pl
import pytest

from kvec.read.rows import find_schema, read_table
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Schema


def test_canonical_columns_and_types():
    rows = {
        "flow": ["a", "b"], "link": [1, 1], "site": ["s", "s"], "ts": [5, 6], "n": [1, 2], "fin": [False, True],
        "size": [-40, 52], "gap": [0.5, 1.5], "app": ["web", "mail"], "os": [1, 2], "ignored": [None, None],
    }  # fmt: skip
    schema = Schema.from_dict({
        "key": "flow", "tangle": "link", "group": "site", "time": "ts", "order": "n", "end": "fin",
        "values": {"size": {"transform": "magnitude"}, "gap": {}}, "labels": ["app", "os"], "session": "size",
    })  # fmt: skip
    table = read_table(rows, schema)
    assert table.frame.schema == pl.Schema({
        "tangle": pl.Int64(), "key": pl.String(), "group": pl.String(), "time": pl.Float64(), "order": pl.Int64(),
        "end": pl.Boolean(), "value.size": pl.Int64(), "value.gap": pl.Float64(), "label.app": pl.String(),
        "label.os": pl.String(), "row": pl.UInt32(),
    })  # fmt: skip
    assert table.frame.row(0) == (1, "a", "s", 5.0, 1, False, 40, 0.5, "web", "1", 1)
    assert [f.kind for f in table.schema.values] == ["categorical", "binned"]
    assert table.schema.session == ("size",)


def test_a_resolved_schema_reads_the_same_again():
    rows = {"key": [1, 2], "time": [1, 2], "v": [0.5, 1.0], "label": ["x", "y"]}
    first = read_table(rows)
    again = read_table(rows, first.schema)
    assert again.schema == first.schema and again.guessed == {}
    assert again.frame.equals(first.frame)


def test_columns_are_guessed_by_name_when_no_values_are_named():
    rows = {"key": [1], "tangle": [2], "group": [3], "time": [4], "order": [5], "end": [0], "v": [7], "label": ["x"]}
    table = read_table(rows)
    assert table.frame.columns == ["tangle", "key", "group", "time", "order", "end", "value.v", "label.label", "row"]
    assert table.guessed["schema.time"] == "a column of that name"
    bare = read_table(rows, Schema.from_dict({"key": "key", "values": ["v"]}))
    assert bare.frame.columns == ["tangle", "key", "value.v", "row"]  # a schema with values is taken at its word


def test_a_column_named_label_is_never_a_value_by_guess():
    schema = Schema.from_dict({"key": "key", "label": "other"})
    assert read_table({"key": [1], "v": [1], "label": [1], "other": [2]}, schema).schema.value_names == ("v",)
    with pytest.raises(SettingError, match="'v' is both a value and the label"):
        read_table({"key": [1], "v": [1]}, Schema.from_dict({"key": "key", "values": ["v"], "label": "v"}))


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            {"key": "flwo", "values": ["size"]},
            "no column 'flwo' (schema.key); did you mean 'flow'? columns: flow, size",
        ),
        ({"key": "flow", "values": ["sise"]}, "no column 'sise' (schema.values); did you mean 'size'?"),
        ({"key": "flow", "values": ["size"], "time": "ts"}, "no column 'ts' (schema.time); columns: flow, size"),
        ({"key": "flow", "values": ["size"], "label": "app"}, "no column 'app' (schema.labels)"),
        ({"key": "flow", "values": ["size"], "unfold": "sizes"}, "no column 'sizes' (schema.unfold)"),
        ({"key": "flow", "values": ["size"], "tangle": "a, b"}, "no column 'a' (schema.tangle)"),
        ({"key": "flow", "outcome": {"column": "act", "label_from": ["x"]}}, "no column 'act' (schema.outcome)"),
        ({"key": "flow", "session": "dir"}, "schema.session names 'dir', which is no value field; fields: size"),
    ],
)
def test_columns_that_are_not_there_are_named(entries, expected):
    with pytest.raises((DataError, SettingError)) as caught:
        read_table({"flow": [1], "size": [2]}, Schema.from_dict(entries))
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_long_lists_of_columns_are_shortened():
    with pytest.raises(DataError, match=r"c19 and 5 more$"):
        read_table({f"c{i}": [1] for i in range(25)})


def test_times_out_of_order_are_counted_per_tangle():
    rows = {"key": [1] * 5, "tangle": [1, 2, 1, 2, 1], "time": [5.0, 1.0, 4.0, 2.0, 4.5], "v": [1] * 5}
    (note,) = read_table(rows).notes
    assert (note.kind, note.count) == ("out of order", 1)
    assert note.text.startswith("columns, row 3, column 'time': 1 item(s) lie before the item above them")
    assert read_table(rows | {"tangle": [1, 2, 3, 2, 3]}).notes == ()
    del rows["tangle"]
    assert [n.count for n in read_table(rows).notes] == [2]


def test_schema_is_found_beside_the_data(tmp_path):
    (tmp_path / "flows.v1.csv").write_text("flow,size\n1,2\n")
    assert find_schema(tmp_path / "flows.v1.csv") is None
    assert find_schema({"key": [1]}) is None
    (tmp_path / "kvec.toml").write_text('key = "size"\n')
    assert find_schema(str(tmp_path)).key == ("size",)
    assert find_schema(tmp_path / "flows.v1.csv").key == ("size",)
    (tmp_path / "flows.v1.toml").write_text('key = "flow"\n')
    assert find_schema(tmp_path / "flows.v1.csv").key == ("flow",)
    assert find_schema(tmp_path / "flows.v1.csv.gz").key == ("flow",)
    assert read_table(tmp_path / "flows.v1.csv").frame["key"].to_list() == [1]
    (tmp_path / "flows.v1.toml").write_text('kee = "flow"\n')
    with pytest.raises(SettingError, match=r"unknown entry 'kee' in .*flows\.v1\.toml"):
        read_table(tmp_path / "flows.v1.csv")


@pytest.mark.parametrize("entry", ["expiry", "session_gap"])
def test_what_is_counted_in_time_needs_a_time(entry):
    schema = Schema.from_dict({"values": ["v"], entry: 2.5})
    with pytest.raises(SettingError, match=rf"schema.{entry} is 2.5, but no time column is named"):
        read_table({"key": [1, 1], "v": [1, 2]}, schema)
    assert read_table({"key": [1, 1], "v": [1, 2], "t": [0, 1]}, schema.changed(time="t")).frame["time"].len() == 2
