import numpy as np
import polars as pl
import pytest

from kvec.read.rows import read_table
from kvec.words.errors import DataError
from kvec.words.schema import Schema

GAPS = Schema.from_dict({"key": "flow", "time": "start", "unfold": ["size", "gap"], "unfold_gap": "gap"})
FLOWS = {"flow": [7, 8], "start": [100.0, 50.0], "size": [[1, -2, 3], [4]], "gap": [[0.0, 0.5, 0.25], [0.0]]}


def test_gaps_add_up_to_times():
    table = read_table(FLOWS, GAPS)
    assert table.frame.rows() == [
        (0, 7, 100.0, 1, 1), (0, 7, 100.5, -2, 1), (0, 7, 100.75, 3, 1), (0, 8, 50.0, 4, 2),
    ]  # fmt: skip
    assert table.schema.value_names == ("size",)  # the gaps are the time, and single values of the row no values


def test_without_a_start_time_begins_at_zero():
    schema = Schema.from_dict({"key": "flow", "unfold": ["size", "gap"], "unfold_gap": "gap"})
    rows = {name: cells for name, cells in FLOWS.items() if name != "start"}
    assert read_table(rows, schema).frame["time"].to_list() == [0.0, 0.5, 0.75, 0.0]


def test_gaps_equal_a_plain_loop():
    generator = np.random.default_rng(0)
    gaps = [generator.exponential(size=n).tolist() for n in generator.integers(1, 9, size=50)]
    starts = generator.uniform(0, 1e9, size=50).tolist()
    rows = {"flow": list(range(50)), "start": starts, "size": [[1] * len(g) for g in gaps], "gap": gaps}
    expected = []
    for start, own in zip(starts, gaps, strict=True):
        elapsed = 0.0
        for gap in own:
            elapsed += gap
            expected.append(start + elapsed)
    np.testing.assert_allclose(read_table(rows, GAPS).frame["time"], expected, rtol=1e-15)


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(DataError, match="row 2, column 'gap': has 2 entries, but column 'size' has 1"):
        read_table(FLOWS | {"gap": [[0.0, 0.5, 0.25], [0.0, 1.0]]}, GAPS)
    with pytest.raises(DataError, match="row 2, column 'gap': has 0 entries"):
        read_table(FLOWS | {"gap": [[0.0, 0.5, 0.25], None]}, GAPS)


def test_gaps_must_be_numbers():
    with pytest.raises(DataError, match="row 1, column 'gap': None is no gap"):
        read_table(FLOWS | {"gap": [[0.0, None, 0.25], [0.0]]}, GAPS)
    with pytest.raises(DataError, match="row 2, column 'start': 'nan' is no time"):
        read_table(FLOWS | {"start": [1.0, float("nan")]}, GAPS)


def test_empty_lists_give_no_items_and_are_counted():
    schema = Schema.from_dict({"key": "k", "unfold": "v"})
    table = read_table({"k": [1, 2, 3], "v": [["a"], [], None]}, schema)
    assert table.frame["key"].to_list() == [1]
    assert [(n.kind, n.count) for n in table.notes] == [("empty lists", 2)]
    assert "row 2" in table.notes[0].text
    with pytest.raises(DataError, match="every list is empty"):
        read_table({"k": [1], "v": pl.Series([[]], dtype=pl.List(pl.Int64))}, schema)


def test_lists_as_text(tmp_path):
    (tmp_path / "b.csv").write_text('block,events\nx,0 1  12\ny,\nz,"[3, 4,,5]"\n')
    spaced = Schema.from_dict({"key": "block", "values": {"event": {"column": "events"}}, "unfold": "events"})
    table = read_table(tmp_path / "b.csv", spaced)
    assert table.frame["value.event"].to_list() == ["0", "1", "12", "3,", "4,,5"]
    (tmp_path / "b.csv").write_text('block,events\nx,"[3, 4,,5]"\n')
    table = read_table(tmp_path / "b.csv", spaced.changed(separator=","))
    assert table.frame["value.event"].to_list() == [3, 4, None, 5]


def test_arrays_unfold_and_other_columns_are_refused():
    schema = Schema.from_dict({"key": "k", "unfold": "v"})
    array = pl.DataFrame({"k": [1], "v": [[5, 6]]}, schema={"k": pl.Int64, "v": pl.Array(pl.Int64, 2)})
    assert read_table(array, schema).frame["value.v"].to_list() == [5, 6]
    with pytest.raises(DataError, match="column 'v': holds Int64, not lists"):
        read_table({"k": [1], "v": [5]}, schema)


def test_an_end_mark_of_a_row_is_on_its_last_item():
    schema = Schema.from_dict({"key": "k", "unfold": "v", "end": "fin"})
    found = read_table({"k": [1, 2], "v": [[5, 6], [7, 8]], "fin": [True, False]}, schema).frame
    assert found["end"].to_list() == [False, True, False, False]


def test_items_keep_the_order_of_times_given_as_lists():
    schema = Schema.from_dict({"key": "k", "unfold": ["v", "t"], "time": "t", "values": ["v"]})
    found = read_table({"k": [1], "v": [["a", "b"]], "t": [[2.0, 3.5]]}, schema).frame
    assert found["time"].to_list() == [2.0, 3.5]
