"""MovieLens-1M as it is published: who rated which movie, in order, with gender, age or occupation as the label."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Field, Schema, Tangling

LABELS = ("gender", "age", "occupation")
_RATING = r"^(?<user>\d{1,9})::(?<movie>\d{1,9})::(?<rating>\d{1,2})::(?<time>\d{1,18})\r?$"
_USER = r"^(?<user>\d{1,9})::(?<gender>[^:]+)::(?<age>[^:]+)::(?<occupation>[^:]+)::.*$"
_MOVIE = r"^(?<movie>\d{1,9})::.*::(?<genre>[^|:\r]+)[^:]*$"


def read_movielens(folder: str | Path, label: str = "gender") -> tuple[pl.DataFrame, Schema]:
    """Read the ratings of every user in order, with the movie's first listed genre and the user's label.

    The folder holds users.dat, movies.dat, and the ratings as ratings.dat, or as ratings.parquet or ratings.csv with
    the columns user, movie, rating and position (or time). The schema makes tangles of 8 users by order.
    """
    if label not in LABELS:
        raise SettingError(f"label is {label!r}; MovieLens offers {', '.join(LABELS)}")
    folder = Path(folder)
    path, items = _read_ratings(folder)
    items = _look_up(items, path, folder / "users.dat", _USER, "user::gender::age::occupation::zip", "user", label)
    items = _look_up(items, path, folder / "movies.dat", _MOVIE, "movie::title::genre|genre", "movie", "genre")
    items = items.sort("user", "clock", maintain_order=True)
    items = items.with_columns(pl.int_range(pl.len()).over("user").alias("order"))
    schema = Schema(
        key=("user",),
        values=tuple(Field(name, kind="categorical") for name in ("movie", "genre", "rating")),
        labels=(label,),
        order="order",
        session=("genre",),
        match=("movie",),
        tangling=Tangling(number=8, of="key", clock="order"),
    )
    return items.select("user", "movie", "genre", "rating", "order", label), schema


def _read_ratings(folder: Path) -> tuple[Path, pl.DataFrame]:
    """The ratings with a `clock` that orders them within their user."""
    if (path := folder / "ratings.dat").exists():
        ratings = _read_lines(path, _RATING, "user::movie::rating::timestamp")
        return path, ratings.rename({"time": "clock"})
    for path in (folder / "ratings.parquet", folder / "ratings.csv"):
        if path.exists():
            return path, _read_table(path)
    raise DataError(f"{folder / 'ratings.dat'}: no such file; nor is there a ratings.parquet or ratings.csv beside it")


def _read_table(path: Path) -> pl.DataFrame:
    """Ratings from a table with named columns."""
    try:
        ratings = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
        clock = next((name for name in ("position", "time", "timestamp") if name in ratings.columns), "position")
        columns = [pl.col(name).cast(pl.Int64) for name in ("user", "movie", "rating")]
        ratings = ratings.select(*columns, pl.col(clock).cast(pl.Float64).alias("clock"))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{path}: not a table with numbers in user, movie, rating and position: {str(error).splitlines()[0]}"
        ) from None
    _refuse_empty(path, ratings)
    for name in ratings.columns:
        if ratings[name].null_count():
            row = (ratings[name].is_null().arg_max() or 0) + 1
            raise DataError(
                f"{path}: column {clock if name == 'clock' else name} is empty in row {row}; fill or drop it"
            )
    return ratings


def _read_lines(path: Path, pattern: str, form: str) -> pl.DataFrame:
    """The named groups of a pattern that every line must match; whole numbers become integers."""
    try:
        text = path.read_bytes().decode("latin-1")
    except OSError:
        raise DataError(f"{path}: no such file; MovieLens-1M holds ratings.dat, users.dat and movies.dat") from None
    lines = pl.Series("line", text.rstrip("\r\n").split("\n"))
    frame = lines.str.extract_groups(pattern).struct.unnest()
    first = frame.columns[0]
    _refuse_empty(path, frame if text.strip() else frame.head(0))
    if frame[first].null_count():
        at = frame[first].is_null().arg_max() or 0
        raise DataError(f"{path}: line {at + 1} is not of the form {form}: {lines[at][:60]!r}")
    numbers = [name for name in ("user", "movie", "rating", "time") if name in frame.columns]
    return frame.with_columns(pl.col(numbers).cast(pl.Int64))


def _refuse_empty(path: Path, frame: pl.DataFrame) -> None:
    if frame.height == 0:
        raise DataError(f"{path}: the file is empty")


def _look_up(
    items: pl.DataFrame, path: Path, table: Path, pattern: str, form: str, key: str, column: str
) -> pl.DataFrame:
    """Add to each rating what another file says about its user or movie."""
    known = _read_lines(table, pattern, form).select(key, column)
    if known[key].is_duplicated().any():
        raise DataError(f"{table}: {key} {known.filter(pl.col(key).is_duplicated())[key][0]} is listed twice")
    items = items.join(known, on=key, how="left", maintain_order="left")
    unknown = items.filter(pl.col(column).is_null())[key]
    if len(unknown):
        raise DataError(f"{path}: {key} {unknown[0]} is not in {table} ({len(unknown)} ratings); use one download")
    return items
