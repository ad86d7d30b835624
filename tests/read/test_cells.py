import datetime as dt

import polars as pl
import pytest

from kvec.read.rows import read_table
from kvec.words.errors import DataError
from kvec.words.schema import Schema

TIMED = Schema.from_dict({"key": "key", "time": "when", "values": ["size"]})


def times(cells):
    return read_table({"key": [1] * len(cells), "size": [1] * len(cells), "when": cells}, TIMED).frame["time"].to_list()


def test_times_from_text_in_many_forms():
    at = 1_413_976_541.0  # 2014-10-22 11:15:41 UTC
    assert times(["2014-10-22 11:15:41", "2014-10-22T11:15:41.5Z", "2014/10/22 11:15", "2014-10-22"]) == [
        at, at + 0.5, at - 41, at - 41 - 15 * 60 - 11 * 3600,
    ]  # fmt: skip
    assert times(["2014-10-22T13:15:41+02:00", "2014-10-22 06:15:41.25-0500", "17.5"]) == [at, at + 0.25, 17.5]


def test_times_from_dates_and_numbers():
    day = dt.datetime(1970, 1, 2)
    assert times([day, day + dt.timedelta(milliseconds=1)]) == pytest.approx([86_400.0, 86_400.001], rel=1e-15)
    assert times([day.date()]) == [86_400.0]
    assert times([dt.timedelta(seconds=3)]) == [3.0]
    assert times([dt.time(0, 1)]) == [60.0]
    assert times([7, 8]) == [7.0, 8.0]
    zoned = pl.Series([day]).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    assert times(zoned) == [86_400.0]


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (["2014-10-22", "soon"], "'soon' is no time"),
        (["2014-10-22", "2014-13-22"], "'2014-13-22' is no time"),
        ([1.0, float("nan")], "'nan' is no time"),
        ([1.0, float("inf")], "'inf' is no time"),
        ([1, None], "is empty"),
    ],
)
def test_times_that_are_none_are_refused_with_their_row(cells, shown):
    with pytest.raises(DataError, match=f"^columns, row 2, column 'when': {shown}; write seconds"):
        times(cells)


def test_keys_of_all_types():
    def keys(cells, **given):
        return read_table({"key": cells, "size": [1] * len(cells)}, Schema(**given)).frame["key"].to_list()

    assert keys([3, 4]) == [3, 4]
    assert keys([3.0, 4.0]) == [3, 4]
    assert keys([0.5, 4.0]) == ["0.5", "4.0"]
    assert keys([True, False]) == ["true", "false"]
    assert keys(["7", "x"]) == ["7", "x"]
    assert keys([dt.date(2020, 1, 2)]) == ["2020-01-02"]
    assert keys(pl.Series([1, 2**64 - 1], dtype=pl.UInt64)) == ["1", "18446744073709551615"]
    assert keys([3, None], empty_key="?") == ["3", "?"]
    assert keys(["a", ""], empty_key="?") == ["a", "?"], "as in a CSV file"
    with pytest.raises(DataError, match="row 2, column 'key': is empty"):
        keys(["a", "", None])
    with pytest.raises(DataError, match="row 2, column 'key': is empty"):
        keys([3.0, float("nan")])


def test_several_key_columns_are_joined():
    schema = Schema.from_dict({"key": ["host", "port"], "tangle": "site, day", "values": ["size"]})
    rows = {"host": ["a", "b"], "port": [80, 81], "site": ["x", "x"], "day": [1, 2], "size": [1, 2]}
    found = read_table(rows, schema).frame
    assert found["key"].to_list() == ["a|80", "b|81"]
    assert found["tangle"].to_list() == ["x|1", "x|2"]
    for empty in ([None, 2], ["", "2"]):
        with pytest.raises(DataError, match="row 1, column 'day': is empty"):
            read_table(rows | {"day": empty}, schema)


def test_whole_numbers_in_csv_keys_are_numbers_unless_padded(tmp_path):
    def keys(*cells):
        (tmp_path / "k.csv").write_text("\n".join(["key,size", *(f"{cell},1" for cell in cells)]))
        return read_table(tmp_path / "k.csv").frame["key"].to_list()

    assert keys("7", "-12", "0") == [7, -12, 0]
    assert keys("7", "08") == ["7", "08"]
    assert keys("7", "+8") == ["7", "+8"]
    assert keys("7", "8.0") == ["7", "8.0"]
    assert keys("99999999999999999999", "1") == ["99999999999999999999", "1"]


def test_order_and_end_marks():
    schema = Schema.from_dict({"key": "key", "order": "n", "end": "fin", "values": ["size"]})
    rows = {"key": [1, 1, 1], "size": [1, 1, 1], "n": [2, 1, 3], "fin": ["no", None, "TRUE"]}
    found = read_table(rows, schema).frame
    assert found["order"].to_list() == [2, 1, 3] and found["order"].dtype == pl.Int64
    assert found["end"].to_list() == [False, False, True]
    assert read_table(rows | {"fin": [0, 1, None]}, schema).frame["end"].to_list() == [False, True, False]
    assert read_table(rows | {"fin": [True, None, False]}, schema).frame["end"].to_list() == [True, False, False]
    assert read_table(rows | {"n": ["1", "2.5", "3"]}, schema).frame["order"].to_list() == [1.0, 2.5, 3.0]
    with pytest.raises(DataError, match="row 1, column 'fin': 'perhaps' is no end mark"):
        read_table(rows | {"fin": ["perhaps", "1", "0"]}, schema)
    with pytest.raises(DataError, match="row 2, column 'fin': 2 is no end mark"):
        read_table(rows | {"fin": [0, 2, 1]}, schema)
    with pytest.raises(DataError, match="row 3, column 'n': None is no order"):
        read_table(rows | {"n": [1, 2, None]}, schema)
    with pytest.raises(DataError, match="row 3, column 'n': 'x' is no number"):
        read_table(rows | {"n": ["1", "2", "x"]}, schema)


def test_labels_are_plain_text(tmp_path):
    def labels(cells):
        rows = {"key": list(range(len(cells))), "size": [1] * len(cells), "label": cells}
        return read_table(rows).frame["label.label"].to_list()

    assert labels([58, 3]) == ["58", "3"]
    assert labels([58.0, None, float("nan")]) == ["58", None, None]
    assert labels([0.5, 1.0]) == ["0.5", "1.0"]
    assert labels([True, False]) == ["true", "false"]
    assert labels(["x", ""]) == ["x", None]
    assert labels(pl.Series(["u", "v"], dtype=pl.Categorical)) == ["u", "v"]
    (tmp_path / "l.csv").write_text("key,size,label\n1,1,58.0\n2,1,\n3,1,7\n")
    assert read_table(tmp_path / "l.csv").frame["label.label"].to_list() == ["58", None, "7"]
    (tmp_path / "l.csv").write_text("key,size,label\n1,1,1.0\n2,1,1.1\n")
    assert read_table(tmp_path / "l.csv").frame["label.label"].to_list() == ["1.0", "1.1"]


def test_joined_names_stay_apart():
    schema = Schema.from_dict({"key": ["a", "b"], "values": ["v"]})
    keys = read_table({"a": ["x|y", "x"], "b": ["z", "y|z"], "v": [1, 2]}, schema).frame["key"]
    assert keys.n_unique() == 2


ODD = {
    "duration": ([dt.timedelta(seconds=1)] * 2, "cannot be read as text; turn it into text or numbers first"),
    "list": ([[1], [2]], "not single values; leave the column out, or name it in schema.unfold"),
    "struct": ([{"a": 1}] * 2, "not single values; leave the column out, or turn it into text or numbers first"),
    "bytes": ([b"a"] * 2, "not single values; leave the column out, or turn it into text or numbers first"),
    "object": (pl.Series([object()] * 2, dtype=pl.Object), "leave the column out, or turn it into text or numbers"),
}


@pytest.mark.parametrize("role", ["key", "tangle", "group", "label", "end", "time", "size"])
@pytest.mark.parametrize("kind", ODD)
def test_columns_of_odd_types_are_refused_with_a_way_out(kind, role):
    cells, way_out = ODD[kind]
    frame = pl.DataFrame({"key": [1, 2], "size": [1, 2], "label": ["a", "b"]})
    frame = frame.with_columns(pl.Series(role, cells))
    named = {role: role} if role not in ("key", "size", "label") else {}
    schema = Schema.from_dict({"key": "key", "values": ["size"], "labels": ["label"], **named})
    if kind == "duration" and role in ("time", "size"):
        read_table(frame, schema)  # seconds
        return
    with pytest.raises(DataError) as refused:
        read_table(frame, schema)
    assert f"column {role!r}: " in str(refused.value)
    assert way_out in str(refused.value) or (kind, role) == ("duration", "end")
