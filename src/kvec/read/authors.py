"""The .npy files that the paper's authors publish: one row per tangle of two flows (Traffic-FG and its sisters).

A row of 4n + 4 numbers holds n signed packet sizes, n keys, n session numbers, n positions, two labels and two flags,
filled up with zeros: 1028 numbers for 256 packets, 804 for 200.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.words.errors import DataError
from kvec.words.schema import Field, Schema

AUTHORS_SCHEMA = Schema(
    tangle="tangle",
    order="order",
    values=(Field("size", kind="categorical"), Field("direction", kind="categorical")),
    session=("direction",),
    labels=("label",),
)
_BLOCK = 4096  # rows that are unfolded at once


def read_authors(path: str | Path) -> tuple[pl.DataFrame, Schema]:
    """Read such a file, or all in a folder, as items: tangle, key, order, size, direction (0 below zero), label, flag.

    The keys 0 and 1 of a row number its labels; keys of other names are numbered as they appear. `label` is the first
    pair of the last four numbers, `flag` the other, which the authors' own training script takes for the labels. The
    schema names `label`, or `flag` where only that one changes.
    """
    blocks: list[pl.DataFrame] = []
    done = 0
    for file in npy_files(path):
        rows = open_rows(file)
        blocks += [_unfold(rows[i : i + _BLOCK], i, done, file) for i in range(0, len(rows), _BLOCK)]
        done += len(rows)
    frame = pl.concat(blocks)
    is_flag = frame["label"].n_unique() == 1 < frame["flag"].n_unique()
    return frame, AUTHORS_SCHEMA.changed(labels=("flag" if is_flag else "label",))


def npy_files(path: str | Path) -> list[Path]:
    """The file, or the .npy files of the folder."""
    path = Path(path)
    files = sorted(path.glob("*.npy")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path}: there is no .npy file in this folder")
    return files


def open_rows(path: str | Path) -> npt.NDArray[Any]:
    """The rows of such a file, left on the disk until they are used."""
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: not a plain .npy array: {str(error).splitlines()[0]}") from None
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "iuf":
        raise DataError(f"{path}: not one .npy array of numbers")
    if rows.ndim < 2 or rows.shape[0] == 0 or rows[0].size < 8 or rows[0].size % 4:
        raise DataError(
            f"{path}: an array of shape {rows.shape}; expected one row per tangle of 4n + 4 numbers, such as 1028"
        )
    return rows.reshape(len(rows), -1)


def _unfold(rows: npt.NDArray[Any], first: int, before: int, path: Path) -> pl.DataFrame:
    """The items of some rows, the first of which has the given number in its file, which has others before it."""
    whole = np.asarray(rows)
    if whole.dtype.kind == "f":
        wrong = ~np.isfinite(whole) | (whole != np.floor(whole))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise DataError(f"{path}: {whole[row, column]} in row {first + row + 1}, column {column + 1} is not whole")
    whole = whole.astype(np.int64)
    n = whole.shape[1] // 4 - 1
    size, key = whole[:, :n], whole[:, n : 2 * n]
    is_filled = (whole[:, : 4 * n].reshape(-1, 4, n) != 0).any(axis=1)
    lengths = np.where(is_filled.any(axis=1), n - is_filled[:, ::-1].argmax(axis=1), 0)
    is_item = np.arange(n) < lengths[:, None]
    if not lengths.all():
        raise DataError(f"{path}: row {first + int(lengths.argmin()) + 1} holds no packet")

    is_numbered = ((key == 0) | (key == 1) | ~is_item).all(axis=1)
    flow = np.where(is_numbered[:, None], key, key != key[:, :1])  # 0 or 1: which of the two labels
    second = key[np.arange(len(key)), (is_item & (flow == 1)).argmax(axis=1)]
    stray = (is_item & (flow == 1) & (key != second[:, None])).any(axis=1)
    if stray.any():
        raise DataError(f"{path}: row {first + int(stray.argmax()) + 1} holds more than two keys; expected two flows")
    tangle, order = np.nonzero(is_item)
    flow, size = flow[is_item], size[is_item]
    label, flag = whole[:, -4:-2][tangle, flow], whole[:, -2:][tangle, flow]
    tangle = tangle + first + before
    return pl.DataFrame(
        {
            "tangle": tangle,
            "key": 2 * tangle + flow,
            "order": order,
            "size": np.abs(size),
            "direction": (size >= 0).astype(np.int64),
            "label": label,
            "flag": flag,
        }
    )
