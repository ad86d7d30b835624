"""Opens tables wherever they are: Parquet, CSV and NDJSON files, folders of them, and frames in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from kvec.read.broken import cut_short, twice, what_is_wrong
from kvec.words.errors import DataError

ENDINGS = {
    ".parquet": "Parquet",
    ".csv": "CSV",
    ".csv.gz": "CSV",
    ".tsv": "CSV",
    ".tsv.gz": "CSV",
    ".ndjson": "NDJSON",
    ".ndjson.gz": "NDJSON",
    ".jsonl": "NDJSON",
    ".jsonl.gz": "NDJSON",
}
LAST = "kvec.last"  # whether the last cell of a row is empty
ROW, FILE = "kvec.row", "kvec.file"  # columns that say where a row came from
AGAIN = "_duplicated_"  # polars' mark of a name that comes again in a header
FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, OverflowError)


def first(mask: pl.Series) -> int:
    """The index of the first True."""
    return int(mask.arg_max() or 0)


@dataclass(frozen=True)
class Rows:
    """Rows as they were read; they know where they came from."""

    frame: pl.DataFrame
    name: str
    texts: frozenset[str] = frozenset()  # columns whose text may stand for numbers, as everything in a CSV file

    def place(self, index: int) -> str:
        """Where a row came from, for messages."""
        file = self.frame[FILE][index] if FILE in self.frame.columns else self.name
        return f"{file}, row {self.frame[ROW][index]}"

    def refuse(self, index: int, column: str, problem: str) -> NoReturn:
        """Raise the error of one cell."""
        raise DataError(f"{self.place(index)}, column {column!r}: {problem}")

    def with_frame(self, frame: pl.DataFrame) -> Rows:
        """The same rows, changed or filtered."""
        return replace(self, frame=frame)


@dataclass(frozen=True)
class Part:
    """One file (or frame) of a source: its columns are known, its rows are not read yet."""

    name: str
    columns: tuple[str, ...]
    load: Callable[[Sequence[str]], pl.DataFrame]


@dataclass(frozen=True)
class Opened:
    """A table whose columns are known and whose rows are still to be read."""

    name: str
    parts: tuple[Part, ...]
    is_text: bool = False
    is_folder: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table, in order."""
        return self.parts[0].columns

    def read(self, columns: Iterable[str]) -> Rows:
        """Read the rows, and of them only the given columns."""
        wanted = list(dict.fromkeys(columns))
        frames: list[pl.DataFrame] = []
        for part in self.parts:
            frame = part.load(wanted)
            for name in wanted if frames else ():
                _same_kind(frames[0], frame, name, self.parts[0].name, part.name)
            if self.is_folder:
                names = pl.Enum([p.name for p in self.parts])
                frame = frame.with_columns(pl.lit(part.name, dtype=names).alias(FILE))
            frames.append(frame)
        whole = pl.concat(frames, how="vertical_relaxed") if len(frames) > 1 else frames[0]
        if not whole.height:
            raise DataError(f"{self.name}: there are no rows in it{', only a header' * self.is_text}")
        return Rows(whole, self.name, frozenset(wanted) if self.is_text else frozenset())


def ending(path: Path) -> str:
    """The ending of a file name that says how to read it; empty when it is none of ours.

    >>> ending(Path("flows.day1.CSV.gz"))
    '.csv.gz'
    """
    return max((e for e in ENDINGS if path.name.lower().endswith(e)), key=len, default="")


def open_table(source: Any, leave_out: Sequence[Path] = ()) -> Opened:
    """Open a path, a folder (but for the files to leave out), a frame or a dict of columns; what is open stays so."""
    if isinstance(source, Opened):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_dir():
            return _open_folder(path, leave_out)
        return Opened(str(path), (_open_file(path),), is_text=ENDINGS[ending(path)] == "CSV")
    name, frame = _in_memory(source)

    def load(columns: Sequence[str]) -> pl.DataFrame:
        return _numbered(frame.select(columns))

    return Opened(name, (Part(name, tuple(frame.columns), load),))


def _open_folder(path: Path, leave_out: Sequence[Path]) -> Opened:
    left_out = {p.resolve() for p in leave_out}
    files = sorted(f for f in path.iterdir() if f.is_file() and ending(f) and not f.name.startswith((".", "_")))
    files = [f for f in files if f.resolve() not in left_out]
    if not files:
        raise DataError(f"{path}: no table in this folder; files may end in {', '.join(ENDINGS)}")
    for file in files:
        if (kind := ENDINGS[ending(file)]) != (expected := ENDINGS[ending(files[0])]):
            raise DataError(f"{file}: is {kind}, but {files[0].name} is {expected}; keep one kind in a folder")
    parts = tuple(_open_file(f) for f in files)
    for part in parts:
        if different := set(part.columns) ^ set(parts[0].columns):
            name = min(different)
            lacking, having = (part, parts[0]) if name in parts[0].columns else (parts[0], part)
            raise DataError(f"{part.name}: columns disagree: {lacking.name} has no {name!r}, {having.name} has it")
    return Opened(str(path), parts, is_text=ENDINGS[ending(files[0])] == "CSV", is_folder=True)


def _open_file(path: Path) -> Part:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not ending(path):
        raise DataError(f"{path}: cannot read this kind of file; it may end in {', '.join(ENDINGS)}")
    kind = ENDINGS[ending(path)]
    if not path.stat().st_size:
        raise DataError(f"{path}: the file is empty")
    try:
        lazy, separator = _scan(path)
        columns = tuple(lazy.collect_schema().names())
    except FAILURES as error:
        raise DataError(f"{path}: {what_is_wrong(path, kind, error)}") from None
    if kind == "CSV" and any("\ufffd" in name for name in columns):
        raise DataError(f"{path}: {what_is_wrong(path, kind, 'the header is not UTF-8')}")
    if kind == "CSV" and any(AGAIN in name for name in columns) and (problem := twice(_header(path, separator))):
        raise DataError(f"{path}: {problem}")

    def load(wanted: Sequence[str]) -> pl.DataFrame:
        problem = ""
        try:
            if kind != "CSV":
                return _numbered(lazy.select(wanted).collect())
            frame = _read_csv(lazy, wanted, columns[-1])
            if frame[LAST].any() and _may_be_cut_short(path, separator, len(columns)):
                problem = cut_short(path, separator, len(columns))
        except FAILURES as error:
            problem = what_is_wrong(path, kind, error)
        if problem:
            raise DataError(f"{path}: {problem}")
        return frame.drop(LAST)

    return Part(str(path), columns, load)


def _scan(path: Path) -> tuple[pl.LazyFrame, str]:
    """The rows of a file, and what separates its cells if it is CSV."""
    kind = ENDINGS[ending(path)]
    if kind == "Parquet":
        return pl.scan_parquet(path), ""
    if kind == "NDJSON":
        return pl.scan_ndjson(path, infer_schema_length=None), ""
    # Every cell is read as text: keys such as 007 or NA stay what they are, and each column is typed by its use.
    separator = "\t" if ".tsv" in ending(path) else ","
    lazy = pl.scan_csv(path, infer_schema=False, separator=separator, null_values=[""])
    header = lazy.collect_schema().names()
    if len(header) == 1 and separator == "," and (other := next((c for c in ";\t" if c in header[0]), "")):
        return pl.scan_csv(path, infer_schema=False, separator=other, null_values=[""]), other
    return lazy, separator


def _header(path: Path, separator: str) -> list[str]:
    """The header of a CSV file as it stands there; a name that comes again is changed where columns are read."""
    row = pl.scan_csv(path, has_header=False, infer_schema=False, separator=separator, n_rows=1).collect().row(0)
    return [name or "" for name in row]


def _numbered(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_row_index(ROW, offset=1).with_columns(pl.col(ROW).cast(pl.UInt32))


def _read_csv(lazy: pl.LazyFrame, wanted: Sequence[str], last: str) -> pl.DataFrame:
    """Looks at every column, else blank lines, and lines with too many fields, would pass unseen.

    Also tells in which rows the last cell is empty: a line with too few fields is one of them.
    """
    is_blank = pl.all_horizontal(pl.all().is_null()).alias("kvec.blank")
    frame = _numbered(lazy.select(*wanted, is_blank, pl.col(last).is_null().alias(LAST)).collect())
    return frame.filter(~pl.col("kvec.blank")).drop("kvec.blank")


def _may_be_cut_short(path: Path, separator: str, n_columns: int) -> bool:
    """Whether a line has too few fields, or a quoted cell over several lines, which only a slow look tells apart."""
    lines = pl.scan_csv(
        path, has_header=False, infer_schema=False, separator="\0", quote_char=None, truncate_ragged_lines=True,
        new_columns=["line"],
    )  # fmt: skip
    unquoted = pl.col("line").str.replace_all(r'"[^"]*"', "")
    is_few = unquoted.str.count_matches(separator, literal=True) < n_columns - 1
    is_open = unquoted.str.contains('"', literal=True)
    return bool(lines.select((is_few | is_open).any()).collect().item())


def _same_kind(first: pl.DataFrame, other: pl.DataFrame, column: str, first_name: str, other_name: str) -> None:
    a, b = _kind(first[column].dtype), _kind(other[column].dtype)
    if a != b and "nothing" not in (a, b):
        raise DataError(f"{other_name}, column {column!r}: holds {b}, but {a} in {first_name}; make them agree")


def _kind(dtype: pl.DataType) -> str:
    if dtype == pl.Null:
        return "nothing"
    if dtype.is_numeric():
        return "numbers"
    if isinstance(dtype, pl.List | pl.Array):
        return f"lists of {_kind(dtype.inner)}"  # type: ignore[arg-type]
    return "text" if isinstance(dtype, pl.String | pl.Categorical | pl.Enum) else str(dtype)


def _in_memory(source: Any) -> tuple[str, pl.DataFrame]:
    try:
        if isinstance(source, pl.LazyFrame):
            return "Polars table", source.collect()
        if isinstance(source, pl.DataFrame):
            return "Polars table", source
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(source, pandas.DataFrame):
            return "pandas table", _from_pandas(source)
        if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
            return "Arrow table", pl.DataFrame(source)
        if isinstance(source, Mapping):
            return "columns", pl.DataFrame([_column(str(name), cells) for name, cells in source.items()])
    except (*FAILURES, TypeError) as error:
        raise DataError(f"{type(source).__name__}: cannot be read as a table: {_one_line(error)}") from None
    raise DataError(
        f"cannot read a {type(source).__name__} as a table; give a path, a folder, a pandas, Polars or Arrow table, "
        "or a dict of columns"
    )


def _from_pandas(frame: Any) -> pl.DataFrame:
    try:
        return pl.from_pandas(frame, nan_to_null=False)
    except (ImportError, ValueError, TypeError):  # without pyarrow, or a column of mixed cells: through Python values
        if not frame.columns.is_unique:
            raise
        plain = frame.astype(object).where(frame.notna(), None)
        return pl.DataFrame([_column(str(name), plain[name].tolist()) for name in plain.columns])


def _column(name: str, cells: Any) -> pl.Series:
    series = pl.Series(name, cells, strict=False)
    return pl.Series(name, series.to_list(), strict=False) if series.dtype == pl.Object else series


def _one_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
