"""The results of experiments as their CSV files tell them: cells that are done, and what each of them yielded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from kvec.words.errors import DataError

WORD, NUMBER, COUNT = pl.String, pl.Float64, pl.Int64
CELLS: dict[str, type[pl.DataType]] = {
    "cell": WORD, "profile": WORD, "dataset": WORD, "training": WORD, "setting": WORD, "value": WORD, "seed": COUNT,
    "settings": WORD, "commit": WORD, "version": WORD, "started": WORD, "train_seconds": NUMBER, "seconds": NUMBER,
    "epochs": NUMBER, "n_train": NUMBER, "n_validation": NUMBER, "n_test": NUMBER, "n_new": NUMBER, "theta": NUMBER,
    "validation_hm": NUMBER, "validation_accuracy": NUMBER, "validation_earliness": NUMBER, "first_accuracy": NUMBER,
    "end_accuracy": NUMBER, "first_earliness": NUMBER, "hm_by_epoch": WORD, "earliness_by_epoch": WORD,
    "time": WORD, "digest": WORD, "word_hm_by_epoch": WORD, "word_earliness": NUMBER,
}  # fmt: skip
ADDED = (
    "time",
    "digest",
    "word_hm_by_epoch",
    "word_earliness",
    "validated",
)  # columns that folders of before have not: empty there
POINTS: dict[str, type[pl.DataType]] = {
    "cell": WORD, "method": WORD, "curve": WORD, "setting": WORD, "earliness": NUMBER, "accuracy": NUMBER,
    "precision": NUMBER, "recall": NUMBER, "f1": NUMBER, "hm": NUMBER, "new_earliness": NUMBER, "new_accuracy": NUMBER,
    "new_hm": NUMBER, "validated": NUMBER,
}  # fmt: skip
ATTENTION: dict[str, type[pl.DataType]] = {
    "cell": WORD, "earliness": NUMBER, "inside": NUMBER, "outside": NUMBER, "items": NUMBER, "accuracy": NUMBER,
}  # fmt: skip
HALTS: dict[str, type[pl.DataType]] = {
    "cell": WORD, "method": WORD, "true": NUMBER, "n_observed": NUMBER, "count": NUMBER,
}  # fmt: skip
PREFIXES: dict[str, type[pl.DataType]] = {
    "cell": WORD, "n_observed": NUMBER, "accuracy": NUMBER, "auc": NUMBER,  # no n_observed: at the end
}  # fmt: skip
PAIRED: dict[str, type[pl.DataType]] = {
    "dataset": WORD, "method": WORD, "other": WORD, "measure": WORD, "value": NUMBER,
    "other_value": NUMBER, "difference": NUMBER, "low": NUMBER, "high": NUMBER, "seeds": NUMBER, "units": NUMBER,
}  # fmt: skip
DATA: dict[str, type[pl.DataType]] = {
    "dataset": WORD, "keys": NUMBER, "tangles": NUMBER, "items": NUMBER, "mean_length": NUMBER, "mean_session": NUMBER,
    "classes": NUMBER, "keys_per_tangle": NUMBER,
}  # fmt: skip
NEEDED = {  # beyond words, which may be empty: what a row cannot be understood without
    "cells.csv": ("dataset", "training", "seed"),
    "points.csv": ("method", "curve", "earliness", "accuracy"),
    "attention.csv": ("earliness", "inside", "outside"),
    "halts.csv": ("method", "true", "n_observed", "count"),
    "prefixes.csv": ("accuracy",),
    "paired.csv": ("dataset", "method", "measure"),
    "data.csv": (),
}
SENSITIVITY = "alpha"  # swept for its own figure only; what else is swept makes the curve of its method


@dataclass(frozen=True)
class Results:
    """What a folder of results holds; rows of points, attention, halts and prefixes also tell of their cell.

    Controls, trainings that were given more time, are cells apart: nothing else tells of them.
    """

    cells: pl.DataFrame
    points: pl.DataFrame
    attention: pl.DataFrame
    halts: pl.DataFrame
    prefixes: pl.DataFrame
    paired: pl.DataFrame
    data: pl.DataFrame
    controls: pl.DataFrame

    def datasets(self) -> list[str]:
        """Data sets with cells, in order of appearance; those of re-tangled keys (`name@K`) left out."""
        names = self.cells["dataset"].unique(maintain_order=True).to_list()
        return [name for name in names if "@" not in name]

    def methods(self, dataset: str) -> set[str]:
        """Methods that have points on a data set."""
        return set(self.points.filter(pl.col("dataset") == dataset)["method"].to_list())


def read_results(folder: Path) -> Results:
    """Read a folder of results; what an experiment has not yet written is empty."""
    if not (folder / "cells.csv").is_file() and not (folder / "data.csv").is_file():
        raise DataError(
            f"{folder}: holds no results (cells.csv or data.csv); run `kvec reproduce` with this folder first"
        )
    cells = _table(folder / "cells.csv", CELLS).unique("cell", keep="last", maintain_order=True)
    if cells.height and not (folder / "points.csv").is_file():
        raise DataError(f"{folder / 'points.csv'}: is missing though cells.csv names {cells.height} cells; restore it")
    cells = cells.with_columns(swept=_last_part(pl.col("setting")))
    is_control = ~pl.col("time").is_in(["", "1"])
    cells, controls = cells.filter(~is_control), cells.filter(is_control)
    known = cells.select("cell", "dataset", "training", "seed", "value", "swept")
    data = _table(folder / "data.csv", DATA).unique("dataset", keep="last", maintain_order=True)
    return Results(
        cells,
        _of_cells(folder / "points.csv", POINTS, known),
        _of_cells(folder / "attention.csv", ATTENTION, known),
        _of_cells(folder / "halts.csv", HALTS, known),
        _of_cells(folder / "prefixes.csv", PREFIXES, known),
        _table(folder / "paired.csv", PAIRED),
        data,
        controls,
    )


def main_cells(cells: pl.DataFrame) -> pl.DataFrame:
    """Cells that make the curves of methods: values that every seed of a training has, and every rival swept alike.

    So the many values of a sensitivity study give no training more tries than its rivals. Give all cells, not some.
    """
    own = cells.filter(pl.col("swept") != SENSITIVITY)
    place = ["dataset", "training"]
    n_seeds = pl.col("seed").n_unique()
    own = own.with_columns(is_shared=n_seeds.over([*place, "swept", "value"]) == n_seeds.over(place))
    own = own.filter(pl.col("is_shared") | ~pl.col("is_shared").any().over(place)).drop("is_shared")
    tried: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for dataset, training, swept, value in own.select(*place, "swept", "value").iter_rows():
        tried.setdefault((dataset, training), set()).add((swept, value))
    kept = {
        (dataset, training, *each)
        for (dataset, training), values in tried.items()
        for each in values.intersection(*(v for (d, _), v in tried.items() if d == dataset and v & values))
    }
    rows = own.select(*place, "swept", "value").iter_rows()
    return own.filter(pl.Series([row in kept for row in rows], dtype=pl.Boolean))


def numbers(text: str) -> list[float]:
    """Numbers with spaces between them.

    >>> numbers("0.5 0.25")
    [0.5, 0.25]
    """
    return [float(word) for word in text.split()]


def whole_lines(path: Path) -> bytes:
    """A file without the end of a line that was not written to its end; nothing of a file that is not there."""
    try:
        written = path.read_bytes()
    except FileNotFoundError:
        return b""
    return written[: written.rfind(b"\n") + 1]


def _of_cells(path: Path, columns: dict[str, type[pl.DataType]], known: pl.DataFrame) -> pl.DataFrame:
    """The rows of cells that are done: the last run of each, since an interrupted one may have left rows."""
    table = _table(path, columns, set(known["cell"].to_list()))
    runs = table.with_columns(run=pl.col("cell").rle_id())
    newest = runs.filter(pl.col("run") == pl.col("run").max().over("cell")).drop("run")
    named = [name for name in ("method", "curve", "setting", "earliness", "true", "n_observed") if name in columns]
    newest = newest.unique(["cell", *named], keep="last", maintain_order=True)
    return newest.join(known, on="cell", how="left", maintain_order="left")


def _table(path: Path, columns: dict[str, type[pl.DataType]], cells: set[str] | None = None) -> pl.DataFrame:
    """One CSV file with its columns as their kinds, rows of other cells left out; empty if there is none."""
    if not path.is_file():
        return pl.DataFrame(schema=columns)
    try:
        raw = pl.read_csv(whole_lines(path), infer_schema=False, truncate_ragged_lines=True).fill_null("")
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        why = str(error).partition("\n")[0]
        raise DataError(f"{path}: cannot be read as CSV ({why}); restore it or remove it and run again") from error
    raw = raw.with_columns(pl.lit("").alias(name) for name in ADDED if name in columns and name not in raw.columns)
    if missing := [name for name in columns if name not in raw.columns]:
        raise DataError(f"{path}: has no column {missing[0]}; restore it or remove it and run again")
    raw = raw.with_row_index("row", offset=2)
    if cells is not None:
        raw = raw.filter(pl.col("cell").is_in(list(cells)))
    for name in raw.columns[1:]:
        kind = columns.get(name, NUMBER)
        if kind is WORD:
            continue
        cast = raw[name].replace("", None).cast(kind, strict=False)
        is_wrong = cast.is_null() & (raw[name] != "")
        if name in columns and is_wrong.any():
            where = raw.filter(is_wrong)
            raise DataError(
                f"{path}, row {where['row'][0]}: {name} is {where[name][0]!r}, not a number; mend or remove it"
            )
        raw = raw if is_wrong.any() else raw.with_columns(cast.alias(name))
    for name in NEEDED[path.name]:
        is_empty = raw[name].is_null() if columns[name] is not WORD else raw[name] == ""
        if is_empty.any():
            raise DataError(f"{path}, row {raw.filter(is_empty)['row'][0]}: {name} is empty; mend or remove the row")
    return raw.drop("row")


def _last_part(setting: pl.Expr) -> pl.Expr:
    return setting.str.split(".").list.last().fill_null("")
