"""Files as sources: gone on with at any row, packed, growing, replaced."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kvec.read.arriving_files import LineFile, ParquetFile
from kvec.read.arriving_forms import CsvLines, JsonLines
from kvec.read.arriving_sources import Arrived, Source
from kvec.words.errors import DataError, SettingError

ROWS = [{"key": i, "text": f"row {i}" if i % 4 else f'two\n"lines" {i}'} for i in range(20)]


def csv_lines() -> CsvLines:
    return CsvLines(["key", "text"], "", lambda columns: None)


def written(folder: Path, ending: str) -> Path:
    path = folder / f"rows.{ending}"
    frame = pl.DataFrame(ROWS)
    if ending.startswith("csv"):
        content = frame.write_csv().encode()
    elif ending.startswith("ndjson"):
        content = frame.write_ndjson().encode()
    else:
        frame.write_parquet(path)
        return path
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    return path


def opened(path: Path, follow: bool = False) -> Source:
    if path.suffix == ".parquet":
        return ParquetFile(path, ["key", "text"], {"key"})
    return LineFile(path, csv_lines() if ".csv" in path.name else JsonLines(), follow)


def rest(source: Source, most: int = 3) -> tuple[list[Any], list[Arrived]]:
    cells, all_arrived = [], []
    while arrived := source.read(most, 0):
        source.take(arrived)
        all_arrived += arrived
        cells += [found for one in arrived if (found := source.cells(one)) is not None]
    return cells, all_arrived


@pytest.mark.parametrize("ending", ["ndjson", "csv", "ndjson.gz", "csv.gz", "parquet"])
def test_a_file_can_be_gone_on_with_at_any_row(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path, ending)
    whole = opened(path)
    whole.start({})
    cells, arrived = rest(whole)
    whole.close()
    assert [int(row["key"]) for row in cells] == list(range(20))
    assert [row["text"] for row in cells] == [row["text"] for row in ROWS]
    for stop in range(0, len(arrived) + 1, 3):
        first = opened(path)
        first.start({})
        seen = []
        while len(seen) < stop:
            some = first.read(min(2, stop - len(seen)), 0) or []
            seen += some
            first.take(some)
            seen_cells = [first.cells(one) for one in some]
            assert all(found is None or found in cells for found in seen_cells)
        position = json.loads(json.dumps(first.position()))
        assert first.has_more() == (stop < len(arrived))
        first.close()
        second = opened(path)
        second.start(position)
        _, others = rest(second)
        assert [(one.number, one.content) for one in others] == [(one.number, one.content) for one in arrived[stop:]]
        second.close()


def test_rows_that_were_read_and_not_taken_come_again(tmp_path: Path) -> None:
    source = opened(written(tmp_path, "ndjson"))
    source.start({})
    arrived = source.read(10, 0)
    assert arrived is not None
    source.take(arrived[:4])
    assert source.position()["line"] == 4
    source.close()


def test_another_or_a_shorter_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "ndjson")
    source = opened(path)
    source.start({})
    rest(source)
    position = source.position()
    source.close()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"row 1", b"row X", 1))
    with pytest.raises(DataError, match="is not the file that the state stopped in"):
        opened(path).start(position)
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"is not the file|is shorter than when the state was saved"):
        opened(path).start(position)
    big = content * 100
    path.write_bytes(big)
    source = opened(path)
    source.start({})
    rest(source)
    position = source.position()
    source.close()
    path.write_bytes(big[:-1])
    with pytest.raises(DataError, match="is shorter than when the state was saved"):
        opened(path).start(position)
    path.write_bytes(gzip.compress(big[:-1]))
    with pytest.raises(DataError, match="is shorter than when the state was saved"):
        opened(path).start(position)
    short = written(tmp_path, "parquet")
    with pytest.raises(DataError, match="has fewer rows"):
        opened(short).start({"row": 21})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        opened(tmp_path / "none.ndjson").start({})
    cut = tmp_path / "cut.ndjson.gz"
    cut.write_bytes(gzip.compress(b'{"a": 1}\n' * 3_000)[:-20])
    source = opened(cut)
    source.start({})
    with pytest.raises(DataError, match=r"cut\.ndjson\.gz: cannot be read: Compressed file ended"):
        rest(source, 50_000)
    source.close()
    with pytest.raises(SettingError, match="does not grow line by line"):
        opened(cut, follow=True).start({})
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="is not a whole Parquet file"):
        opened(broken).start({})
    pl.DataFrame({"key": [1], "text": [[1, 2]]}).write_parquet(broken)
    with pytest.raises(DataError, match=r"column 'text': holds List\(Int64\), not single values"):
        opened(broken).start({})


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("")
    source = opened(path, follow=True)
    source.start({})
    assert source.read(10, 0) == []
    with path.open("a") as out:
        out.write("key,text\n1,a\n2,")
        out.flush()
        assert rest(source)[0] == [{"key": "1", "text": "a"}]
        out.write("b\n")
        out.flush()
        assert rest(source)[0] == [{"key": "2", "text": "b"}], "a line counts when it is finished"
    assert source.read(10, 0.06) == [], "it never ends"
    source.close()


@pytest.mark.parametrize("how", ["renamed", "emptied"])
def test_a_followed_file_may_be_replaced(tmp_path: Path, how: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("key,text\n1,a\n2,b\n3,c\n")
    source = opened(path, follow=True)
    source.start({})
    assert len(rest(source)[0]) == 3
    if how == "renamed":
        path.rename(tmp_path / "rows.csv.1")
        assert source.read(10, 0) == [], "nothing has come in its place yet"
    path.write_text("text,key\nd,4\n")
    assert rest_after(source) == [{"key": "4", "text": "d"}]
    again = opened(path, follow=True)
    again.start(source.position())
    assert again.read(10, 0) == []
    for one in (source, again):
        one.close()


@pytest.mark.parametrize("start", ["", "key,text\n"])
def test_a_followed_file_that_began_small_is_known_again(tmp_path: Path, start: str) -> None:
    """By the bytes that were taken from it, whenever they came."""
    path = tmp_path / "rows.csv"
    path.write_text(start)
    source = opened(path, follow=True)
    source.start({})
    content = "key,text\n1,a\n"
    for more in (content.removeprefix(start), "2,b\n"):
        with path.open("a") as out:
            out.write(more)
        assert len(rest(source)[0]) == 1
    position = source.position()
    source.close()
    path.write_text("key,text\n1,a\n7,b\n3,c\n")
    with pytest.raises(DataError, match="is not the file that the state stopped in"):
        opened(path, follow=True).start(position)
    path.write_text("key,text\n1,a\n2,b\n3,c\n")
    again = opened(path, follow=True)
    again.start(position)
    assert rest(again)[0] == [{"key": "3", "text": "c"}]
    again.close()


def test_nothing_is_lost_where_a_followed_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what was written just before, nor a last line that was never finished."""
    path = tmp_path / "rows.csv"
    path.write_text("key,text\n1,a\n")
    source = opened(path, follow=True)
    source.start({})
    assert [cells["key"] for cells in rest(source)[0]] == ["1"]
    stat = Path.stat

    def replaced(self: Path, **given: Any) -> Any:
        if self == path:  # between the last look into the file and the look at its name
            monkeypatch.undo()
            with path.open("a") as out:
                out.write("2,b\n3,c")
            path.rename(tmp_path / "rows.csv.1")
            path.write_text("key,text\n4,d\n")
        return stat(self, **given)

    monkeypatch.setattr(Path, "stat", replaced)
    found = []
    for _ in range(6):
        arrived = source.read(10, 0)
        assert arrived is not None
        found += [(one.number, cells["key"]) for one in arrived if (cells := source.cells(one)) is not None]
        source.take(arrived)
    assert found == [(3, "2"), (4, "3"), (2, "4")]
    again = opened(path, follow=True)
    again.start(source.position())
    assert again.read(10, 0) == []
    for one in (source, again):
        one.close()


def rest_after(source: Source) -> list[Any]:
    """What comes once the change was noticed."""
    source.read(0, 0)
    for _ in range(3):
        if found := rest(source)[0]:
            return found
    return []


def test_slices_of_a_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvec.read.arriving_files.SLICE", 7)
    source = opened(written(tmp_path, "parquet"))
    source.start({})
    cells, arrived = rest(source, 4)
    assert [row["key"] for row in cells] == list(range(20))
    assert [one.number for one in arrived] == list(range(1, 21))
    assert source.place(arrived[2]) == f"{tmp_path / 'rows.parquet'}, row 3"


@pytest.mark.parametrize("ending", ["ndjson", "ndjson.gz", "parquet"])
def test_other_rows_before_the_place_are_noticed(tmp_path: Path, ending: str) -> None:
    """Though the file begins with the same ones."""
    rows = [{"key": i, "text": f"row {(i * 7919) % 1000}"} for i in range(1000)]

    def write(rows: list[dict[str, Any]]) -> Path:
        path, frame = tmp_path / f"rows.{ending}", pl.DataFrame(rows)
        if ending == "parquet":
            frame.write_parquet(path)
        else:
            content = frame.write_ndjson().encode()
            path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
        return path

    source = opened(write(rows))
    source.start({})
    taken = source.read(500, 0) or []
    source.take(taken)
    position = json.loads(json.dumps(source.position()))
    source.close()
    again = opened(write([*rows, {"key": 1000, "text": "more"}]) if ending != "ndjson.gz" else write(rows))
    again.start(position)
    assert [one.number for one in again.read(2, 0) or []] == [501, 502]
    again.close()
    others = [row | {"text": f"{row['text']}, but longer"} for row in rows[200:]]
    with pytest.raises(DataError, match="is not the file that the state stopped in; name that file, or begin with"):
        opened(write([*rows[:200], *others])).start(position)


def test_a_plain_file_that_was_packed_since_is_gone_on_with(tmp_path: Path) -> None:
    source = opened(written(tmp_path, "ndjson"))
    source.start({})
    source.take(source.read(5, 0) or [])
    again = opened(written(tmp_path, "ndjson.gz"))
    again.start(source.position())
    assert [one.number for one in again.read(1, 0) or []] == [6]
    for one in (source, again):
        one.close()


@pytest.mark.parametrize("ending", ["ndjson", "parquet"])
def test_a_file_of_which_nothing_was_taken_yet_is_known_too(tmp_path: Path, ending: str) -> None:
    path = written(tmp_path, ending)
    source = opened(path)
    source.start({})
    source.read(5, 0)
    position = source.position()
    source.close()
    again = opened(path)
    again.start(position)
    again.close()
    frame = pl.DataFrame(ROWS[3:])
    frame.write_parquet(path) if ending == "parquet" else frame.write_ndjson(path)
    with pytest.raises(DataError, match="is not the file that the state stopped in"):
        opened(path).start(position)
