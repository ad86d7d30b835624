"""A Kafka topic as a source of rows: JSON in the messages, all partitions, offsets in the state and in the group."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kvec.doors.messages import say
from kvec.read.arriving_forms import JsonLines
from kvec.read.arriving_sources import Arrived, Source
from kvec.words.errors import DataError, MissingExtra, SettingError

PATIENCE = 10.0  # seconds that brokers are given to answer at the start
SILENCE = 30.0  # seconds between two complaints about brokers that do not answer
STARTS = ("earliest", "latest")


class KafkaTopic(Source):
    """The messages of a topic, by a URL such as kafka://broker:9092/topic?group=kvec&from=latest.

    `from` says where to begin if neither the state nor the group knows. `config` names a file of `name=value` lines;
    its entries, and any other entry of the URL, go to librdkafka.
    """

    kind = "kafka"
    unit = "offset"
    is_live = True

    def __init__(self, url: str) -> None:
        super().__init__(url.partition("?")[0], JsonLines())
        self._kafka = _client()
        parts = urlsplit(url)
        self._topic = parts.path.strip("/")
        if not parts.netloc or not self._topic:
            raise SettingError(f"{url}: write kafka://broker:9092/topic")
        settings = dict(parse_qsl(parts.query))
        self._start = settings.pop("from", "earliest")
        if self._start not in STARTS:
            raise SettingError(f"{self.name}: from is {self._start!r}; it can be {' or '.join(STARTS)}")
        self._settings = {
            "bootstrap.servers": parts.netloc,
            "group.id": settings.pop("group", "kvec"),
            "log_level": 0,
            "error_cb": self._complain,
            **_from_file(settings.pop("config", "")),
            **settings,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # rows that are gone are never passed over in silence
        }
        self._offsets: dict[str, int] = {}  # by partition: the next one
        self._consumer: Any = None
        self._complained = -SILENCE
        self._cause = ""  # why brokers did not answer, the first that was told
        self._has_started = False

    def start(self, position: Mapping[str, Any]) -> None:
        """Read all partitions: from where the state stopped, else where the group stopped, else from `from`."""
        if position and position["topic"] != self._topic:
            raise DataError(f"{self.name}: the state stopped in topic {position['topic']}; name that, or a new --state")
        kafka = self._kafka
        try:
            self._consumer = kafka.Consumer(self._settings)
            topic = self._consumer.list_topics(self._topic, timeout=PATIENCE).topics[self._topic]
            if topic.error is not None:
                raise kafka.KafkaException(topic.error)
            partitions = [kafka.TopicPartition(self._topic, number) for number in sorted(topic.partitions)]
            begin = kafka.OFFSET_BEGINNING if self._start == "earliest" else kafka.OFFSET_END
            for one in self._consumer.committed(partitions, timeout=PATIENCE):
                if one.offset >= 0:
                    self._offsets[str(one.partition)] = one.offset
            self._offsets |= position.get("offsets", {})
            for one in partitions:
                one.offset = self._offsets.get(str(one.partition), begin)
            self._consumer.assign(partitions)
        except kafka.KafkaException as error:
            self.close()
            raise DataError(f"{self.name}: {self._explained(error.args[0])}") from None
        self._has_started = True

    def read(self, most: int, seconds: float) -> list[Arrived] | None:
        """The messages that are there."""
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        messages = [first, *(self._consumer.consume(most - 1, timeout=0) if most > 1 else ())]
        return [one for message in messages if (one := self._arrived(message)) is not None]

    def take(self, arrived: Sequence[Arrived]) -> None:
        """Move the offsets on."""
        for one in arrived:
            self._offsets[one.origin] = one.number + 1

    def position(self) -> dict[str, Any]:
        """The next offset of each partition."""
        return {"topic": self._topic, "offsets": dict(self._offsets)}

    def saved(self) -> None:
        """Tell the group too, for those who watch its lag."""
        if self._offsets:
            partition = self._kafka.TopicPartition
            offsets = [partition(self._topic, int(number), offset) for number, offset in self._offsets.items()]
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        """Leave."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def place(self, one: Arrived) -> str:
        """Where a message came from."""
        return f"{self._topic}, partition {one.origin}, offset {one.number}"

    def _complain(self, error: Any) -> None:
        """Note why brokers do not answer; once the topic is being read, say it now and then."""
        self._cause = self._cause or _cause(error.str())
        if self._has_started and time.monotonic() - self._complained >= SILENCE and self._consumer is not None:
            self._complained = time.monotonic()
            say(f"{self.name}: no answer from the broker ({_cause(error.str())}); still trying")

    def _explained(self, error: Any) -> str:
        """What failed at the start, and the way out."""
        codes = self._kafka.KafkaError
        if error.code() in (codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT, codes._RESOLVE):
            why = f" ({self._cause})" if self._cause else f" within {PATIENCE:g} seconds"
            return (
                f"no answer from the broker{why}; is it running, is the address right, and does it want settings such "
                "as security.protocol (config=FILE)?"
            )
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC):
            return f"the broker has no topic {self._topic!r}; make it, or mend the name"
        return str(error.str())

    def _arrived(self, message: Any) -> Arrived | None:
        error = message.error()
        if error is None:
            content = message.value()
            problem = "" if content else "the message is empty"
            return Arrived(message.offset(), content or b"", 0, str(message.partition()), problem)
        if error.retriable() or error.code() == self._kafka.KafkaError._PARTITION_EOF:
            return None
        raise DataError(f"{self.name}: {error.str()}")


def _client() -> Any:
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError as error:
        raise MissingExtra("kafka:// needs confluent-kafka; pip install 'kvec[kafka]'") from error


def _cause(text: str) -> str:
    """What librdkafka says of a broker, without what only its authors need.

    >>> _cause("host:9/bootstrap: Connect to ipv4#127.0.0.1:9 failed: Connection refused (after 0ms in state CONNECT)")
    'Connect to 127.0.0.1:9 failed: Connection refused'
    """
    text = re.sub(r"^\S+/(bootstrap|\d+): ", "", re.sub(r" \(after [^)]*\)", "", text))
    return re.sub(r"\bipv[46]#", "", text)


def _from_file(path: str) -> dict[str, str]:
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror}; config=FILE names a text file") from None
    except UnicodeDecodeError:
        raise SettingError(f"{path}: is not UTF-8 text; config=FILE names a text file of name=value lines") from None
    entries = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, _, value in entries}
