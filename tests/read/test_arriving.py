"""One row at a time gives the items that whole columns give."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvec.read.arriving import MOST_CUT, RowReader, form_of
from kvec.read.arriving_files import LineFile, ParquetFile
from kvec.read.arriving_forms import CsvLines, JsonLines
from kvec.read.arriving_sources import Source
from kvec.read.rows import iterate, read_table
from kvec.tangle.coder import cell_text
from kvec.words.errors import DataError
from kvec.words.items import Item
from kvec.words.schema import Field, Schema

SCHEMA = Schema.from_dict({
    "key": ["src", "dst"], "tangle": "link, day", "time": "at", "end": "fin", "empty_key": "nobody",
    "values": {
        "n": {"kind": "categorical"}, "x": {"kind": "projected"}, "s": {"kind": "categorical"},
        "way": {"column": "x", "transform": "sign", "kind": "categorical"},
        "far": {"column": "n", "transform": "magnitude", "kind": "categorical"},
        "genre": {"column": "s", "transform": "first", "kind": "categorical"},
        "yes": {"kind": "categorical"}, "share": {"kind": "categorical"},
    },
})  # fmt: skip
TYPES = {
    "src": pl.String, "dst": pl.Int64, "link": pl.String, "day": pl.Int64, "at": pl.Float64, "fin": pl.Boolean,
    "n": pl.Int64, "x": pl.Float64, "s": pl.String, "yes": pl.Boolean, "share": pl.Float64,
}  # fmt: skip
WORDS = st.sampled_from(["NA", "null", "a", "b,c", "ü", "p|q", 'say "hi"', "two\nlines", " x "])
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), WORDS), st.integers(-5, 2**62), WORDS, st.integers(0, 3),
        st.floats(-1e9, 1e9, allow_nan=False), st.one_of(st.none(), st.booleans()),
        st.one_of(st.none(), st.integers(-5, 5)), st.one_of(st.none(), st.floats(-1e6, 1e6, allow_nan=False)),
        st.one_of(st.none(), WORDS),
        st.one_of(st.none(), st.booleans()), st.one_of(st.none(), st.sampled_from([0.5, 2.0, 0.25, 1e6])),
    ),
    min_size=1, max_size=20,
)  # fmt: skip


def items_of(source: Source, reader: RowReader, most: int = 3) -> list[Item]:
    source.start({})
    found = []
    while (arrived := source.read(most, 0)) is not None:
        for one in arrived:
            cells = source.cells(one)
            item = None if cells is None else reader.item(cells)
            found += [] if item is None else [item]
    source.close()
    return found


def source_of(path: Path, schema: Schema, forms: dict[str, str]) -> tuple[Source, RowReader]:
    reader = RowReader(schema, forms if path.suffix == ".csv" else None)
    if path.suffix == ".parquet":
        return ParquetFile(path, [name for name, _ in reader.columns], reader.names), reader
    csv = CsvLines([name for name, _ in reader.columns], "", lambda columns: None)
    return LineFile(path, csv if path.suffix == ".csv" else JsonLines()), reader


def comparable(items: list[Item], schema: Schema) -> list[tuple[Any, ...]]:
    """Numbers as numbers, categories as the text that tells them apart."""
    kinds = {field.name: field.kind for field in schema.values}

    def cell(name: str, value: Any) -> Any:
        return cell_text(value) if kinds[name] == "categorical" else value

    return [
        (i.tangle, i.key, i.time, i.is_end, {name: cell(name, value) for name, value in i.value.items()}) for i in items
    ]


@settings(deadline=None, max_examples=60)
@given(ROWS)
def test_rows_give_the_items_of_the_table(rows: list[tuple[Any, ...]]) -> None:
    frame = pl.DataFrame(rows, schema=TYPES, orient="row")
    expected = comparable(list(iterate(read_table(frame, SCHEMA))), SCHEMA)
    forms = {"n": "number", "s": "text", "yes": "boolean", "share": "number"}
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("csv", "ndjson", "parquet"):
            path = Path(folder) / f"rows.{ending}"
            getattr(frame, f"write_{ending}")(path)
            assert comparable(items_of(*source_of(path, SCHEMA, forms)), SCHEMA) == expected, ending


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01", "2024-5-1", "2024/05/01 12:30:00.25", "2024-05-01T12:30Z", "2014-10-22T13:15:41+02:00",
        "2014-10-22 06:15:41.25-0500", "17.5", " 1e3 ", "2024-05-01 12:30:00.1234567", "1969-12-31 23:59:59.5",
        "2024-05-01T12:30:60", "2024-02-29",
    ],
)  # fmt: skip
def test_times_are_those_of_a_column(text: str) -> None:
    schema = Schema.from_dict({"time": "at", "values": ["size"]})
    table = read_table({"key": [1], "size": [1], "at": [text]}, schema)
    for forms in (None, {"size": "number"}):
        item = RowReader(table.schema, forms).item({"key": "1", "at": text, "size": "1"})
        assert item is not None and item.time == table.frame["time"][0]


@pytest.mark.parametrize(
    "kind", [pl.Datetime("ns"), pl.Datetime("ms", "Asia/Tokyo"), pl.Date, pl.Duration("us"), pl.Time]
)
def test_times_and_names_of_a_parquet_file(kind: Any, tmp_path: Path) -> None:
    if kind == pl.Time:
        cells = pl.Series([dt.time(0, 1, 2, 345), dt.time(5)])
    elif kind == pl.Date:
        cells = pl.Series([dt.date(2020, 1, 2), dt.date(1960, 1, 2)])
    elif isinstance(kind, pl.Duration):
        cells = pl.Series([1, -2_500_001]).cast(kind)
    else:
        cells = pl.Series([1_700_000_000_123_456_789 // (1_000_000 if kind.time_unit == "ms" else 1), -1]).cast(kind)
    frame = pl.DataFrame(
        {"key": ["a", "b"], "at": cells, "day": [0, 1] if kind == pl.Duration else cells, "size": cells}
    )
    schema = Schema.from_dict({"tangle": "day", "time": "at", "values": {"size": {"kind": "binned"}}})
    frame.write_parquet(tmp_path / "rows.parquet")
    expected = list(iterate(read_table(frame, schema)))
    assert items_of(*source_of(tmp_path / "rows.parquet", schema, {})) == expected


@pytest.mark.parametrize(
    ("cell", "as_json", "as_csv"),
    [
        (7, 7, None), (7.0, 7, None), (0.5, "0.5", None), (True, "true", None), ("7", "7", 7), ("007", "007", "007"),
        ("+7", "+7", "+7"), ("-0", "-0", "-0"), ("1.50", "1.50", "1.50"), (2**63, str(2**63), None),
        (str(2**63), str(2**63), str(2**63)), ("9" * 5000, "9" * 5000, "9" * 5000),
    ],
)  # fmt: skip
def test_keys_of_all_types(cell: Any, as_json: Any, as_csv: Any) -> None:
    schema = Schema.from_dict({"values": {"size": {"kind": "binned"}}})
    item = RowReader(schema).item({"key": cell, "size": 1})
    assert item is not None and item.key == as_json and type(item.key) is type(as_json)
    if isinstance(cell, str) and as_csv is not None:
        item = RowReader(schema, {}).item({"key": cell, "size": "1"})
        assert item is not None and item.key == as_csv and type(item.key) is type(as_csv)


STRICT = Schema.from_dict({
    "time": "at", "end": "fin", "values": {"size": {"kind": "binned"}, "app": {"kind": "categorical"}},
})  # fmt: skip
GOOD = {"key": "a", "at": 1.0, "fin": None, "size": 40, "app": "web"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"key": None}, "column 'key': is empty or not there; every item needs a name here"),
        ({"key": float("nan")}, "column 'key': is empty or not there"),
        ({"key": ""}, "column 'key': is empty or not there; every item needs a name here"),
        ({"key": ["a"]}, "column 'key': holds a list, not a single value"),
        ({"at": None}, "column 'at': is empty or not there; every item needs a time; write seconds"),
        ({"at": "soon"}, "column 'at': 'soon' is no time"),
        ({"at": "2024-13-01"}, "column 'at': '2024-13-01' is no time"),
        ({"at": "2024-05-01 12:30:99"}, "is no time"),
        ({"at": float("inf")}, "column 'at': inf is no time"),
        ({"at": True}, "column 'at': True is no time"),
        ({"at": 10**400}, "is no time"),
        ({"fin": "maybe"}, "column 'fin': 'maybe' is no end mark"),
        ({"fin": 2}, "column 'fin': 2 is no end mark"),
        ({"size": "abc"}, "column 'size': 'abc' is no number"),
        ({"size": ""}, "column 'size': '' is no number"),
        ({"size": "1_000"}, "column 'size': '1_000' is no number"),
        ({"size": {"a": 1}}, "column 'size': holds an object, not a single value"),
        ({"app": ["x"]}, "column 'app': holds a list, not a single value"),
        ({"size": "x" * 1000}, "is no number$"),
    ],
)
def test_cells_that_do_not_fit_are_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        RowReader(STRICT).item(GOOD | changed)
    assert len(str(refused.value)) < 200


def test_a_field_that_is_not_there_is_missing() -> None:
    item = RowReader(STRICT).item({"key": "a", "at": 3})
    assert item == Item(0, "a", {"size": None, "app": None}, 3.0)


@pytest.mark.parametrize("cell", [float("nan"), float("inf"), 10**400, "nan", "-inf"])
def test_numbers_that_are_not_finite_are_missing(cell: Any) -> None:
    item = RowReader(STRICT).item(GOOD | {"size": cell})
    assert item is not None and item.value["size"] is None


def test_text_cells_are_typed_by_what_is_known_of_their_field() -> None:
    schema = Schema.from_dict({"values": {name: {"kind": "categorical"} for name in ("n", "t", "b")}})
    reader = RowReader(schema, {"n": form_of((1, 2)), "t": form_of(("007",)), "b": form_of(("true",))})

    def values(cell: str) -> list[str | None]:
        item = reader.item({"key": "1", "n": cell, "t": cell, "b": cell})
        assert item is not None
        return [cell_text(value) for value in item.value.values()]

    assert values("1.50") == ["1.5", "1.50", "1.50"]
    assert values("40.0") == ["40", "40.0", "40.0"]
    assert values("007") == ["007", "007", "007"]
    assert values("TRUE") == ["TRUE", "TRUE", "true"]
    assert values("inf") == [None, "inf", "inf"]


OUTCOME = Schema.from_dict({
    "values": {"act": {"kind": "categorical"}},
    "outcome": {"column": "act", "label_from": ["sold", "lost"], "cut_before": ["sold", "lost", "talk"]},
})  # fmt: skip


def test_what_comes_after_an_outcome_is_left_out(tmp_path: Path) -> None:
    keys, acts = [1, 2, 1, 2, 1, 1, 3], ["call", "call", "talk", "visit", "sold", "call", "lost"]
    frame = pl.DataFrame({"key": keys, "act": acts})
    frame.write_ndjson(tmp_path / "rows.ndjson")
    expected = list(iterate(read_table(frame, OUTCOME)))
    assert [item.value["act"] for item in expected] == ["call", "call", "visit"]
    assert items_of(*source_of(tmp_path / "rows.ndjson", OUTCOME, {})) == expected


def test_a_column_of_names_is_of_the_kind_of_its_first() -> None:
    schema = Schema.from_dict({"tangle": "t", "empty_key": "none", "values": {"size": {"kind": "binned"}}})

    def names(reader: RowReader, *rows: tuple[Any, Any]) -> list[tuple[Any, Any]]:
        items = [reader.item({"t": tangle, "key": key, "size": 1}) for tangle, key in rows]
        return [(item.tangle, item.key) for item in items if item is not None]

    first = RowReader(schema)
    assert names(first, ("a", None), (1, 12), ("1", "12"), ("b", "x"), (2, "007")) == [
        ("a", "none"), ("1", 12), ("1", 12), ("b", "x"), ("2", "007"),
    ]  # fmt: skip
    second = RowReader(schema)
    second.restore(json.loads(json.dumps(first.to_plain())))
    assert names(second, (3, "13")) == [("3", 13)], "it is remembered"


def test_outcomes_are_remembered_up_to_a_limit() -> None:
    reader = RowReader(OUTCOME)
    reader.cut.update(((0, key), None) for key in range(MOST_CUT))
    assert reader.item({"key": -1, "act": "sold"}) is None
    assert len(reader.cut) == MOST_CUT
    assert reader.item({"key": 0, "act": "call"}) is not None, "the oldest was forgotten"
    assert reader.item({"key": -1, "act": "call"}) is None
    again = RowReader(OUTCOME)
    again.restore(reader.to_plain())
    assert again.item({"key": -1, "act": "call"}) is None


def test_rows_that_are_whole_sequences_in_a_table_are_single_items_in_a_stream() -> None:
    schema = Schema.from_dict({
        "unfold": ["size"], "unfold_gap": "gap", "values": {"size": {"kind": "categorical"}},
    })  # fmt: skip
    row = json.loads('{"key": "a", "size": 40, "time": 7.5}')
    assert RowReader(schema).item(row) == Item(0, "a", {"size": 40}, 7.5)
    with pytest.raises(DataError, match="holds a list"):
        RowReader(schema).item(row | {"size": [40, 52]})


def test_fields_that_no_row_has_had_are_known() -> None:
    reader = RowReader(Schema(key=("k",), values=(Field("size", kind="binned"), Field("way", kind="categorical"))))
    reader.item({"k": 1, "way": None})
    assert reader.unseen == {"size"}
    other = RowReader(Schema(key=("k",), values=(Field("size", kind="binned"), Field("way", kind="categorical"))))
    other.restore(reader.to_plain())
    assert other.unseen == {"size"}
    other.item({"k": 1, "size": 7})
    assert other.unseen == set()
