"""The authors' .npy rows, on small made files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from kvec.read.authors import read_authors
from kvec.words.errors import DataError


def row(sizes: list[int], keys: list[int], labels: tuple[int, int], flags: tuple[int, int] = (0, 1), n: int = 8) -> Any:
    """One row as the authors write it."""
    filled = np.zeros((4, n), dtype=np.int64)
    filled[0, : len(sizes)] = sizes
    filled[1, : len(keys)] = keys
    seen: dict[int, int] = {}
    for i, key in enumerate(keys):
        filled[2, i] = i + 1
        filled[3, i] = seen[key] = seen.get(key, -1) + 1
    return np.concatenate([filled.ravel(), labels, flags])


def saved(path: Path, *rows: Any, dtype: Any = np.int64) -> Path:
    np.save(path / "rows.npy", np.stack(rows).astype(dtype))
    return path / "rows.npy"


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_rows_become_items(tmp_path: Path, dtype: Any) -> None:
    path = saved(
        tmp_path,
        row([82, -70, 64], [0, 1, 0], (58, 13)),
        row([-60, 60], [1, 0], (7, 9)),
        dtype=dtype,
    )
    frame, schema = read_authors(path)
    assert frame.columns == ["tangle", "key", "order", "size", "direction", "label", "flag"]
    assert frame.rows() == [
        (0, 0, 0, 82, 1, 58, 0),
        (0, 1, 1, 70, 0, 13, 1),
        (0, 0, 2, 64, 1, 58, 0),
        (1, 3, 0, 60, 0, 9, 1),
        (1, 2, 1, 60, 1, 7, 0),
    ]
    assert set(frame.dtypes) == {pl.Int64}
    assert schema.session == ("direction",) and schema.tangle == "tangle" and schema.labels == ("label",)


def test_keys_of_other_names_are_numbered_as_they_appear(tmp_path: Path) -> None:
    frame, _ = read_authors(saved(tmp_path, row([5, 6, 7], [42, 17, 42], (1, 2)), row([5, 6], [9, 9], (3, 4))))
    assert frame["key"].to_list() == [0, 1, 0, 2, 2]
    assert frame["label"].to_list() == [1, 2, 1, 3, 3]


def test_empty_packets_inside_a_row_are_items(tmp_path: Path) -> None:
    frame, _ = read_authors(saved(tmp_path, row([0, 0, 9, 0], [0, 1, 1, 0], (1, 2))))
    assert frame["size"].to_list() == [0, 0, 9, 0]
    assert frame["direction"].to_list() == [1, 1, 1, 1]


def test_the_labels_are_the_pair_that_changes(tmp_path: Path) -> None:
    path = saved(tmp_path, row([5, 6], [0, 1], (0, 0), (3, 4)), row([5, 6], [0, 1], (0, 0), (5, 6)))
    frame, schema = read_authors(path)
    assert schema.labels == ("flag",)
    assert frame.select("label", "flag").rows() == [(0, 3), (0, 4), (0, 5), (0, 6)]
    for first, last in (((1, 2), (3, 4)), ((7, 7), (7, 7))):
        assert read_authors(saved(tmp_path, row([5, 6], [0, 1], first, last)))[1].labels == ("label",)


def test_all_files_of_a_folder_are_read(tmp_path: Path) -> None:
    for name, n, labels in (("b", 4, (5, 6)), ("a", 8, (1, 2)), ("c", 8, (3, 4))):
        np.save(tmp_path / f"{name}.npy", np.stack([row([40, 41, 42], [0, 1, 0], labels, n=n)] * 2))
    (tmp_path / "notes.txt").write_text("no rows")
    frame, _ = read_authors(tmp_path)
    assert frame["tangle"].unique().to_list() == list(range(6)), "numbered on from file to file"
    assert frame.unique(["tangle", "key"]).sort("key")["label"].to_list() == [1, 2, 1, 2, 5, 6, 5, 6, 3, 4, 3, 4]
    np.save(tmp_path / "d.npy", np.zeros((2, 36)))
    with pytest.raises(DataError, match=r"d\.npy: row 1 holds no packet"):
        read_authors(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: there is no \.npy file in this folder"):
        read_authors(tmp_path / "empty")


def test_many_rows_are_unfolded_in_blocks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, expected = [], []
    for tangle in range(5000):
        n = int(rng.integers(2, 9))
        sizes = rng.integers(40, 1500, n) * rng.choice([-1, 1], n)
        keys = rng.permutation(np.arange(n) % 2)
        labels = rng.integers(0, 12, 2)
        rows.append(row(sizes.tolist(), keys.tolist(), tuple(labels)))
        expected += [
            (tangle, 2 * tangle + key, i, abs(size), int(size > 0), labels[key], key)
            for i, (size, key) in enumerate(zip(sizes, keys, strict=True))
        ]
    frame, _ = read_authors(saved(tmp_path, *rows))
    assert frame.rows() == [tuple(map(int, item)) for item in expected]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 10)), r"shape \(3, 10\); expected one row per tangle"),
        (np.zeros(36), "expected one row per tangle"),
        (np.zeros((0, 36)), "expected one row per tangle"),
        (np.zeros((2, 36)), "row 1 holds no packet"),
        (np.array([["a"] * 36]), "not one .npy array of numbers"),
        (np.array([[None] * 36]), "not a plain .npy array"),
        (np.full((1, 36), 0.5), "0.5 in row 1, column 1 is not whole"),
        (np.full((1, 36), np.nan), "nan in row 1"),
        (row([1, 2, 3], [5, 6, 7], (1, 2))[None], "row 1 holds more than two keys"),
    ],
)
def test_other_arrays_are_refused(tmp_path: Path, array: Any, message: str) -> None:
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(DataError, match=message) as refusal:
        read_authors(tmp_path / "rows.npy")
    assert "\n" not in str(refusal.value)


def test_files_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    with pytest.raises(DataError, match="no such file"):
        read_authors(path)
    for content in (b"", b"hello", b"\x93NUMPY\x01\x00"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"not a plain \.npy array"):
            read_authors(path)
    np.savez(tmp_path / "rows.npz", np.zeros((2, 36)))
    with pytest.raises(DataError, match=r"not one \.npy array"):
        read_authors(tmp_path / "rows.npz")
