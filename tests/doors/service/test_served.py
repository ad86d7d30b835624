"""One served model: what it answers, and that a crash changes nothing of it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.doors.made import Trained
from tests.doors.service.serviced import batches, crashed, opened, rows_of, taken, told, without

from kvec.decide.deployed import load_deployed
from kvec.decide.operating import OperatingPoint
from kvec.decide.stream import Stream
from kvec.doors.service import answered
from kvec.doors.service.asking import Ask, Settled
from kvec.doors.service.bodies import JSON, Row
from kvec.doors.service.bodies import rows_of as read_rows
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.decision_log import DecisionLog
from kvec.doors.service.intake import items_of
from kvec.doors.service.problems import Refusal
from kvec.doors.service.served import Served
from kvec.doors.service.versions import Version
from kvec.read.arriving import RowReader
from kvec.words.errors import ModelError, SettingError
from kvec.words.schema import Field, Outcome, Schema


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
    rows += [{**good, "key": ""}]
    (settled,) = taken(served, rows)
    answer = orjson.loads(settled.body)
    assert answer["taken"] == 1
    assert [one["row"] for one in answer["refused"]] == [1, 2, 3, 4, 5, 6]
    assert "column 'key': is empty or not there" in answer["refused"][5]["detail"]
    assert "'soon' is no time" in answer["refused"][0]["detail"]
    assert "more than 8 characters" in answer["refused"][2]["detail"]
    with pytest.raises(Refusal, match="not UTF-8 text: byte 9"):
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


def test_the_same_key_again_takes_nothing(lively: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(lively, 600)
    served = opened(lively, bounds=Bounds(keep_ids=2))
    first, again, _ = taken(served, rows[:300], rows[:300], rows[300:], keys=["a", "a", "b"])
    assert first.body == again.body
    assert served.stream.counters.items == 600
    assert taken(served, rows[:300], keys=["a"])[0].body == first.body
    taken(served, [], keys=["c"])
    assert taken(served, rows[:300], keys=["a"])[0].body == first.body, "it is young"
    monkeypatch.setattr(answered, "YOUNG", 0.0)
    taken(served, [], keys=["d"])  # the oldest make room
    assert orjson.loads(taken(served, rows[:300], keys=["a"])[0].body)["taken"] == 300
    assert served.stream.counters.items == 900


def test_new_keys_are_refused_rather_than_young_ones_forgotten(lively: Trained) -> None:
    served = opened(lively, bounds=Bounds(keep_ids=1))
    for n in range(answered.MOST):
        taken(served, [], keys=[f"k{n}"])
    with pytest.raises(Refusal) as refused:
        taken(served, rows_of(lively, 3), keys=["one more"])
    assert refused.value.status == 429 and "Retry-After" in refused.value.headers
    assert served.stream.counters.items == 0
    assert taken(served, rows_of(lively, 3), keys=["k0"])[0].answer.taken == 0, "known ones are answered"
    assert taken(served, rows_of(lively, 3))[0].answer.taken == 3, "and what has no key is taken"


def test_keys_grow_old_by_a_clock_that_is_never_set() -> None:
    now = 0.0
    kept = answered.Answered(2, lambda: now)
    for n in range(20):
        kept.add(f"k{n}", answered.Answer(n, 0, 0))
    assert kept.is_full() and "k0" in kept
    now = answered.YOUNG
    again = answered.Answered(2, lambda: 1e6 + now)  # another machine's clock, or the same after it was started anew
    again.restore(kept.to_plain())
    assert again.is_full() and again["k0"].taken == 0
    now += 1.0
    assert not kept.is_full() and not again.is_full()
    assert "k17" not in kept and "k18" in kept and "k17" not in again and "k18" in again


def test_rows_behind_an_outcome_are_taken_and_their_names_are_bounded() -> None:
    schema = Schema(key=("k",), values=(Field("x"),), outcome=Outcome("what", ("paid",)))
    reader = RowReader(schema)
    rows = [Row(0, {"k": "a", "what": "paid"}), Row(1, {"k": "b" * 9, "what": "paid"}), Row(2, {"k": "c", "x": 1})]
    items, refused = items_of(rows, reader, 8)
    assert [number for number, _ in items] == [2] and [one["row"] for one in refused] == [1]
    assert list(reader.cut) == [(0, "a")]


def test_each_older_model_has_its_own_deadline(lively: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    served = opened(lively)
    rows = rows_of(lively)
    start = time.time()
    for n, part in enumerate(batches(rows, len(rows) // 3)[:3]):
        monkeypatch.setattr(time, "time", lambda n=n: start + 60.0 * n)
        taken(served, [{**row, "tangle": f"{n} {row['tangle']}"} for row in part])
        if n < 2:
            served.take_over(served.version.at(OperatingPoint(0.9 - n / 10)), is_turned=True)
    assert served.counts()["models"] == 3
    for seconds, n_models in ((599.0, 3), (601.0, 2), (659.0, 2), (661.0, 1)):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: start + seconds)
        served.tick()
        assert served.counts()["models"] == n_models, seconds


def test_models_that_have_nothing_left_do_not_lengthen_the_deadline_of_older_ones(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = opened(lively, tmp_path / "kept")
    start = time.time()
    taken(served, rows_of(lively, 400))
    for n in range(4):
        monkeypatch.setattr(time, "time", lambda n=n: start + 60.0 * n)
        served.take_over(served.version.at(OperatingPoint(0.9 - n / 100)), is_turned=True)
    assert served.counts()["models"] == 2 and served.counts()["waiting"] > 0
    crashed(served)
    again = opened(lively, tmp_path / "kept")
    for seconds, n_models in ((599.0, 2), (601.0, 1)):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: start + seconds)
        again.tick()
        assert again.counts()["models"] == n_models, seconds
    assert again.counts()["waiting"] == 0
    again.close()


def test_decisions_and_their_numbers_are_read_at_once(lively: Trained) -> None:
    log = DecisionLog(4, None)
    log.add([b"%d" % n for n in range(1, 13)])
    assert log.since(10) == (11, [b"11", b"12"])
    assert log.since(2) == (9, [b"9", b"10", b"11", b"12"]), "what is gone shows in the number"
    assert log.since(12) == (13, [])


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
    served._deadlines.restore(served.stream.older, [0.0])
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


def test_the_trade_off_is_worked_out_once_however_often_the_dial_is_turned(lively: Trained) -> None:
    version = Version.read(Path(lively.model))
    turned = version.aimed({"threshold": 0.123}).at(OperatingPoint(0.2))
    assert turned.curve is version.curve and turned.held is version.held
    assert turned.card("m")["curve"] == version.card("m")["curve"] != []


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
    told_labels = [{**named, "label": decision["label"]}, {**named, "label": ""}, {"key": 1.5, "label": "web"}]
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
