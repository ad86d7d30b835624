"""MovieLens-1M in its public form, on a small made folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kvec.read.ratings import read_movielens
from kvec.words.errors import DataError, SettingError

RATINGS = "2::10::5::300\n1::10::4::200\n1::20::3::100\n1::30::5::200\n2::20::1::299\n1::20::2::100\n"
USERS = "1::F::1::10::48067\n2::M::56::16::70072\n"
MOVIES = "10::Star: One (1999)::Horror|Sci-Fi\n20::Caf\xe9 :: Two (1998)::Drama\n30::Three (1997)::Children's|Drama\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("ratings.dat", RATINGS), ("users.dat", USERS), ("movies.dat", MOVIES)):
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    return tmp_path


def test_ratings_are_ordered_by_time_and_ties_by_the_file(folder: Path) -> None:
    frame, schema = read_movielens(folder)
    assert frame.columns == ["user", "movie", "genre", "rating", "order", "gender"]
    assert frame.rows() == [
        (1, 20, "Drama", 3, 0, "F"),
        (1, 20, "Drama", 2, 1, "F"),
        (1, 10, "Horror", 4, 2, "F"),
        (1, 30, "Children's", 5, 3, "F"),
        (2, 20, "Drama", 1, 0, "M"),
        (2, 10, "Horror", 5, 1, "M"),
    ]
    assert schema.key == ("user",) and schema.labels == ("gender",) and schema.order == "order"
    assert schema.value_names == ("movie", "genre", "rating")
    assert {field.kind for field in schema.values} == {"categorical"}
    assert schema.session == ("genre",) and schema.match_names == ("movie",)
    assert schema.tangling is not None
    assert (schema.tangling.number, schema.tangling.of, schema.tangling.clock) == (8, "key", "order")


@pytest.mark.parametrize(("label", "values"), [("age", ["1", "56"]), ("occupation", ["10", "16"])])
def test_other_labels(folder: Path, label: str, values: list[str]) -> None:
    frame, schema = read_movielens(folder, label)
    assert frame.unique("user").sort("user")[label].to_list() == values
    assert schema.labels == (label,)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_ratings_as_a_table_are_ordered_by_position(folder: Path, kind: str) -> None:
    expected, _ = read_movielens(folder)
    table = expected.select("user", "movie", "rating", position="order").sample(fraction=1.0, shuffle=True, seed=1)
    (folder / "ratings.dat").unlink()
    if kind == "parquet":
        table.with_columns(pl.all().cast(pl.UInt16)).write_parquet(folder / "ratings.parquet")
    else:
        table.rename({"position": "time"}).write_csv(folder / "ratings.csv")
    frame, _ = read_movielens(folder)
    assert frame.equals(expected)


def test_windows_line_ends_are_read_alike(folder: Path) -> None:
    expected, _ = read_movielens(folder)
    for name in ("ratings.dat", "users.dat", "movies.dat"):
        path = folder / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_movielens(folder)[0].equals(expected)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ratings.dat", "1::10::5::9\n1,20,3,4\n", r"ratings\.dat: line 2 is not of the form user::movie.*'1,20,3,4'"),
        ("ratings.dat", "1::10::5::\n", r"ratings\.dat: line 1"),
        ("ratings.dat", "1::10::5::9\n\n1::20::3::4\n", r"ratings\.dat: line 2"),
        ("ratings.dat", "", r"ratings\.dat: the file is empty"),
        ("ratings.dat", "3::10::5::9\n", r"user 3 is not in .*users\.dat \(1 ratings\)"),
        ("ratings.dat", "1::99::5::9\n", r"movie 99 is not in .*movies\.dat"),
        ("users.dat", "1::F::1\n", r"users\.dat: line 1"),
        ("users.dat", USERS + "1::M::1::10::48067\n", r"users\.dat: user 1 is listed twice"),
        ("movies.dat", "10::Alien (1999)\n", r"movies\.dat: line 1"),
    ],
)
def test_broken_files_are_named_with_the_line(folder: Path, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(DataError, match=message) as refusal:
        read_movielens(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["ratings.dat", "users.dat", "movies.dat"])
def test_missing_files_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DataError, match=rf"{name}: no such file"):
        read_movielens(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,movie,rating\n1,10,5\n", "user, movie, rating and position"),
        ("user,movie,rating,position\n1,ten,5,0\n", "user, movie, rating and position"),
        ("user,movie,rating,position\n1,10,5,0\n1,10,,1\n", "column rating is empty in row 2"),
        ("user,movie,rating,position\n", "the file is empty"),
        ("", "not a table"),
    ],
)
def test_broken_tables_are_refused(folder: Path, text: str, message: str) -> None:
    (folder / "ratings.dat").unlink()
    (folder / "ratings.csv").write_text(text)
    with pytest.raises(DataError, match=message) as refusal:
        read_movielens(folder)
    assert "\n" not in str(refusal.value)


def test_an_unknown_label_is_refused(folder: Path) -> None:
    with pytest.raises(SettingError, match="gender, age, occupation"):
        read_movielens(folder, "zip")
