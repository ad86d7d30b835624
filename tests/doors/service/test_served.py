"""One served model: what it answers, and that a crash changes nothing of it."""

from __future__ import annotations

import errno
import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE
from tests.doors.service.serviced import batches, opened, rows_of, taken, told, without

from kvec.decide.deployed import load_deployed
from kvec.decide.promise import Promise
from kvec.decide.snapshot import write_state
from kvec.decide.stream import MOST_ENGINES, Stream
from kvec.doors.service.asking import Ask, Settled
from kvec.doors.service.bodies import JSON
from kvec.doors.service.bodies import rows_of as read_rows
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.label_store import FILE, labelled_items
from kvec.doors.service.problems import Refusal
from kvec.doors.service.served import Served
from kvec.doors.service.versions import Version
from kvec.read.arriving import RowReader
from kvec.words.errors import ModelError, SettingError


def crashed(served: Served) -> None:
    """Let a served model go as a kill would: nothing more is written."""
    assert served._keeper is not None
    served._release()


def fed(trained: Trained, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The decisions of a plain stream."""
    model = load_deployed(trained.model)
    reader = RowReader(model.schema)
    items = [item for row in rows if (item := reader.item(row)) is not None]
    return [(d.id, d.label, d.n_observed, d.reason.value) for d in Stream(model).feed_many(items)]


def brief(decisions: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(d["id"], d["label"], d["n_observed"], d["reason"]) for d in decisions]


def test_decisions_are_those_of_a_stream_and_each_is_told_to_the_request_that_settled_it(lively: Trained) -> None:
    rows = rows_of(lively, 1500)
    served = opened(lively)
    found = []
    for some in batches(batches(rows, 100), 4):
        for settled in taken(served, *some):
            assert orjson.loads(settled.body)["taken"] == 100
            found += orjson.loads(settled.body)["decisions"]
    assert brief(found) == fed(lively, rows)
    assert [one["n"] for one in found] == list(range(1, len(found) + 1))
    assert found == told(served)
    assert all(one["model"] == "default" and abs(one["at"] - time.time()) < 600 for one in found)


def test_rows_that_cannot_be_used_are_named_and_the_others_taken(lively: Trained) -> None:
    served = opened(lively, bounds=Bounds(max_text=8))
    good = {"tangle": 1, "key": "a", "time": 1.0, "size": 52, "direction": 1}
    rows = [good, {**good, "time": "soon"}, 7, {**good, "key": "x" * 9}, {**good, "key": None}, {**good, "key": ["a"]}]
    (settled,) = taken(served, rows)
    answer = orjson.loads(settled.body)
    assert answer["taken"] == 1
    assert [one["row"] for one in answer["refused"]] == [1, 2, 3, 4, 5]
    assert "'soon' is no time" in answer["refused"][0]["detail"]
    assert "more than 8 characters" in answer["refused"][2]["detail"]
    with pytest.raises(Refusal, match="not JSON"):
        served_body(served, b'{"key": \xff}')
    with pytest.raises(Refusal, match="neither an item"):
        taken(served, "text")


def served_body(served: Served, body: bytes) -> Settled:
    answers: list[Any] = []
    served.take([Ask(body, JSON, "", answers.append)])
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


@pytest.mark.parametrize("saves", [False, True])
def test_after_a_crash_the_same_decisions_have_the_same_numbers(lively: Trained, tmp_path: Path, saves: bool) -> None:
    rows = rows_of(lively, 1500)
    parts = batches(rows, 50)
    whole = opened(lively)
    for i, part in enumerate(parts):
        taken(whole, part, keys=[f"k{i}"])

    served = opened(lively, tmp_path / "kept")
    answers = []
    for i, part in enumerate(parts):
        if i in (7, 20, 21):
            crashed(served)
            served = opened(lively, tmp_path / "kept")
        if saves and i in (5, 19):
            served.save()
        answers += taken(served, part, keys=[f"k{i}"])
    assert without(told(served), "at") == without(told(whole), "at")
    before = told(served)
    crashed(served)

    served = opened(lively, tmp_path / "kept")
    assert told(served) == before  # the time at which each fell, too
    for i, (part, answer) in enumerate(zip(parts, answers, strict=True)):
        (again,) = taken(served, part, keys=[f"k{i}"])
        assert again.body == answer.body
    assert told(served) == before
    served.close()
    lines = [line for file in sorted((tmp_path / "kept").glob("decisions.*")) for line in file.read_text().splitlines()]
    assert [json.loads(line)["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert [json.loads(line) for line in lines] == before


def test_the_same_key_again_takes_nothing(lively: Trained) -> None:
    rows = rows_of(lively, 600)
    served = opened(lively, bounds=Bounds(keep_ids=2))
    first, again, _ = taken(served, rows[:300], rows[:300], rows[300:], keys=["a", "a", "b"])
    assert first.body == again.body
    assert served.stream.counters.items == 600
    assert taken(served, rows[:300], keys=["a"])[0].body == first.body
    taken(served, [], keys=["c"])  # the oldest makes room
    assert orjson.loads(taken(served, rows[:300], keys=["a"])[0].body)["taken"] == 300
    assert served.stream.counters.items == 900


def test_the_log_is_bounded_on_the_disk_too(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept", Bounds(keep_decisions=8))
    for part in batches(rows_of(lively), 40):
        taken(served, part)
        served.save()
    n = served.log.newest
    assert n > 30
    assert 8 <= n - served.log.oldest + 1 <= 10
    kept = sum(len(file.read_text().splitlines()) for file in (tmp_path / "kept").glob("decisions.*"))
    assert kept <= 16
    served.close()
    again = opened(lively, tmp_path / "kept", Bounds(keep_decisions=8))
    assert again.log.newest == n
    assert told(again)[-1]["n"] == n
    again.close()


def test_a_newer_model_takes_over_and_the_older_one_has_a_deadline(
    lively: Trained, trained: Trained, tmp_path: Path
) -> None:
    rows = rows_of(lively, 1500)
    served = opened(lively, tmp_path / "kept")
    taken(served, rows[:700])
    n_waiting = served.counts()["waiting"]
    assert n_waiting > 0
    served.take_over(Version.read(Path(trained.model)))  # at another threshold
    assert served.stream.threshold != load_deployed(lively.model).threshold
    served._until = 0.0
    served.save()
    newest = served.log.newest
    served.tick()
    assert served.counts()["models"] == 1
    evicted = [one for one in told(served)[newest:] if one["reason"] == "evicted"]
    assert len(evicted) == served.log.newest - newest
    taken(served, rows[700:])
    before = told(served)
    crashed(served)
    again = opened(lively, tmp_path / "kept")  # the command line names the first model again
    assert told(again)[: len(before)] == before
    again.close()


def test_a_dial_that_was_turned_stays_turned(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept")
    taken(served, rows_of(lively, 200))
    served.take_over(served.version.aimed({"threshold": 0.123}), is_turned=True)
    assert served.stream.threshold == 0.123
    taken(served, rows_of(lively, 100))
    crashed(served)
    again = opened(lively, tmp_path / "kept")
    assert again.stream.threshold == again.version.point.threshold == 0.123
    again.close()


def test_a_model_of_other_items_is_refused(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively)
    other = tmp_path / "model"
    shutil.copytree(lively.model, other)
    card = json.loads((other / "kvec.json").read_text())
    card["schema"]["key"] = ["other"]
    (other / "kvec.json").write_text(json.dumps(card))
    with pytest.raises(ModelError, match="reads other items"):
        served.take_over(Version.read(other))


def test_a_state_of_a_stream_is_not_taken_for_one_of_a_service(lively: Trained, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "stream.state").write_bytes(b"")
    with pytest.raises(SettingError, match="kvec stream"):
        opened(lively, tmp_path / "kept" / "default")


def test_other_limits_than_the_states_are_refused(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept")
    taken(served, rows_of(lively, 10))
    served.close()
    with pytest.raises(SettingError, match="--expiry is 5"):
        opened(lively, tmp_path / "kept", expiry=5.0)


def test_ticks_are_journalled_where_they_matter(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept", idle=0.05)
    taken(served, rows_of(lively, 50))
    n = served.log.newest
    time.sleep(0.1)
    served.tick()
    before = told(served)
    assert len(before) > n and before[-1]["reason"] == "expired"
    crashed(served)
    again = opened(lively, tmp_path / "kept", idle=0.05)
    assert told(again) == before
    again.close()


def test_keys_are_found_by_text_and_labels_are_counted_once(lively: Trained, tmp_path: Path) -> None:
    rows = rows_of(lively, 1500)
    served = opened(lively, tmp_path / "kept")
    taken(served, rows)
    decision = told(served)[-1]
    _, trace = served.about(str(decision["tangle"]), str(decision["key"]))
    assert trace is not None and trace.decision is not None and trace.decision.label == decision["label"]
    assert trace.traced()[decision["n_observed"] - 1].halt >= served.stream.threshold or decision["reason"] != "halted"
    named = {"tangle": str(decision["tangle"]), "key": decision["key"]}
    told_labels = [{**named, "label": decision["label"]}, {**named, "label": "nonsense"}, {"key": 1.5, "label": "web"}]
    body = orjson.dumps(told_labels)
    for _ in range(2):
        answer = served.label(read_rows(body, JSON, Bounds()))
        assert (answer["taken"], answer["decided"], answer["accuracy"]) == (1, 1, 1.0)
        assert [one["row"] for one in answer["refused"]] == [1, 2]
    assert served.truths.n_labelled == 1
    crashed(served)
    again = opened(lively, tmp_path / "kept")
    assert again.truths.n_labelled == 1 and again.truths.accuracy == 1.0
    again.close()


# -- failures, and what is kept -------------------------------------------------------------------------------------


def kept_files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.startswith(FILE)}


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
    served._until = 0.0
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


# -- labels ---------------------------------------------------------------------------------------------------------


def labelled(served: Served, *rows: dict[str, Any]) -> dict[str, Any]:
    return served.label(read_rows(orjson.dumps(rows), JSON, Bounds()))


def test_a_label_that_comes_again_keeps_what_is_known(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept")
    taken(served, rows_of(lively, 1500))
    decision = told(served)[-1]
    label = {"tangle": decision["tangle"], "key": decision["key"], "label": decision["label"]}
    labelled(served, label)
    path = tmp_path / "kept" / FILE
    before = labelled_items(path)
    assert before.height > 0
    served.close()
    again = opened(lively, tmp_path / "kept")
    other = next(name for name in ("web", "chat") if name != decision["label"])
    labelled(again, {**label, "label": other})
    after = labelled_items(path)
    assert after.drop("label").equals(before.drop("label")) and after["label"].unique().to_list() == [other]
    assert [one[2] for one in again.truths._store.since(0)] == [other]  # type: ignore[union-attr]
    again.close()


def test_a_label_that_comes_first_gets_all_items(lively: Trained, tmp_path: Path) -> None:
    item = {"tangle": "t", "time": 1.0, "size": 52, "direction": 1}
    served = opened(lively, tmp_path / "kept", expiry=10.0)
    taken(served, [{**item, "key": key, "time": time} for key in "ab" for time in (1.0, 2.0)])
    labelled(served, {"tangle": "t", "key": "a", "label": "web"})
    taken(served, [{**item, "key": "a", "time": 3.0}])
    taken(served, [{**item, "key": "c", "time": 50.0}])  # the others are over
    table = labelled_items(tmp_path / "kept" / FILE)
    assert table["key"].to_list() == ["a"] * 3 and table["time"].to_list() == [1.0, 2.0, 3.0]
    served.close()


def test_labels_are_bounded_as_items_are(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept", Bounds(max_text=8))
    good = {"tangle": 1, "key": "a", "label": "web"}
    rows = (
        {**good, "key": "x" * 9},
        {**good, "sequence": 2**63},
        {**good, "sequence": -1},
        {**good, "sequence": 2**62},
    )
    answer = labelled(served, *rows)
    assert answer["taken"] == 1 and [one["row"] for one in answer["refused"]] == [0, 1, 2]
    served.close()
