import polars as pl
import pytest

from kvec.read.fields import FEW, MANY, REPEATS, guess_kind
from kvec.read.rows import read_table
from kvec.words.errors import DataError
from kvec.words.schema import Schema


def values(cells, **field):
    schema = Schema.from_dict({"key": "key", "values": {"v": {"column": "c", **field}}})
    table = read_table({"key": [1] * len(cells), "c": cells}, schema)
    return table.frame["value.v"], table


def test_guesses():
    few = pl.Series(range(FEW))
    assert guess_kind(few) == ("categorical", f"{FEW} different whole numbers")
    assert guess_kind(pl.Series(range(FEW + 1)))[0] == "binned"
    seldom = pl.Series(list(range(100)) * (REPEATS - 1))
    assert guess_kind(seldom)[0] == "binned"
    assert guess_kind(pl.concat([seldom, pl.Series(range(100))]))[0] == "categorical"
    assert guess_kind(pl.Series(list(range(MANY)) * REPEATS))[0] == "categorical"
    assert guess_kind(pl.Series(list(range(MANY + 1)) * REPEATS))[0] == "binned"
    assert guess_kind(pl.Series([1.0, 2.0, None])) == ("categorical", "2 different whole numbers")
    assert guess_kind(pl.Series(["a"])) == ("categorical", "text")


def test_the_guess_is_settled_and_told():
    cells, table = values([0.5, 1.5])
    assert table.schema.values[0].kind == "binned"
    assert table.guessed == {"v": "numbers with fractions"}
    assert cells.dtype == pl.Float64
    assert values([0.5], kind="projected")[1].guessed == {}


def test_types_by_kind():
    assert values([1, 2])[0].dtype == pl.Int64
    assert values([1.0, 2.0])[0].to_list() == [1, 2]
    assert values([1.5, 2.0], kind="categorical")[0].to_list() == ["1.5", "2"]  # as in a column of whole numbers
    assert values([True, None])[0].to_list() == ["true", None]
    assert values([True, False], kind="binned")[0].to_list() == [1.0, 0.0]
    assert values(["1", "2.5"], kind="projected")[0].to_list() == [1.0, 2.5]
    assert values(pl.Series(["u", "v"], dtype=pl.Enum(["u", "v"])))[0].to_list() == ["u", "v"]
    assert values([None, None])[0].to_list() == [None, None]
    with pytest.raises(DataError, match="row 2, column 'c': 'x' is no number; make the field categorical"):
        values(["1", "x"], kind="binned")
    with pytest.raises(DataError, match=r"column 'c': holds List\(Int64\), not single values"):
        values([[1], [2]])


def test_transforms():
    assert values([-5, 3, 0, None], transform="sign")[0].to_list() == [0, 1, 1, None]
    assert values([-5, 3, None], transform="magnitude")[0].to_list() == [5, 3, None]
    assert values(["-2.5", "1"], transform="magnitude")[0].to_list() == [2.5, 1.0]
    assert values(["Drama|War", "Comedy", None], transform="first")[0].to_list() == ["Drama", "Comedy", None]


def test_not_finite_numbers_are_missing_and_counted():
    nan, inf = float("nan"), float("inf")
    cells, table = values([1.5, nan, -inf, inf, None])
    assert cells.to_list() == [1.5, None, None, None, None]
    (note,) = table.notes
    assert (note.kind, note.count) == ("not finite", 3)
    assert note.text.startswith("columns, row 2, column 'c': 3 value(s) are NaN or infinite")
    assert values([-1.0, nan], transform="sign")[0].to_list() == [0, None]


def test_numbers_in_csv_text(tmp_path):
    (tmp_path / "n.csv").write_text("key,a,b,c,d\n1, 5,NaN,True,01\n2,6.5,inf,False,2\n3,,1e3,True,3\n")
    table = read_table(tmp_path / "n.csv")
    assert table.frame["value.a"].to_list() == [5.0, 6.5, None]
    assert table.frame["value.b"].to_list() == [None, None, 1000]
    assert table.frame["value.c"].to_list() == ["true", "false", "true"]
    assert table.frame["value.d"].to_list() == ["01", "2", "3"]
    assert [note.count for note in table.notes] == [2]


def test_the_text_that_makes_numbers_categories_is_named():
    cells = [str(i % 7) for i in range(100)]
    assert values(cells)[1].notes == ()
    cells[41] = "abc"
    (note,) = values(cells)[1].notes
    assert (note.kind, note.count) == ("text among numbers", 1)
    assert note.text == (
        "columns, row 42, column 'c': 'abc' among 99 numbers makes the field categorical; mend it, or, if it is meant, "
        "say --kind v=categorical"
    )
    assert values(cells, kind="categorical")[1].notes == (), "it is meant"
    cells[50] = "n/a"
    assert "'abc' and 1 more among 98 numbers" in values(cells)[1].notes[0].text
    assert values([*"abc", *map(str, range(20))])[1].notes == (), "these are names"


def test_one_bad_cell_of_a_csv_file_is_found(tmp_path):
    (tmp_path / "a.csv").write_text("key,size\n" + "".join(f"1,{i}\n" for i in range(20)) + "1,\n1,4O\n")
    (note,) = read_table(tmp_path / "a.csv").notes
    assert note.text.startswith(f"{tmp_path / 'a.csv'}, row 22, column 'size': '4O' among 20 numbers")
