"""What a stream took since its snapshot, whole after any crash."""

from __future__ import annotations

import errno
import os
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvec.doors.journal import LEAST_ROOM, Entry, Journal
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import ModelError

ROWS = st.lists(
    st.builds(
        Arrived, st.integers(1, 2**40), st.binary(max_size=20), st.just(0), st.sampled_from(["", "edge", "ü"]),
        st.sampled_from(["", "is too long"]), st.sampled_from(["", "sender edge", "::1:7"]), st.integers(0, 2**40),
    ),
    max_size=6,
)  # fmt: skip
ENTRIES = st.lists(st.builds(Entry, st.floats(0, 2e9), ROWS, st.one_of(st.none(), st.floats(0, 2e9))), max_size=5)


def filled(path: Path, entries: list[Entry]) -> Journal:
    path.unlink(missing_ok=True)
    journal = Journal(path)
    for entry in entries:
        journal.add(entry)
    journal.close()
    return journal


@given(ENTRIES)
def test_entries_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]) -> None:
    journal = filled(tmp_path_factory.mktemp("journal") / "journal", entries)
    assert list(journal.entries()) == entries


def three(path: Path) -> tuple[list[Entry], bytes, list[int]]:
    """Three entries, the journal that holds them, and where each begins."""
    entries = [Entry(float(i), [Arrived(i, b"line %d" % i)]) for i in range(1, 4)]
    sizes = [len(filled(path, entries[:n]).path.read_bytes()) for n in (1, 2)]
    return entries, filled(path, entries).path.read_bytes(), [0, *sizes]


def test_a_torn_last_entry_is_cut_off_wherever_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    entries, whole, starts = three(path)
    two = whole[: starts[2]]
    for size in range(len(two), len(whole.rstrip(b"\0"))):
        path.write_bytes(whole[:size])
        journal = Journal(path)
        assert list(journal.entries()) == entries[:2]
        assert path.read_bytes() == two
        journal.add(entries[2])
        journal.close()
        assert list(journal.entries()) == entries, "it is gone on with behind the cut"
    n = len(whole) - len(two)
    for lost in (slice(0, n), slice(0, 16), slice(16, 32), slice(n - 32, n)):  # pieces that never reached the disk
        last = bytearray(whole[len(two) :])
        last[lost] = bytes(len(last[lost]))
        path.write_bytes(two + last)
        assert list(Journal(path).entries()) == entries[:2]
        assert path.read_bytes() == two


def test_a_torn_entry_may_hold_the_mark_in_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first = Entry(1.0, [Arrived(0, b"line")])
    last = Entry(2.0, [Arrived(1, b"kvj2" * 40)])
    start = len(filled(path, [first]).path.read_bytes())
    whole = filled(path, [first, last]).path.read_bytes()
    path.write_bytes(whole[:start] + bytes(16) + whole[start + 16 :])
    assert list(Journal(path).entries()) == [first]
    assert path.read_bytes() == whole[:start]


def test_padding_that_never_came_is_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    entries, whole, _ = three(path)
    assert whole.endswith(b"\0")
    path.write_bytes(whole.rstrip(b"\0"))
    assert list(Journal(path).entries()) == entries
    assert path.read_bytes() == whole


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_damaged_header_is_refused(tmp_path: Path, which: int) -> None:
    """Also that of the last entry: a disk that is torn away leaves zeros. Nothing is cut off."""
    path = tmp_path / "journal"
    _, whole, starts = three(path)
    for place in range(starts[which], starts[which] + 16):
        content = bytearray(whole)
        content[place] ^= 255
        path.write_bytes(content)
        with pytest.raises(ModelError, match=f"is damaged at byte {starts[which]:,}; put a whole copy in its place"):
            list(Journal(path).entries())
        assert path.read_bytes() == content


@pytest.mark.parametrize("which", [0, 1])
def test_damage_in_the_middle_is_refused(tmp_path: Path, which: int) -> None:
    """In the content of an entry, or where all of its header is gone."""
    path = tmp_path / "journal"
    _, whole, starts = three(path)
    header, content = starts[which], starts[which] + 16
    flipped = whole[:content] + bytes([whole[content] ^ 1]) + whole[content + 1 :]
    for damaged in (flipped, whole[:header] + bytes(16) + whole[content:]):
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match=f"is damaged at byte {header:,}"):
            list(Journal(path).entries())
        assert path.read_bytes() == damaged


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system cannot give a file room ahead")
def test_what_a_kill_leaves_has_room_behind_it_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    entries, whole, starts = three(path)
    path.unlink()
    journal = Journal(path)
    for entry in entries:
        journal.add(entry)
    left = path.read_bytes()
    assert left.startswith(whole) and len(left) > len(whole) + LEAST_ROOM // 2 and not left[len(whole) :].strip(b"\0")
    assert list(Journal(path).entries()) == entries
    assert path.read_bytes() == whole
    path.write_bytes(left)
    assert list(Journal(path).entries(is_last=False)) == entries, "so it is where another journal followed"
    for size in range(starts[2] + 16, len(whole.rstrip(b"\0"))):  # torn in the content of the last
        path.write_bytes(whole[:size] + bytes(len(left) - size))
        assert list(Journal(path).entries()) == entries[:2]
        assert path.read_bytes() == whole[: starts[2]]
    journal.close()


def test_a_disk_without_room_ahead_is_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    path = tmp_path / "journal"
    entries, whole, _ = three(path)
    journal = filled(path, entries)
    assert path.read_bytes() == whole and list(journal.entries()) == entries


def test_a_disk_that_takes_a_little_at_a_time_gets_all(tmp_path: Path) -> None:
    class Slow(FileIO):
        def write(self, data: Any) -> int:
            return super().write(memoryview(data)[:5])

    entries = [Entry(1.0, [Arrived(1, b"one line")]), Entry(2.0, [])]
    journal = Journal(tmp_path / "journal")
    journal._file = Slow(journal.path, "w")
    for entry in entries:
        journal.add(entry)
    journal.close()
    assert list(journal.entries()) == entries


def test_no_journal_holds_nothing(tmp_path: Path) -> None:
    assert list(Journal(tmp_path / "journal").entries()) == []
