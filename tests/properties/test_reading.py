"""The same rows are the same table, however they are stored."""

import tempfile
from pathlib import Path

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from kvec.read.rows import iterate, read_table
from kvec.words.schema import Schema

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["NA", "null", "a", "b,c", "ü"]),
        st.one_of(st.none(), st.integers(-5, 5)),
        st.one_of(st.none(), st.floats(-1e6, 1e6, allow_nan=False).filter(lambda x: x != int(x))),
        st.one_of(st.none(), st.sampled_from(["true", "x y", "1;2"])),
        st.floats(0, 1e9, allow_nan=False),
    ),
    min_size=1,
    max_size=20,
)
SCHEMA = Schema.from_dict({
    "key": "key", "time": "time",
    "values": {"n": {"kind": "categorical"}, "x": {"kind": "projected"}, "s": {"kind": "categorical"}},
})  # fmt: skip
TYPES = {"key": pl.String, "n": pl.Int64, "x": pl.Float64, "s": pl.String, "time": pl.Float64}


@settings(deadline=None, max_examples=40)
@given(ROWS)
def test_every_way_of_storing_gives_the_same_items(rows):
    frame = pl.DataFrame(rows, schema=TYPES, orient="row")
    expected = list(iterate(read_table(frame, SCHEMA)))
    assert [item.key for item in expected] == [row[0] for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("csv", "ndjson", "parquet"):
            path = Path(folder) / f"rows.{ending}"
            getattr(frame, f"write_{ending}")(path)
            assert list(iterate(read_table(path, SCHEMA))) == expected


@settings(deadline=None, max_examples=40)
@given(ROWS, st.integers(1, 19))
def test_a_folder_is_its_files_one_after_the_other(rows, cut):
    frame = pl.DataFrame(rows, schema=TYPES, orient="row")
    with tempfile.TemporaryDirectory() as folder:
        frame[:cut].write_csv(Path(folder) / "a.csv")
        if frame[cut:].height:
            frame[cut:].write_csv(Path(folder) / "b.csv")
        assert list(iterate(read_table(folder, SCHEMA))) == list(iterate(read_table(frame, SCHEMA)))
