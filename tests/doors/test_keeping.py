"""The folder of a state."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.doors.made import Trained

from kvec.decide.deployed import load_deployed
from kvec.decide.snapshot import write_state
from kvec.decide.stream import Stream
from kvec.doors.journal import Entry
from kvec.doors.keeping import SNAPSHOT, Keeper, Leisure
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import ModelError, SettingError


def test_a_folder_is_kept_by_one_process(tmp_path: Path) -> None:
    first = Keeper(tmp_path / "new" / "kept")
    assert first.resume() is None
    with pytest.raises(SettingError, match="another process keeps its state here"):
        Keeper(tmp_path / "new" / "kept")
    first.close()
    Keeper(tmp_path / "new" / "kept").close()


def test_journals_change_with_snapshots(lively: Trained, tmp_path: Path) -> None:
    stream = Stream(load_deployed(lively.model))
    keeper = Keeper(tmp_path)
    keeper.save(stream, {"place": 1})
    keeper.journal.add(Entry(1.0, [Arrived(1, b"one")]))
    keeper.close()
    (tmp_path / "journal.000000").write_bytes(b"left over from a crash while it was being removed")
    (tmp_path / f".{SNAPSHOT}.4711").write_bytes(b"left over from a crash while it was being written")
    keeper = Keeper(tmp_path)
    resumed = keeper.resume()
    assert resumed is not None and resumed.note["place"] == 1
    assert [entry.arrived[0].content for entry in keeper.journal.entries()] == [b"one"]
    keeper.save(stream, {"place": 2})
    assert list(keeper.journal.entries()) == []
    keeper.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lock", SNAPSHOT]


def test_what_is_no_state_is_refused(lively: Trained, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="cannot keep a state here"):
        Keeper(tmp_path / "file")
    Stream(load_deployed(lively.model)).save(tmp_path / SNAPSHOT)
    keeper = Keeper(tmp_path)
    with pytest.raises(ModelError, match="was not written by kvec stream"):
        keeper.resume()
    keeper.close()


def test_a_folder_that_was_begun_and_never_saved_in_is_taken_again(tmp_path: Path) -> None:
    first = Keeper(tmp_path / "kept")
    first.close()
    (tmp_path / "kept" / "decisions.ndjson").write_text("")
    again = Keeper(tmp_path / "kept")
    assert not again.has_snapshot and again.resume() is None
    again.close()
    (tmp_path / "kept" / "lock").unlink()
    with pytest.raises(SettingError, match=r"kept: holds other things, such as decisions\.ndjson, and no state"):
        Keeper(tmp_path / "kept")


def test_a_copy_is_written_at_leisure_until_somebody_waits(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(load_deployed(lively.model))
    monkeypatch.setattr("kvec.doors.keeping.SHARE", 1e-9)  # it would take hours
    monkeypatch.setattr("kvec.doors.keeping.SPELL", 0.0)
    keeper = Keeper(tmp_path / "kept")
    for place in (1, 2):
        keeper.save_apart(stream, {"place": place})
        time.sleep(0.05)
        keeper.settle()
        assert keeper.is_saving
        keeper.settle(waits=True)
        assert not keeper.is_saving
    keeper.save_apart(stream, {"place": 3})
    keeper.close()
    keeper = Keeper(tmp_path / "kept")
    resumed = keeper.resume()
    assert resumed is not None and resumed.note["place"] == 3
    keeper.close()


def test_leisure_is_a_share_of_the_time() -> None:
    rest, began = Leisure(threading.Event()), time.monotonic()
    while time.thread_time() - rest._since < 0.02:
        pass
    rest()
    assert time.monotonic() - began >= 0.2


def test_while_a_snapshot_is_being_written_the_one_before_and_all_journals_stand(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def slowly(*given: Any) -> None:
        assert release.wait(60)
        write_state(*given)

    stream = Stream(load_deployed(lively.model))
    keeper = Keeper(tmp_path / "kept")
    keeper.save(stream, {"place": 1})
    keeper.journal.add(Entry(1.0, [Arrived(1, b"one")]))
    monkeypatch.setattr("kvec.doors.keeping.write_state", slowly)
    keeper.save_apart(stream, {"place": 2})
    assert keeper.is_saving
    keeper.settle()  # waits for nothing
    keeper.journal.add(Entry(2.0, [Arrived(2, b"two")]))
    shutil.copytree(tmp_path / "kept", tmp_path / "killed")
    release.set()
    keeper.settle(waits=True)
    assert not keeper.is_saving
    keeper.close()

    for folder, place, rows in (("killed", 1, [b"one", b"two", b"three"]), ("kept", 2, [b"two", b"three"])):
        keeper = Keeper(tmp_path / folder)
        resumed = keeper.resume()
        assert resumed is not None and resumed.note["place"] == place
        keeper.journal.add(Entry(3.0, [Arrived(3, b"three")]))
        assert [entry.arrived[0].content for entry in keeper.entries()] == rows
        keeper.close()

    older, newer = sorted((tmp_path / "killed").glob("journal.*"))
    newer.write_bytes(newer.read_bytes()[:-20])
    keeper = Keeper(tmp_path / "killed")
    keeper.resume()
    assert [entry.arrived[0].content for entry in keeper.entries()] == [b"one", b"two"]  # torn, and never counted
    keeper.close()
    older.write_bytes(older.read_bytes()[:-20])
    keeper = Keeper(tmp_path / "killed")
    keeper.resume()
    with pytest.raises(ModelError, match=r"journal\.000001 is damaged"):
        list(keeper.entries())
    keeper.close()


def test_journals_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    for number in (1_000_000, 999_999):
        (tmp_path / f"journal.{number}").touch()
    assert [path.name for path in keeper._journals()] == ["journal.999999", "journal.1000000"]
    keeper.close()
