"""Parquet files read by tangle: any tangles, wherever they lie, as the whole table has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvec.read import shards
from kvec.read.rows import read_table
from kvec.read.shards import joined_spans, open_shards
from kvec.words.errors import DataError
from kvec.words.schema import Schema

SCHEMA = Schema.from_dict({"tangle": "tangle", "labels": "label", "values": {"size": {"kind": "categorical"}}})


def table(n: int, seed: int, is_scattered: bool) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    tangle = rng.integers(0, 12, n)
    tangle = tangle if is_scattered else np.sort(tangle)
    return pl.DataFrame({"tangle": tangle, "key": tangle % 3, "size": rng.integers(0, 9, n), "label": tangle % 3 % 2})


@settings(max_examples=25)
@given(st.integers(1, 80), st.integers(0, 5), st.booleans(), st.sets(st.integers(0, 11), min_size=1), st.integers(1, 3))
def test_some_tangles_are_read_as_all_are(
    tmp_path_factory: pytest.TempPathFactory, n: int, seed: int, is_scattered: bool, wanted: set[int], files: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    frame = table(n, seed, is_scattered)
    for number, part in enumerate(np.array_split(np.arange(n), files)):
        frame[part].write_parquet(folder / f"{number}.parquet", row_group_size=7)
    opened = open_shards(folder, SCHEMA)
    assert opened.places["rows"].sum() == n
    there = sorted(wanted & set(frame["tangle"].to_list()))
    if there:
        found = opened.read(pl.DataFrame({"tangle": [str(name) for name in there]}))
        whole = read_table(folder, SCHEMA).frame.filter(pl.col("tangle").is_in(there))
        assert found.drop("file", strict=False).equals(whole.drop("file", strict=False))
        if files > 1:
            assert found["file"].cast(pl.String).to_list() == whole["file"].cast(pl.String).to_list()


def test_rows_between_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "NEAR", 10)
    monkeypatch.setattr(shards, "CHUNK", 64)
    frame = table(2000, 0, is_scattered=False)
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=50)
    opened = open_shards(tmp_path / "a.parquet", SCHEMA)
    read: list[int] = []
    chunks = shards._File.chunks

    def counted(self: shards._File, *given: object) -> object:
        for chunk in chunks(self, *given):  # type: ignore[arg-type]
            read.append(chunk.height)
            yield chunk

    monkeypatch.setattr(shards._File, "chunks", counted)
    found = opened.read(pl.DataFrame({"tangle": ["0", "11"]}))
    assert found.height == sum(read) < 500 and max(read) <= 64


def test_near_spans_are_one() -> None:
    first, last = np.array([0, 10, 20, 10**6]), np.array([400, 15, 30, 10**6 + 1])
    assert joined_spans(first, last) == [(0, 401), (10**6, 10**6 + 2)]


def test_rows_are_named_as_in_their_file(tmp_path: Path) -> None:
    frame = pl.DataFrame({"tangle": [1, 1, 2, 2], "key": [1, 1, 5, None], "size": [3, 3, 3, 3], "label": list("aabb")})
    frame[:2].write_parquet(tmp_path / "a.parquet")
    frame[2:].write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet, row 2, column 'key': is empty"):
        open_shards(tmp_path, SCHEMA).read(pl.DataFrame({"tangle": ["2"]}))


def test_kinds_of_fields_that_are_guessed_can_be_said(tmp_path: Path) -> None:
    table(30, 0, is_scattered=False).write_parquet(tmp_path / "items.parquet")
    assert open_shards(tmp_path / "items.parquet", kinds={"size": "binned"}).schema.values[0].kind == "binned"
    assert open_shards(tmp_path / "items.parquet").schema.values[0].kind == "categorical"


def test_files_without_rows_are_refused(tmp_path: Path) -> None:
    table(5, 0, is_scattered=False).head(0).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="there are no rows in it"):
        open_shards(tmp_path, SCHEMA)
