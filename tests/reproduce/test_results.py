from pathlib import Path

import polars as pl
import pytest
from tests.reproduce import made

from kvec.reproduce.results import main_cells, numbers, read_results
from kvec.words.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made.Made().curves("traffic-fg", (0, 1), ["kvec", "earliest"], 2).table_one("traffic-fg").write(tmp_path)


def test_points_know_their_cell(folder: Path) -> None:
    results = read_results(folder)
    assert results.datasets() == ["traffic-fg"]
    assert results.methods("traffic-fg") == {"kvec", "kvec-confidence", "kvec-calimera", "earliest"}
    row = results.points.filter(pl.col("curve") == "swept").row(0, named=True)
    assert (row["dataset"], row["training"], row["seed"], row["swept"], row["value"]) == (
        "traffic-fg", "earliest", 0, "beta", "0.5",
    )  # fmt: skip
    assert results.attention.is_empty() and results.halts.is_empty()
    assert results.data["related_keys"].to_list() == [0.11], "columns beyond the known ones are kept as numbers"


def test_points_of_unfinished_cells_are_left_out_even_if_torn(folder: Path) -> None:
    n = read_results(folder).points.height
    with (folder / "points.csv").open("a") as file:
        file.write("traffic-fg/srn/0,srn-fixed,moved,3,0.1,0.5,0.5,0.5,0.5,0.5,0.1,0.5,0.5\ntraffic-fg/srn/0,srn-fi")
    assert read_results(folder).points.height == n


def test_a_last_line_that_was_not_written_to_its_end_is_no_cell(folder: Path) -> None:
    cells = (folder / "cells.csv").read_bytes()
    (folder / "cells.csv").write_bytes(cells[: cells.rstrip().rfind(b",")])
    assert read_results(folder).cells.height == 5 == cells.count(b"\n") - 2


def test_of_a_cell_that_was_run_twice_the_newest_rows_win(folder: Path) -> None:
    cell = "traffic-fg/kvec/0"
    cells = pl.read_csv(folder / "cells.csv", infer_schema=False)
    again = cells.filter(pl.col("cell") == cell).with_columns(theta=pl.lit("0.77"))
    pl.concat([cells, again]).write_csv(folder / "cells.csv")
    with (folder / "points.csv").open("a") as file:
        file.write(f"{cell},kvec,moved,0.5,0.3,0.9,0.9,0.9,0.9,0.9,0.3,0.9,0.9\n" * 2)
    results = read_results(folder)
    assert results.cells.filter(pl.col("cell") == cell)["theta"].to_list() == [0.77]
    assert results.points.filter(pl.col("cell") == cell)["earliness"].to_list() == [0.3]


def test_values_that_only_some_seeds_have_make_no_curve(tmp_path: Path) -> None:
    tables = made.Made().curves("a", (0, 1), ["kvec-paper"], 2).sensitivity("a", (0,))
    cells = read_results(tables.write(tmp_path)).cells
    assert set(main_cells(cells)["value"].to_list()) == {"0.5", "0.125"}
    alone = cells.filter(pl.col("seed") == 0)
    assert main_cells(alone).filter(pl.col("swept") == "beta").height == 7, "with one seed every value counts"


def test_values_that_no_rival_has_make_no_curve(tmp_path: Path) -> None:
    tables = made.Made().curves("a", (0,), ["kvec", "kvec-paper", "earliest"], 2).sensitivity("a", (0,))
    cells = main_cells(read_results(tables.write(tmp_path)).cells)
    tried = cells.group_by("training").agg(pl.col("value").sort())
    assert dict(tried.rows()) == {"kvec": [""], "kvec-paper": ["0.125", "0.5"], "earliest": ["0.125", "0.5"]}


def test_a_table_of_data_alone_is_enough(tmp_path: Path) -> None:
    results = read_results(made.Made().table_one("sepsis").write(tmp_path))
    assert results.cells.is_empty() and results.datasets() == [] and results.data.height == 1


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: [file.unlink() for file in folder.iterdir()], "holds no results"),
        (lambda folder: (folder / "points.csv").unlink(), "points.csv: is missing though cells.csv names 6 cells"),
        (lambda folder: rewrite(folder / "points.csv", "accuracy", "x"), "points.csv: has no column accuracy"),
        (lambda folder: rewrite(folder / "points.csv", ",0.02,", ",zero,"), "points.csv, row 2: earliness is 'zero'"),
        (lambda folder: rewrite(folder / "points.csv", ",0.02,", ",,"), "points.csv, row 2: earliness is empty"),
        (lambda folder: rewrite(folder / "cells.csv", ",0.02,", ",0.0.2,"), "cells.csv, row 2: first_earliness is"),
        (lambda folder: (folder / "cells.csv").write_bytes(b"\xff\xfe\x00"), "cells.csv: "),
        (lambda folder: (folder / "cells.csv").write_text(""), "cells.csv: cannot be read as CSV"),
    ],
)
def test_a_damaged_folder_is_told_in_one_line(folder: Path, spoil, words: str) -> None:
    spoil(folder)
    with pytest.raises(DataError) as caught:
        read_results(folder)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def rewrite(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


def test_numbers_by_epoch() -> None:
    assert numbers("") == [] and numbers("0.5 1") == [0.5, 1.0]
