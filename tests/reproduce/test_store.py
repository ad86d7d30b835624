from __future__ import annotations

import csv
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.reproduce.fake import cell, outcome

from kvec.reproduce.plan import Cell, Outcome
from kvec.reproduce.results import ADDED, read_results
from kvec.reproduce.store import PARTS, Looked, Store, look, units_of
from kvec.reproduce.timing import Took
from kvec.words.errors import DataError, SettingError

ALL_FILES = ("cells.csv", *PARTS)
A, B = cell("kvec"), cell("srn", overrides=("training.beta=0.5",))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def filled(folder: Path, *cells: Cell) -> Path:
    with Store(folder) as store:
        for each in cells:
            store.add(each, outcome(each))
    return folder


def test_what_is_added_can_be_read(tmp_path: Path) -> None:
    with Store(filled(tmp_path / "out", A, B)) as store:
        assert store.is_done(A) and store.is_done(B)
        assert not store.is_done(cell("kvec", seed=1))
        assert store.took() == {A.id: Took(0.1), B.id: Took(0.1)}
    first, second = rows(tmp_path / "out" / "cells.csv")
    assert (first["cell"], first["n_train"], first["settings"], first["value"]) == ("planted/kvec/0", "7", "", "")
    assert (second["training"], second["settings"], second["seed"]) == ("srn", "training.beta=0.5", "0")
    results = read_results(tmp_path / "out")
    assert (results.cells.height, results.points.height, results.halts.height) == (2, 4, 2)


def test_a_cell_counts_as_done_in_its_profile_and_with_its_settings_only(tmp_path: Path) -> None:
    with Store(filled(tmp_path, A)) as store:
        assert not store.is_done(replace(A, profile="small"))
        assert not store.is_done(replace(A, overrides=("training.beta=1",), digest="other"))
    assert look(tmp_path, [A, B]) == Looked({A.id}, {}, {A.id: Took(0.1)})


def test_a_changed_default_or_profile_makes_a_cell_stale(tmp_path: Path) -> None:
    filled(tmp_path, A, B)
    changed = replace(A, digest="of other sizes"), replace(B, overrides=("training.beta=1",), digest="of another beta")
    with Store(tmp_path) as store:
        assert not any(store.is_done(each) for each in changed)
    assert look(tmp_path, changed).stale == {
        A.id: "other defaults, or other sizes of the profile", B.id: "other settings",
    }  # fmt: skip


def test_rows_of_before_there_was_a_digest_are_not_done(tmp_path: Path) -> None:
    filled(tmp_path, A)
    for name in ("cells.csv", "points.csv"):
        table = pl.read_csv(tmp_path / name, infer_schema=False)
        table.drop(set(ADDED) & set(table.columns)).write_csv(tmp_path / name)
    header = (tmp_path / "prefixes.csv").read_text().splitlines()[0]
    assert read_results(tmp_path).cells["digest"].to_list() == [""]
    assert look(tmp_path, [A]).stale == {A.id: "an older kvec kept no digest of their settings"}
    with Store(tmp_path) as store:
        assert not store.is_done(A)
        store.add(A, outcome(A))
        assert store.is_done(A)
    assert [row["digest"] for row in rows(tmp_path / "cells.csv")] == [A.digest]
    assert [row["validated"] for row in rows(tmp_path / "points.csv")] == ["", ""]
    assert (tmp_path / "prefixes.csv").read_text().splitlines()[0] == header


def test_one_training_under_two_names_is_kept_under_both(tmp_path: Path) -> None:
    twin = replace(A, setting="training.alpha", value=1.0)
    with Store(filled(tmp_path, A)) as store:
        assert store.twin_of(twin) == A.id and not store.is_done(twin)
        assert not store.twin_of(replace(twin, digest="other")) and not store.twin_of(replace(twin, is_paired=True))
        store.add(twin, store.outcome_of(A.id))
        assert store.is_done(twin) and store.is_done(A)
    results = read_results(tmp_path)
    assert results.cells["cell"].to_list() == [A.id, twin.id] and results.cells["value"].to_list() == ["", "1"]
    for part in (results.points, results.attention, results.halts, results.prefixes):
        own, other = (part.filter(pl.col("cell") == name).drop("cell", "value", "swept") for name in (A.id, twin.id))
        assert own.height and own.equals(other)


def test_a_cell_with_other_settings_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    changed = replace(A, overrides=("training.beta=1",), digest="of another beta")
    with Store(filled(tmp_path, A, B)) as store:
        store.add(changed, outcome(changed, accuracy=0.75))
        assert store.is_done(changed) and not store.is_done(A)
    assert [row["settings"] for row in rows(tmp_path / "cells.csv")] == ["training.beta=0.5", "training.beta=1"]
    assert [row["accuracy"] for row in rows(tmp_path / "points.csv")] == ["0.5", "0.5", "0.75", "0.75"]
    for name in PARTS:
        assert {row["cell"] for row in rows(tmp_path / name)} == {A.id, B.id}


def test_wherever_writing_is_cut_off_one_cell_is_lost_and_no_other(tmp_path: Path) -> None:
    """All that is written of a second cell is cut at every length, in the order in which it is written."""
    before = {name: (filled(tmp_path, A) / name).read_bytes() for name in ALL_FILES}
    after = {name: (filled(tmp_path, B) / name).read_bytes() for name in ALL_FILES}
    order = (*PARTS, "cells.csv")
    for place, torn in enumerate(order):
        for length in range(len(before[torn]), len(after[torn]), 7):
            for name in order:
                written = after if order.index(name) < place else before
                (tmp_path / name).write_bytes(after[torn][:length] if name == torn else written[name])
            assert look(tmp_path, [A, B]).done == {A.id}
            with Store(tmp_path) as store:
                assert store.is_done(A) and not store.is_done(B)
                assert {name: (tmp_path / name).read_bytes() for name in ALL_FILES} == before
    filled(tmp_path, B)
    assert {name: (tmp_path / name).read_bytes() for name in ALL_FILES} == after


def test_a_folder_that_was_cut_off_in_its_first_header_is_mended(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("cell,met")
    assert len(rows(filled(tmp_path, A) / "points.csv")) == 2


def test_a_cell_that_yields_no_rows_is_done_too(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add(A, Outcome({"commit": "two\nlines"}))
        assert store.is_done(A) and store.took() == {}
    assert rows(tmp_path / "cells.csv")[0]["commit"] == "two lines"
    assert (tmp_path / "points.csv").is_file()


def test_a_column_that_is_not_known_is_no_result(tmp_path: Path) -> None:
    with Store(tmp_path) as store, pytest.raises(ValueError, match="colour"):
        store.add(A, Outcome({"colour": 3}))


def test_files_of_another_version_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text("cell,profile\n")
    with pytest.raises(DataError, match=r"cells.csv was written by another kvec; name another folder with --out"):
        filled(tmp_path, A)
    (tmp_path / "cells.csv").unlink()
    filled(tmp_path, A)  # the lock was let go


def test_statistics_of_data_sets_are_kept(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_data({"dataset": "a", "keys": 3})
        store.add_data({"dataset": "b", "keys": 4, "more": 5})
        store.add_data({"dataset": "a", "keys": 6, "digest": "d"})
        assert store.known_data() == {"a": "d", "b": ""}
    assert rows(tmp_path / "data.csv") == [
        {"dataset": "b", "keys": "4", "more": "5", "digest": ""},
        {"dataset": "a", "keys": "6", "more": "", "digest": "d"},
    ]  # fmt: skip


def test_one_process_has_a_folder(tmp_path: Path) -> None:
    with (
        Store(tmp_path),
        pytest.raises(SettingError, match=f"another kvec reproduce, process {os.getpid()}, writes here; wait"),
        Store(tmp_path),
    ):
        pass
    with Store(tmp_path):
        pass


def test_the_lock_of_a_process_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom kvec.reproduce.store import Store\n"
        "Store(Path(sys.argv[1])).__enter__()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False).returncode == -9
    assert (tmp_path / ".lock").read_text().isdecimal()
    with Store(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_place_that_cannot_hold_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match="file: cannot keep results here: File exists"):
        filled(tmp_path / "file", A)


def test_a_paired_cell_is_done_when_its_units_are_kept(tmp_path: Path) -> None:
    paired = replace(A, is_paired=True)
    units = pl.DataFrame({"method": ["kvec"], "unit": ["7"], "right": [1]})
    with Store(filled(tmp_path, A)) as store:
        assert store.is_done(A) and not store.is_done(paired)
        store.add(paired, replace(outcome(paired), units=units))
        assert store.is_done(A) and store.is_done(paired)
    assert look(tmp_path, [paired]).done == {A.id}
    assert pl.read_parquet(units_of(tmp_path, A.id)).equals(units)
    assert len(rows(tmp_path / "cells.csv")) == 1
    with Store(tmp_path) as store:
        store.add(A, outcome(A))
        assert not store.is_done(paired), "what was kept belongs to the run that was replaced"


def test_a_folder_of_before_there_were_prefixes_can_be_gone_on_with(tmp_path: Path) -> None:
    filled(tmp_path, A)
    (tmp_path / "prefixes.csv").unlink()
    with Store(tmp_path) as store:
        assert store.is_done(A)
        store.add(B, outcome(B))
    assert {row["cell"] for row in rows(tmp_path / "prefixes.csv")} == {B.id}
    assert read_results(tmp_path).prefixes.height == 2
