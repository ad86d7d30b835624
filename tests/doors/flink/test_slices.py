"""Slices: all rows, each once, in order, wherever the cuts fall."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.stories import MODEL

from kvec.doors.flink.parting import Parting, bad_line
from kvec.doors.flink.slices import Endings, Piece, Slices, require_same_files, slices_of
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Field, Schema

SCHEMA = Schema(key=("key",), tangle="tangle", time="time", values=(Field("size", kind="binned"),))


@given(lines=st.lists(st.binary(max_size=9).map(lambda raw: raw.hex().encode())), size=st.integers(1, 40),
       ends=st.booleans())  # fmt: skip
def test_each_line_is_in_one_slice(
    lines: list[bytes], size: int, ends: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "items.ndjson"
    path.write_bytes(b"\n".join(lines) + b"\n" * (ends and bool(lines)))
    slices = slices_of(str(path), SCHEMA, slice_bytes=size)
    found = [line for number in range(slices.n) for line in slices.read(number, SCHEMA)]
    assert found == path.read_bytes().splitlines()


def test_a_folder_is_read_by_name_whatever_the_form(tmp_path: Path) -> None:
    rows = [{"tangle": i % 2, "key": f"k{i}", "time": float(i), "size": i, "more": "not read"} for i in range(10)]
    pl.DataFrame(rows[:7]).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame(rows[7:]).write_ndjson(tmp_path / "b.ndjson")
    (tmp_path / "notes.txt").write_text("no rows")
    slices = slices_of(str(tmp_path), SCHEMA, slice_rows=3)
    assert [piece.slices for piece in slices.pieces] == [3, 1]
    part = Parting(SCHEMA)
    found = [block for number in range(slices.n) for block in part.blocks(slices.read(number, SCHEMA))]
    keys = {name: [line.split(b'"key":"')[1][:2] for n, rows in found if n == name for line in rows.splitlines()]
            for name in ("0", "1")}  # fmt: skip
    assert keys == {"0": [b"k0", b"k2", b"k4", b"k6", b"k8"], "1": [b"k1", b"k3", b"k5", b"k7", b"k9"]}


@given(lines=st.lists(st.binary(min_size=1, max_size=9).map(lambda raw: raw.hex().encode()), min_size=1),
       size=st.integers(1, 40), ends=st.booleans())  # fmt: skip
def test_what_comes_after_the_job_was_made_is_not_read(
    lines: list[bytes], size: int, ends: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "items.ndjson"
    path.write_bytes(b"\n".join(lines) + b"\n" * ends)
    slices = slices_of(str(path), SCHEMA, slice_bytes=size)
    with path.open("ab") as more:
        more.write(b"more of it\nand more\n")
    assert [line for number in range(slices.n) for line in slices.read(number, SCHEMA)] == lines


def test_a_table_that_grew_is_read_to_its_old_end(tmp_path: Path) -> None:
    rows = pl.DataFrame([{"tangle": 1, "key": f"k{i}", "time": float(i), "size": i} for i in range(10)])
    rows.head(4).write_parquet(tmp_path / "a.parquet")
    slices = slices_of(str(tmp_path), SCHEMA, slice_rows=3)
    rows.write_parquet(tmp_path / "a.parquet")
    assert [len(slices.read(number, SCHEMA)) for number in range(slices.n)] == [3, 1]


def test_a_file_that_became_shorter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.ndjson"
    path.write_text('{"tangle": 1, "key": 1}\n' * 9)
    slices = slices_of(str(path), SCHEMA)
    path.write_text('{"tangle": 1, "key": 1}\n')
    with pytest.raises(DataError, match="has become shorter since the job was sent; put the whole file back"):
        slices.read(0, SCHEMA)


def state_of(slices: Slices, folder: Path) -> Path:
    """As Flink writes the names of operators: text behind its length, among other bytes."""
    uid = slices.uid.encode()
    folder.mkdir(exist_ok=True)
    (folder / "_metadata").write_bytes(b"\x00\x0eSource: slices" + len(uid).to_bytes(2) + uid + b"ab-\x00\xff")
    return folder


def test_a_state_goes_on_with_the_files_that_it_was_made_from_and_no_others(tmp_path: Path) -> None:
    here, moved = tmp_path / "here", tmp_path / "moved"
    here.mkdir()
    for name in "abc":
        pl.DataFrame({"tangle": [1, 2], "key": name, "time": 1.0, "size": 3}).write_ndjson(here / f"{name}.ndjson")
        pl.DataFrame({"tangle": [1, 2], "key": name, "time": 1.0, "size": 3}).write_parquet(here / f"{name}.parquet")
    state = state_of(slices_of(str(here), SCHEMA), tmp_path / "state")
    shutil.copytree(here, moved)
    require_same_files(state, slices_of(str(moved), SCHEMA))

    def said(**cut: int) -> str:
        with pytest.raises(SettingError) as refused:
            require_same_files(state, slices_of(str(moved), SCHEMA, **cut))
        assert "put them back as they were" in str(refused.value)
        return str(refused.value)

    assert "(new or changed since then: a.ndjson, b.ndjson, c.ndjson)" in said(slice_bytes=7)
    (moved / "c.parquet").unlink()
    assert "(some that it had are gone)" in said()
    shutil.copy(here / "c.parquet", moved)
    with (moved / "a.ndjson").open("a") as more:
        more.write('{"tangle": 1, "key": "z", "time": 1.0}\n')
    grown = pl.DataFrame({"tangle": [1, 2], "key": "b", "time": 1.0, "size": 4})  # as many rows
    grown.write_parquet(moved / "b.parquet")
    assert "(new or changed since then: a.ndjson, b.parquet)" in said()
    for number in range(9):
        shutil.copy(here / "a.ndjson", moved / f"n{number}.ndjson")
    assert "a.ndjson, b.parquet, n0.ndjson, n1.ndjson, n2.ndjson, n3.ndjson, n4.ndjson, n5.ndjson and 3 more" in said()


def test_a_state_of_another_source_is_left_to_flink(tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(b"\x00\x0akvec-kafka")
    (tmp_path / "items.ndjson").write_text("{}\n")
    require_same_files(tmp_path, slices_of(str(tmp_path), SCHEMA))


def test_the_name_of_very_many_files_stays_short(tmp_path: Path) -> None:
    pieces = [Piece(f"{number}.ndjson", "NDJSON", 1, 1, f"{number:016x}") for number in range(10_000)]
    assert len(Slices(tuple(pieces[:1000])).uid) < 20_000
    assert len(Slices(tuple(pieces)).uid) < 100
    state = state_of(Slices(tuple(pieces)), tmp_path)
    with pytest.raises(SettingError, match=r"\(of so many it is not known which\)"):
        require_same_files(state, Slices(tuple(pieces[:-1])))


def test_what_flink_cannot_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no such file"):
        slices_of(str(tmp_path / "items.ndjson"), SCHEMA)
    with pytest.raises(SettingError, match=r"has no \.ndjson or \.parquet file in it"):
        slices_of(str(tmp_path), SCHEMA)
    packed = tmp_path / "items.ndjson.gz"
    packed.write_bytes(b"")
    with pytest.raises(SettingError, match="unpacked; turn it into one of these"):
        slices_of(str(packed), SCHEMA)


def test_a_large_tangle_is_parted_by_key_or_by_a_column() -> None:
    rows = [f'{{"tangle": 7, "key": "k{i}", "way": "w{i % 3}"}}'.encode() for i in range(60)]
    whole = dict(Parting(MODEL.schema).blocks(rows))
    assert list(whole) == ["7"]
    by_key = dict(Parting(MODEL.schema, 4).blocks([*rows, *rows]))
    assert set(by_key) == {f"7#{part}" for part in range(4)}
    assert all(block.count(b'"k1"') in (0, 2) for block in by_key.values()), "a key is in one part"
    by_column = Parting(MODEL.schema, 100, "way")
    assert len({by_column(row) for row in rows}) <= 3
    assert by_column(b"  ") is None


@pytest.mark.parametrize("ending", ["ndjson", "parquet"])
def test_the_column_by_which_tangles_are_split_is_read_and_must_be_there(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"items.{ending}"
    frame = pl.DataFrame([{"tangle": 7, "key": f"k{i}", "time": 1.0, "size": i, "way": f"w{i % 3}"} for i in range(60)])
    frame.write_parquet(path) if ending == "parquet" else frame.write_ndjson(path)
    slices = slices_of(str(path), SCHEMA, by="way", slice_rows=20)
    blocks = [dict(Parting(SCHEMA, 100, "way").blocks(slices.read(number, SCHEMA))) for number in range(slices.n)]
    assert {len(found) for found in blocks} == {3}
    with pytest.raises(
        DataError, match=r"there is no column 'wya' \(--split-by\); columns: tangle, key, time, size, way"
    ):
        slices_of(str(path), SCHEMA, by="wya")


def test_a_first_slice_without_a_whole_row_says_nothing_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "items.ndjson"
    path.write_text("broken\n\n")
    assert slices_of(str(path), SCHEMA, by="way").n == 1


def test_rows_without_a_name_go_where_they_are_told() -> None:
    rows = [b"broken", b'{"key": 1}', b"", b'{"tangle": "t", "key": 1}']
    part = Parting(MODEL.schema)
    assert dict(part.blocks(rows)) == {"": b'broken\n{"key": 1}', "t": rows[3]}
    told = dict(part.refused(b'broken\n{"key": 1}'))
    assert "is not JSON" in told[b"broken"] and "column 'tangle': is empty" in told[b'{"key": 1}']
    assert part.refused(b"") == [], "their end"


def test_the_empty_name_is_none() -> None:
    rows = [b'{"tangle": "", "key": 1}', b'{"tangle": "#", "key": 1}']
    part = Parting(MODEL.schema)
    assert dict(part.blocks(rows)) == {"": rows[0], "#": rows[1]}
    assert part.refused(rows[0]) == [(rows[0], "column 'tangle': is empty or not there; every item needs a name here")]


@pytest.mark.parametrize("row", [b'{"tangle": 7, "key": 1}', b'{"tangle": 7, "key": 1, "way": null}'])
def test_a_row_without_the_column_of_the_split_is_refused(row: bytes) -> None:
    """Though it would be an item, nobody knows of which part."""
    part = Parting(MODEL.schema, 4, "way")
    assert dict(part.blocks([row])) == {"": row}
    assert part.refused(row) == [(row, "column 'way' (--split-by): is empty or not there; each row needs its part")]


def test_half_a_surrogate_pair_is_a_name_as_any_other() -> None:
    r"""JSON may hold it as \ud800; UTF-8, which Flink writes, may not."""
    row = rb'{"tangle": "\ud800", "key": "\ud801", "way": "\ud802"}'
    for part in (Parting(MODEL.schema), Parting(MODEL.schema, 4), Parting(MODEL.schema, 4, "way")):
        [(name, rows)] = part.blocks([row])
        assert name.encode().startswith(rb"\ud800") and rows == row
    assert bad_line(b"x", "\ud800").encode()


def test_behind_the_last_slice_all_tangles_end_also_those_that_another_worker_read(tmp_path: Path) -> None:
    path = tmp_path / "items.ndjson"
    pl.DataFrame({"tangle": [f"t{i // 3}" for i in range(12)], "key": "k"}).write_ndjson(path)
    slices = slices_of(str(path), SCHEMA, slice_bytes=70)
    assert slices.n > 3
    ends = [(f"t{i}", b"") for i in range(4)]
    for first in range(slices.n + 1):
        reader = Endings(slices, SCHEMA, Parting(SCHEMA))
        for number in range(first, slices.n):
            assert all(rows for _, rows in reader.blocks(number))
        assert list(reader.blocks(slices.n)) == ends
