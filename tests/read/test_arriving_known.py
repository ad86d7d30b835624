"""Followed files that were rotated while nobody followed them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kvec.read.arriving_files import LineFile
from kvec.read.arriving_forms import CsvLines, JsonLines
from kvec.words.errors import DataError


def rows(*numbers: int) -> str:
    return "".join(json.dumps({"n": n}) + "\n" for n in numbers)


def followed(path: Path) -> LineFile:
    return LineFile(path, JsonLines(), follow=True)


def left(path: Path, n_taken: int) -> dict[str, Any]:
    """The position of one who followed a file and took so many rows."""
    source = followed(path)
    source.start({})
    source.take((source.read(10, 0) or [])[:n_taken])
    position = source.position()
    source.close()
    return json.loads(json.dumps(position))  # type: ignore[no-any-return]


def rest(path: Path, position: dict[str, Any]) -> tuple[list[tuple[str, int]], str, dict[str, Any]]:
    """What comes after it, with the names of the files; what is said; and the position then."""
    source, found = followed(path), []
    source.start(position)
    for _ in range(12):
        arrived = source.read(10, 0) or []
        found += [(Path(source.name).name, json.loads(one.content)["n"]) for one in arrived]  # type: ignore[arg-type]
        source.take(arrived)
    position = source.position()
    source.close()
    return found, source.notice, position


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "f.ndjson"
    path.write_text(rows(1, 2, 3, 4))
    return path


@pytest.mark.parametrize("n_taken", [0, 2, 4])
def test_the_rest_of_a_rotated_file_comes_first(path: Path, n_taken: int) -> None:
    position = left(path, n_taken)
    with path.open("a") as out:
        out.write(rows(5) + rows(6).strip())
    old = path.rename(f"{path}.1")
    path.write_text(rows(7, 8))
    found, notice, position = rest(path, position)
    assert found == [("f.ndjson.1", n) for n in range(n_taken + 1, 7)] + [("f.ndjson", 7), ("f.ndjson", 8)]
    assert notice == (
        f"{path} is another file than the one that the state stopped in, which is {old} now: the rest of that is read "
        f"first, then {path}"
    )
    again, notice, _ = rest(path, position)
    assert again == [] and notice == "", "the place is in the new file now"


def test_rotations_in_between_come_in_their_order(path: Path) -> None:
    position = left(path, 4)
    for number, (name, content) in enumerate((("2", rows(5)), ("1", rows(6)), ("0.gz", "packed"), ("bak", rows(9)))):
        other = Path(f"{path}.{name}")
        path.rename(other) if name == "2" else other.write_text(content)
        os.utime(other, (1000 + number, 1000 + number))
    old = Path(f"{path}.3")
    old.write_text(rows(0))
    os.utime(old, (1, 1))
    path.write_text(rows(7))
    found, _, _ = rest(path, position)
    assert found == [("f.ndjson.1", 6), ("f.ndjson", 7)]


@pytest.mark.parametrize("n_taken", [0, 3])
def test_a_copy_of_the_file_will_do(path: Path, n_taken: int) -> None:
    """As where it was copied and emptied, or unpacked again."""
    position = left(path, n_taken)
    shutil.copy(path, f"{path}.1")
    path.write_text(rows(7))
    assert [n for _, n in rest(path, position)[0]] == [*range(n_taken + 1, 5), 7]


def test_a_mended_file_under_its_name_is_the_file(path: Path) -> None:
    position = left(path, 2)
    mended = path.with_suffix(".new")
    mended.write_text(rows(1, 2, 33))
    mended.replace(path)
    found, notice, _ = rest(path, position)
    assert found == [("f.ndjson", 33)] and notice == ""


@pytest.mark.parametrize("n_taken", [0, 2])
def test_one_that_is_gone_is_missed(path: Path, n_taken: int) -> None:
    position = left(path, n_taken)
    keep = path.rename(path.parent.parent / f"kept{n_taken}.ndjson")
    path.write_text(rows(7, 8))
    with pytest.raises(DataError, match=r"f\.ndjson: is (not the file|shorter)") as refused:
        followed(path).start(position)
    assert f"put that one back into {path.parent}, under any name, or begin with a new --state and -o" in str(
        refused.value
    )
    keep.rename(path.parent / "old")
    assert [n for _, n in rest(path, position)[0]] == [*range(n_taken + 1, 5), 7, 8], "the way out works"


def test_a_header_alone_makes_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"

    def opened() -> LineFile:
        return LineFile(path, CsvLines(["n"], "", lambda columns: None), follow=True)

    path.write_text("n\n1\n")
    source = opened()
    source.start({})
    (header, _) = source.read(10, 0) or []
    source.cells(header)
    source.take([header])
    position = source.position()
    source.close()
    (tmp_path / "unrelated.csv").write_text("n\n7\n")
    path.unlink()
    path.write_text("m\n8\n")
    with pytest.raises(DataError, match="is not the file that the state stopped in"):
        opened().start(position)
