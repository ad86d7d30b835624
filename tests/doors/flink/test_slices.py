"""Slices: all rows, each once, in order, wherever the cuts fall."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.stories import MODEL

from kvec.doors.flink.parting import Parting
from kvec.doors.flink.slices import Endings, slices_of
from kvec.words.errors import SettingError
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


def test_rows_without_a_name_go_where_they_are_told() -> None:
    rows = [b"broken", b'{"key": 1}', b"", b'{"tangle": "t", "key": 1}']
    assert dict(Parting(MODEL.schema).blocks(rows)) == {"": b'broken\n{"key": 1}', "t": rows[3]}


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
