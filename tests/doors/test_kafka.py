"""A topic as a source, against the broker that librdkafka brings for tests."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.made import Trained
from tests.doors.streamed import assert_same, decided, streamed, written

from kvec.doors import running
from kvec.doors.cli import run
from kvec.doors.kafka import KafkaTopic
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import DataError, MissingExtra, SettingError

kafka = pytest.importorskip("confluent_kafka")


class Broker:
    """A broker in this process, and who writes to it."""

    def __init__(self) -> None:
        self.producer = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
        (found,) = self.producer.list_topics(timeout=10).brokers.values()
        self.address = f"{found.host}:{found.port}"

    def send(self, topic: str, *values: bytes | None, partition: int = 0) -> None:
        for value in values:
            self.producer.produce(topic, value, partition=partition)
        assert self.producer.flush(10) == 0

    def topic(self, name: str, query: str = "") -> str:
        return f"kafka://{self.address}/{name}{query}"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.producer.flush(1)


def read(source: KafkaTopic, n: int) -> list[Arrived]:
    found: list[Arrived] = []
    until = time.monotonic() + 10
    while len(found) < n and time.monotonic() < until:
        found += source.read(100, 0.05) or []
    assert len(found) == n
    return found


def test_messages_are_rows_and_offsets_go_on(broker: Broker) -> None:
    broker.send("items", b'{"n": 1}', b"", b'{"n": 3}')
    broker.send("items", b'{"n": 4}', partition=1)
    source = KafkaTopic(broker.topic("items", "?group=g1"))
    source.start({})
    arrived = read(source, 4)
    by_partition = {one.origin: one for one in arrived}
    assert by_partition["1"].content == b'{"n": 4}'
    assert source.place(by_partition["1"]) == "items, partition 1, offset 0"
    first = [one for one in arrived if one.origin == "0"]
    assert [one.number for one in first] == [0, 1, 2]
    assert source.cells(first[0]) == {"n": 1}
    with pytest.raises(DataError, match="the message is empty"):
        source.cells(first[1])
    source.take([first[0]])
    position = json.loads(json.dumps(source.position()))
    assert position == {"topic": "items", "offsets": {"0": 1}}
    source.close()
    again = KafkaTopic(broker.topic("items", "?group=g1"))
    again.start(position)
    assert sorted((one.origin, one.number) for one in read(again, 3)) == [("0", 1), ("0", 2), ("1", 0)]
    again.close()


def test_the_group_is_told_and_asked(broker: Broker) -> None:
    broker.send("grouped", *(b'{"n": %d}' % n for n in range(4)))
    source = KafkaTopic(broker.topic("grouped", "?group=g2"))
    source.start({})
    source.take(read(source, 4)[:3])
    source.saved()
    source.close()
    again = KafkaTopic(broker.topic("grouped", "?group=g2"))
    again.start({})
    assert [one.number for one in read(again, 1)] == [3]
    again.close()
    late = KafkaTopic(broker.topic("grouped", "?group=g3&from=latest"))
    late.start({})
    assert late.read(10, 0.3) == []
    late.close()


def test_what_cannot_be_read_is_refused(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="write kafka://broker:9092/topic"):
        KafkaTopic("kafka://broker:9092")
    with pytest.raises(SettingError, match="from is 'soon'; it can be earliest or latest"):
        KafkaTopic(broker.topic("items", "?from=soon"))
    with pytest.raises(SettingError, match=r"^none: cannot be read: No such file or directory; config=FILE"):
        KafkaTopic(broker.topic("items", "?config=none"))
    with pytest.raises(DataError, match="No such configuration property"):
        KafkaTopic(broker.topic("items", "?no.such=1")).start({})
    with pytest.raises(DataError, match="the state stopped in topic other"):
        KafkaTopic(broker.topic("items")).start({"topic": "other"})
    (tmp_path / "kafka.properties").write_text("# for tests\nclient.id = kvec-test\nlog_level=0\n")
    monkeypatch.setattr("kvec.doors.kafka.PATIENCE", 0.3)
    with pytest.raises(DataError, match=r"kafka://127\.0\.0\.1:1/items: no answer from the broker"):
        KafkaTopic(f"kafka://127.0.0.1:1/items?config={tmp_path / 'kafka.properties'}").start({})


def test_a_broker_that_is_away_is_told_in_one_line(
    lively: Trained, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvec.doors.kafka.PATIENCE", 1.0)
    assert refused("stream", lively.model, "kafka://127.0.0.1:1/items") == (
        "kvec: kafka://127.0.0.1:1/items: no answer from the broker (Connect to 127.0.0.1:1 failed: Connection "
        "refused); is it running, is the address right, and does it want settings such as security.protocol "
        "(config=FILE)?"
    )


def test_what_the_client_reports_is_told_with_a_way_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = KafkaTopic("kafka://broker:9092/items")
    monkeypatch.setattr("kvec.doors.kafka.PATIENCE", 7.0)
    assert source._explained(kafka.KafkaError(kafka.KafkaError._TIMED_OUT)).startswith(
        "no answer from the broker within 7 seconds; is it running"
    )
    unknown = kafka.KafkaError(kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert source._explained(unknown) == "the broker has no topic 'items'; make it, or mend the name"
    away = kafka.KafkaError(kafka.KafkaError._TRANSPORT, "broker:9092/1: Disconnected (after 5ms in state UP)")
    source._complain(away)
    assert capsys.readouterr().err == "", "the start itself says it"
    source._has_started, source._consumer = True, object()
    source._complain(away)
    source._complain(away)
    assert capsys.readouterr().err == (
        "kvec: kafka://broker:9092/items: no answer from the broker (Disconnected); still trying\n"
    )
    source._consumer = None


def test_without_the_client_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lively: Trained
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra):
        KafkaTopic("kafka://broker:9092/topic")
    assert run(["stream", lively.model, "kafka://broker:9092/topic"]) == 2
    assert capsys.readouterr().err == "kvec: kafka:// needs confluent-kafka; pip install 'kvec[kafka]'\n"


def test_a_topic_is_streamed_and_gone_on_with(
    broker: Broker, lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = lively.frame.head(300)
    streamed(lively.model, written(frame, tmp_path / "items.ndjson"), "-o", tmp_path / "wanted.ndjson")
    broker.send("streamed", *frame.write_ndjson().encode().splitlines())
    kept = (lively.model, broker.topic("streamed"), "-o", tmp_path / "d.ndjson", "--state", tmp_path / "kept")
    monkeypatch.setattr(running, "MOST_ROWS", 50)
    look_around = running.Loop._look_around

    class Crash(BaseException):
        pass

    def crash(loop: running.Loop) -> None:
        look_around(loop)
        if loop.stream.counters.items >= 150:
            raise Crash

    monkeypatch.setattr(running.Loop, "_look_around", crash)
    with pytest.raises(Crash):
        streamed(*kept, "--every", "100")

    read_on = KafkaTopic.read

    def until_all(source: KafkaTopic, most: int, seconds: float) -> list[Arrived] | None:
        return None if source._offsets.get("0") == 300 else read_on(source, most, seconds)

    monkeypatch.setattr(running.Loop, "_look_around", look_around)
    monkeypatch.setattr(KafkaTopic, "read", until_all)
    streamed(*kept)
    assert_same(decided(tmp_path / "d.ndjson"), decided(tmp_path / "wanted.ndjson"))
