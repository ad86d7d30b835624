"""What a stream took since its snapshot, whole after any crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvec.doors.journal import Entry, Journal
from kvec.read.arriving_lines import Arrived
from kvec.words.errors import ModelError

ROWS = st.lists(
    st.builds(
        Arrived, st.integers(1, 2**40), st.binary(max_size=20), st.just(0), st.sampled_from(["", "edge", "ü"]),
        st.sampled_from(["", "is too long"]),
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


def test_a_torn_last_entry_is_cut_off_wherever_it_is_torn(tmp_path: Path) -> None:
    entries = [Entry(float(i), [Arrived(i, b"line %d" % i)]) for i in range(1, 4)]
    path = tmp_path / "journal"
    whole = filled(path, entries).path.read_bytes()
    two = filled(path, entries[:2]).path.read_bytes()
    for size in range(len(two), len(whole)):
        path.write_bytes(whole[:size])
        journal = Journal(path)
        assert list(journal.entries()) == entries[:2]
        assert path.read_bytes() == two
        journal.add(entries[2])
        journal.close()
        assert list(journal.entries()) == entries, "it is gone on with behind the cut"
    for torn in (whole[:-3] + b"xyz", two + bytes(len(whole) - len(two))):  # blocks that never reached the disk
        path.write_bytes(torn)
        assert list(Journal(path).entries()) == entries[:2]


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    content = bytearray(filled(path, [Entry(1.0, [Arrived(1, b"one")]), Entry(2.0, [])]).path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is damaged at byte 0"):
        list(Journal(path).entries())
    assert path.read_bytes() == content, "nothing was cut away"


def test_no_journal_holds_nothing(tmp_path: Path) -> None:
    assert list(Journal(tmp_path / "journal").entries()) == []
