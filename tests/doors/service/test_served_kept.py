"""What a served model keeps: failures, snapshots, and models that take over."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE
from tests.doors.service.serviced import batches, crashed, opened, rows_of, taken, told, without

from kvec.decide.promise import Promise
from kvec.decide.snapshot import write_state
from kvec.decide.stream import MOST_ENGINES
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.label_store import FILE
from kvec.doors.service.problems import Refusal
from kvec.doors.service.versions import Version


def kept_files(folder: Path) -> dict[str, bytes]:
    """What is kept; journals without the room ahead that an open one has."""
    files = [file for file in folder.iterdir() if not file.name.startswith(FILE)]
    return {file.name: file.read_bytes().rstrip(b"\0" if file.name.startswith("journal") else b"") for file in files}


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_after_a_failure_nothing_is_saved_and_a_new_start_goes_on(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = batches(rows_of(lively, 1500), 300)
    whole = opened(lively)
    for part in parts:
        taken(whole, part)
    served = opened(lively, tmp_path / "kept")
    taken(served, parts[0])
    with monkeypatch.context() as broken:
        broken.setattr("kvec.doors.outlets.Outlet.write_bytes", full)
        with pytest.raises(Refusal, match="nothing is taken any more"):
            taken(served, parts[1])
    before = kept_files(tmp_path / "kept")
    with pytest.raises(Refusal, match="nothing is taken any more"):
        served.take_over(served.version.aimed({"threshold": 0.123}), is_turned=True)
    with pytest.raises(Refusal, match="nothing is taken any more"):
        served.label([])
    served.close()  # the disk has room again, and someone stops the service
    assert kept_files(tmp_path / "kept") == before
    assert capsys.readouterr().err.count("start the service again") == 1
    again = opened(lively, tmp_path / "kept")
    for part in parts[2:]:
        taken(again, part)
    assert without(told(again), "at") == without(told(whole), "at")
    again.close()


def test_a_take_over_that_cannot_be_kept_is_a_failure(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = opened(lively, tmp_path / "kept")
    taken(served, rows_of(lively, 700))
    threshold = served.stream.threshold
    with monkeypatch.context() as broken:
        broken.setattr("kvec.decide.snapshot.os.fsync", full)
        with pytest.raises(Refusal, match="No space left"):
            served.take_over(served.version.aimed({"threshold": 0.123}), is_turned=True)
    with pytest.raises(Refusal, match="nothing is taken any more"):
        taken(served, rows_of(lively, 10))
    served.close()
    again = opened(lively, tmp_path / "kept")
    assert again.stream.threshold == threshold
    again.close()


def test_old_decisions_go_when_the_snapshot_that_needs_them_no_more_is_there(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = Bounds(keep_decisions=8)
    served = opened(lively, tmp_path / "kept", bounds)
    parts = batches(rows_of(lively), 40)
    for part in parts[:10]:
        taken(served, part)
        served.save()
    for part in parts[10:]:
        taken(served, part)
    before = told(served)
    with monkeypatch.context() as killed:
        killed.setattr("kvec.doors.keeping.write_state", full)
        with pytest.raises(OSError, match="No space"):
            served.save()
    crashed(served)
    again = opened(lively, tmp_path / "kept", bounds)
    assert told(again)[-8:] == before[-8:]
    again.close()


def test_a_key_that_makes_room_in_the_same_batch_is_answered(lively: Trained) -> None:
    rows = rows_of(lively, 300)
    served = opened(lively, bounds=Bounds(keep_ids=2))
    first, other = taken(served, rows[:100], rows[100:200], keys=["a", "b"])
    bodies = (rows[200:], [], rows[:100], [], rows[200:])
    new, _, again, _, twice = taken(served, *bodies, keys=["c", "d", "a", "e", "c"])
    assert again.body == first.body and twice.body == new.body and other.answer.taken == 100
    assert served.stream.counters.items == 300 and not served.health.failure


def test_what_older_models_give_up_is_the_same_after_a_crash(lively: Trained, tmp_path: Path) -> None:
    rows = rows_of(lively, 1500)
    served = opened(lively, tmp_path / "kept")
    taken(served, rows[:700])
    served.take_over(served.version.aimed({"threshold": 0.99}), is_turned=True)
    served._deadlines.restore(served.stream.older, [0.0])
    served.save()  # the deadline of a state that someone saved
    taken(served, rows[700:800])
    served.tick()
    assert served.stream.n_models == 1 and told(served)[-1]["reason"] == "evicted"
    before = told(served)
    crashed(served)
    again = opened(lively, tmp_path / "kept")
    assert told(again) == before and again.stream.n_models == 1
    again.close()


def test_many_take_overs_in_a_row_lose_nothing(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(lively)
    served = opened(lively, tmp_path / "kept")
    for i in range(4):
        taken(served, rows[i * 250 : (i + 1) * 250])
        served.take_over(served.version.aimed({"threshold": 0.99 - i / 100}), is_turned=True)
    assert served.stream.n_models == MOST_ENGINES
    n = served.log.newest
    with monkeypatch.context() as killed:
        killed.setattr("kvec.doors.keeping.write_state", full)
        with pytest.raises(Refusal):
            served.take_over(served.version.aimed({"threshold": 0.5}), is_turned=True)
    assert served.log.newest > n and told(served)[-1]["reason"] == "evicted"
    before = told(served)
    crashed(served)
    again = opened(lively, tmp_path / "kept")
    assert told(again) == before
    again.close()


def test_a_snapshot_is_written_while_the_stream_goes_on(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = batches(rows_of(lively, 1200), 200)
    served = opened(lively, tmp_path / "kept")
    taken(served, parts[0], keys=["first"])
    served.save()
    taken(served, parts[1])
    release = threading.Event()

    def slowly(*given: Any) -> None:
        assert release.wait(PATIENCE)
        write_state(*given)

    monkeypatch.setattr("kvec.doors.keeping.write_state", slowly)
    served.save(waits=False)
    taken(served, parts[2])
    served._saved -= 1000
    served.tick()  # one at a time
    before = told(served)
    journals = sorted(file.name for file in (tmp_path / "kept").glob("journal.*"))
    assert len(journals) == 2
    shutil.copytree(tmp_path / "kept", tmp_path / "killed")  # as the disk is while it is being written
    release.set()
    served._keeper.settle(waits=True)  # type: ignore[union-attr]
    assert sorted(file.name for file in (tmp_path / "kept").glob("journal.*")) == journals[1:]
    shutil.copytree(tmp_path / "kept", tmp_path / "written")
    for folder in ("killed", "written"):
        again = opened(lively, tmp_path / folder)
        assert told(again) == before
        assert again.stream.counters == served.stream.counters and again.stream.reasons == served.stream.reasons
        again.close()
    taken(served, parts[3])
    served.save(waits=False)
    taken(served, parts[4])
    before = told(served)
    served.close()
    again = opened(lively, tmp_path / "kept")
    assert told(again) == before
    again.close()


def test_a_snapshot_that_cannot_be_written_is_a_failure_and_loses_nothing(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = opened(lively, tmp_path / "kept")
    taken(served, rows_of(lively, 700))
    with monkeypatch.context() as broken:
        broken.setattr("kvec.doors.keeping.write_state", full)
        served.save(waits=False)
        taken(served, rows_of(lively, 50))
        served._keeper._writer.submit(int).result()  # type: ignore[union-attr]
    with pytest.raises(Refusal, match="nothing is taken any more"):
        served.tick()
    before = told(served)
    served.close()
    again = opened(lively, tmp_path / "kept")
    assert told(again) == before and again.stream.counters.items == 750
    again.close()


def test_what_was_taken_under_other_bounds_is_taken_again(lively: Trained, tmp_path: Path) -> None:
    rows = [{**row, "tangle": f"a long name {row['tangle']}"} for row in rows_of(lively, 60)]
    served = opened(lively, tmp_path / "kept", Bounds(max_text=100))
    taken(served, [*rows, {**rows[0], "key": "x" * 101}])
    crashed(served)
    again = opened(lively, tmp_path / "kept", Bounds(max_items=10, max_text=5))
    assert again.stream.counters.items == 60
    (settled,) = taken(again, rows[:3])
    assert settled.answer.taken == 0
    crashed(again)
    last = opened(lively, tmp_path / "kept", Bounds(max_text=100))  # rows that were refused stay so
    assert last.stream.counters.items == 60
    last.close()


def test_a_folder_that_was_tuned_or_promised_since_is_another_model(lively: Trained, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(lively.model, model)
    first = Version.read(model)
    card = json.loads((model / "kvec.json").read_text())
    card["operating_point"]["threshold"] = 0.123
    (model / "kvec.json").write_text(json.dumps(card))
    tuned = Version.read(model)
    served = opened(lively)
    assert served.is_started_with(first) and not served.is_started_with(tuned)
    served.take_over(tuned)
    assert served.is_started_with(tuned)
    served.take_over(tuned.aimed({"threshold": 0.5}), is_turned=True)
    assert served.is_started_with(tuned)
    promise = Promise(
        "error", "label", 0.1, 0.9, "exact", {"threshold": 0.123}, 1, 1, 1, 1, 1, 0.0, 0.1, 0.5, None, "none",
    )  # fmt: skip
    promised = replace(tuned, base=replace(tuned.base, promise=promise))
    assert not served.is_started_with(promised)
    assert promised.mark == json.loads(json.dumps(promised.mark))
