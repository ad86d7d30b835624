import gzip
import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kvec.read.files import ENDINGS, ending, open_table
from kvec.read.rows import read_table
from kvec.words.errors import DataError
from kvec.words.schema import Schema

FRAME = pl.DataFrame({"key": ["a", "b", "a"], "size": [40, 52, 41], "label": ["web", "mail", "web"]})
SCHEMA = Schema.from_dict({"key": "key", "values": ["size"], "label": "label"})


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(source, schema=None, **given):
    with pytest.raises(DataError) as caught:
        read_table(source, schema, **given)
    message = str(caught.value)
    assert "\n" not in message
    return message


def save(path):
    kind = ending(path)
    if kind == ".parquet":
        FRAME.write_parquet(path)
    elif "csv" in kind or "tsv" in kind:
        text = FRAME.write_csv(separator="\t" if "tsv" in kind else ",").encode()
        path.write_bytes(gzip.compress(text) if kind.endswith(".gz") else text)
    else:
        text = FRAME.write_ndjson().encode()
        path.write_bytes(gzip.compress(text) if kind.endswith(".gz") else text)
    return path


@pytest.mark.parametrize("kind", ENDINGS)
def test_every_kind_of_file_reads_the_same(kind, tmp_path):
    table = read_table(save(tmp_path / f"flows{kind}"))
    assert table.frame.rows() == read_table(FRAME).frame.rows()
    assert table.source == str(tmp_path / f"flows{kind}")


@pytest.mark.parametrize(
    "convert",
    [
        lambda f: f,
        pl.DataFrame.lazy,
        lambda f: pd.DataFrame(f.to_dict(as_series=False)),
        pl.DataFrame.to_arrow,
        lambda f: f.to_arrow().to_batches()[0],
        lambda f: f.to_dict(as_series=False),
        lambda f: {name: f[name].to_numpy() for name in f.columns},
    ],
    ids=["polars", "lazy", "pandas", "arrow", "batch", "dict", "numpy"],
)
def test_every_table_in_memory_reads_the_same(convert):
    assert read_table(convert(FRAME)).frame.equals(read_table(FRAME).frame)


def test_pandas_without_pyarrow_and_with_mixed_cells(monkeypatch):
    mixed = pd.DataFrame({"key": [1, "x", None], "size": [1.5, float("nan"), 2.0]})
    found = read_table(mixed, Schema(empty_key="-")).frame
    assert found["key"].to_list() == ["1", "x", "-"]
    assert found["value.size"].to_list() == [1.5, None, 2.0]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    plain = pd.DataFrame({"key": ["a", "b"], "when": pd.to_datetime(["1970-01-02", "1970-01-03"]), "size": [1, 2]})
    schema = Schema.from_dict({"key": "key", "time": "when", "values": ["size"]})
    assert read_table(plain, schema).frame["time"].to_list() == [86_400.0, 172_800.0]


def test_pandas_categories_and_missing_numbers():
    frame = pd.DataFrame(
        {"key": pd.Categorical(["a", "b"]), "size": pd.Categorical([5, 7]), "n": pd.array([1, None], dtype="Int64")}
    )
    assert read_table(frame).frame.rows() == [(0, "a", 5, 1, 1), (0, "b", 7, None, 2)]


def test_folder_is_read_in_name_order_and_rows_know_their_file(tmp_path):
    write(tmp_path, "b.csv", "size,key\n3,z\n,y\n")
    write(tmp_path, "a.csv", "key,size\nx,1\ny,2\n")
    write(tmp_path, "README.txt", "not a table")
    table = read_table(tmp_path)
    assert table.frame["key"].to_list() == ["x", "y", "z", "y"]
    assert table.frame["row"].to_list() == [1, 2, 1, 2]
    assert table.place(3) == f"{tmp_path / 'b.csv'}, row 2"
    write(tmp_path, "c.csv", "key,size\n,1\n")
    assert refused(tmp_path).startswith(f"{tmp_path / 'c.csv'}, row 1, column 'key'")


def test_folder_types_are_settled_together(tmp_path):
    write(tmp_path, "a.csv", "key,size\n1,1\n")
    write(tmp_path, "b.csv", "key,size\nx,2.5\n")
    assert read_table(tmp_path).frame.select("key", "value.size").rows() == [("1", 1.0), ("x", 2.5)]
    pl.DataFrame({"key": [1], "size": [1]}, schema={"key": pl.Int8, "size": pl.Int64}).write_parquet(
        (tmp_path / "p").with_suffix(".parquet")
    )
    for file in ("a.csv", "b.csv"):
        (tmp_path / file).unlink()
    pl.DataFrame({"key": [300], "size": [0.5]}).write_parquet(tmp_path / "q.parquet")
    assert read_table(tmp_path).frame.select("key", "value.size").rows() == [(1, 1.0), (300, 0.5)]


def test_folder_whose_files_disagree_is_refused(tmp_path):
    write(tmp_path, "a.csv", "key,size\n1,1\n")
    write(tmp_path, "b.csv", "key,length\n1,1\n")
    message = refused(tmp_path)
    assert "b.csv: columns disagree" in message and "'length'" in message
    write(tmp_path, "b.ndjson", '{"key":1,"size":2}\n')
    (tmp_path / "b.csv").unlink()
    assert "b.ndjson: is NDJSON, but a.csv is CSV" in refused(tmp_path)
    (tmp_path / "a.csv").unlink()
    write(tmp_path, "c.ndjson", '{"key":1,"size":"x"}\n')
    message = refused(tmp_path)
    assert "c.ndjson, column 'size': holds text, but numbers in" in message


def test_folder_of_several_kinds_is_refused(tmp_path):
    write(tmp_path, "a.csv", "key,size\n1,2\n")
    write(tmp_path, "b.ndjson", '{"key":1,"size":2}\n')
    assert refused(tmp_path) == f"{tmp_path / 'b.ndjson'}: is NDJSON, but a.csv is CSV; keep one kind in a folder"


def test_folder_without_tables_is_refused(tmp_path):
    assert "no table in this folder" in refused(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("e.csv", b"", "the file is empty"),
        ("e.csv.gz", gzip.compress(b"", mtime=0), "the file is empty"),
        ("e.csv", b"\n\n", "the file is empty"),
        ("e.ndjson", b"\n", "the file is empty"),
        ("e.parquet", b"", "the file is empty"),
        ("h.csv", b"key,size,label\n", "there are no rows in it, only a header"),
        ("f.json", b"{}", "it may end in .parquet, .csv, .csv.gz"),
        ("g.parquet", b"\x00garbage" * 40, "is not a whole Parquet file"),
        ("g.parquet", b"PAR1" + b"\x07" * 400 + b"PAR1", "is not a whole Parquet file"),
        ("m.csv", b"key,size,label\na,1,x\nb,2,y,z\n", "line 3 has 4 fields, but the header has 3"),
        ("d.csv", b'key,size,label,"label"\na,1,x,x\n', "the header names column 'label' twice; rename one of them"),
        ("d.csv", b"key,size,key,label\na,1,b,x\n", "the header names column 'key' twice"),
        ("d.csv", b"\xef\xbb\xbfkey;key;size;label\na;b;1;x\n", "the header names column 'key' twice"),
        ("d.tsv.gz", gzip.compress(b"key\tsize\tsize\tlabel\na\t1\t2\tx\n", mtime=0), "column 'size' twice"),
        (
            "c.csv",
            b"key,size,label\na,1,x\n\nb,2\nc,3,z\n",
            "line 4 has 2 fields, but the header has 3; was it cut short?",
        ),
        ("c.csv", b"key,size,label\r\na,1,x\r\nb", "line 3 has 1 field, but the header has 3"),
        ("c.csv", b'key,size,label\na,1,"x\ny"\n"b,b",2\n', "line 4 has 2 fields, but the header has 3"),
        ("c.csv", b'key,size,label\na,1,x\nb,"2,\n,"\n', "line 4 has 2 fields, but the header has 3"),
        ("c.csv", b"key;size;label\na;1;x\nb;2\n", "line 3 has 2 fields, but the header has 3"),
        ("c.tsv.gz", gzip.compress(b"key\tsize\tlabel\na\t1\tx\nb\t2\n", mtime=0), "line 3 has 2 fields"),
        ("q.csv", b'key,size,label\na,1,x\nb,2,"y\nc,3,z\n', "line 3 has a quote"),
        ("u.csv", b"key,size,label\na,1,caf\xe9\n", "line 2 is not UTF-8 text (byte 23 is 0xe9)"),
        ("u.csv", b"key,size,lab\xe9l\na,1,x\n", "line 1 is not UTF-8"),
        ("w.csv", "key,size,label\na,1,x\n".encode("utf-16"), "line 1 is not UTF-8"),
        ("u.ndjson", b'{"key":1,"size":1,"label":"x"}\n{"key":"caf\xe9"}\n', "line 2 is not UTF-8"),
        ("j.ndjson", b'{"key":1,"size":1,"label":"x"}\n\n{"key":1,\n', "line 3 is not JSON"),
        ("j.ndjson", b'{"key":1,"size":NaN,"label":"x"}\n', "line 1 is not JSON: NaN is no JSON number; write null"),
        ("j.ndjson", b'[{"key":1}]\n', "line 1 is no JSON object"),
        ("t.csv.gz", gzip.compress(b"key,size,label\n" * 1000, mtime=0)[:-12], "cannot be read"),
        ("t.ndjson.gz", gzip.compress(b'{"key":1}\n' * 1000, mtime=0)[:-12], "cannot be read"),
    ],
)
def test_broken_files_are_named_with_the_place(name, content, expected, tmp_path):
    path = write(tmp_path, name, content)
    message = refused(path, SCHEMA)
    assert message.startswith(f"{path}: ")
    assert expected in message


def test_too_many_fields_are_seen_although_only_some_columns_are_read(tmp_path):
    path = write(tmp_path, "m.csv", "key,size,other\na,1,x\nb,2,y,z\n")
    assert "line 3 has 4 fields" in refused(path, Schema.from_dict({"key": "key", "values": ["size"]}))


def test_too_few_fields_are_seen_although_only_some_columns_are_read(tmp_path):
    path = write(tmp_path, "c.csv", "key,size,other\na,1,x\nb,2\n")
    assert "line 3 has 2 fields" in refused(path, Schema.from_dict({"key": "key", "values": ["size"]}))


def test_empty_cells_at_the_end_are_no_missing_fields(tmp_path):
    path = write(tmp_path, "e.csv", 'key,size,note\na,1,\n"b,""b",2,""\nc,3,"x\n,y\n"\n  \u2028d,4,\n,,\n\n')
    frame = read_table(path, Schema.from_dict({"values": ["size", "note"]})).frame
    assert frame["key"].to_list() == ["a", 'b,"b', "c", "  \u2028d"]
    assert frame["value.size"].to_list() == [1, 2, 3, 4]


def test_columns_that_only_look_like_a_repeated_one_are_read(tmp_path):
    path = write(tmp_path, "d.csv", "key,size,size_duplicated_0,,\na,1,2,,\n")
    assert (
        read_table(path, Schema.from_dict({"values": ["size_duplicated_0"]})).frame["value.size_duplicated_0"][0] == 2
    )


def test_cut_parquet_is_refused(tmp_path):
    pl.DataFrame({"key": range(1000), "size": range(1000)}).write_parquet(tmp_path / "whole.parquet")
    path = write(tmp_path, "cut.parquet", (tmp_path / "whole.parquet").read_bytes()[:2000])
    assert "was it cut off, or renamed?" in refused(path)


def test_missing_and_strange_sources_are_refused(tmp_path):
    assert refused(tmp_path / "nothing.csv") == f"{tmp_path / 'nothing.csv'}: no such file or folder"
    assert "cannot read a int as a table" in refused(5)
    assert "height of column 'size'" in refused({"key": [1, 2], "size": [1]})
    assert "non-unique" in refused(pd.DataFrame([[1, 2]], columns=["key", "key"]))
    assert "there are no rows" in refused(FRAME.clear())
    assert "no value columns" in refused({})
    assert "holds Object" in refused({"key": [1], "size": [object()]})


def test_cells_of_a_csv_keep_what_they_say(tmp_path):
    path = write(tmp_path, "k.csv", '\ufeffkey,size\r\nNA,1\r\nnull,2\r\n007,3\r\n\r\n"",4\r\n')
    table = read_table(path, Schema(empty_key="(none)"))
    assert table.frame["key"].to_list() == ["NA", "null", "007", "(none)"]
    assert table.frame["row"].to_list() == [1, 2, 3, 5]  # a blank line is no row, yet it is counted


def test_semicolons_are_understood(tmp_path):
    assert read_table(write(tmp_path, "s.csv", "key;size\na;1\n")).frame["value.size"].to_list() == [1]


def test_only_the_columns_asked_for_are_read():
    rows = open_table(FRAME).read(["size"])
    assert rows.frame.columns == ["kvec.row", "size"]


def test_arrow_dictionaries_are_text():
    table = pa.table({"key": pa.array(["a", "b"]).dictionary_encode(), "size": [1, 2]})
    assert read_table(table).frame["key"].to_list() == ["a", "b"]
