"""`kvec flink` on the command line, as far as it goes without Flink."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.doors.made import Trained

from kvec.doors.flink.job import decide_uid
from kvec.doors.flink.places import newest_state
from kvec.doors.flink.submitting import explained, settings_of
from kvec.doors.flink.watching import Manner
from kvec.doors.flink.wishes import FlinkWishes
from kvec.doors.flink.worker import Task
from kvec.words.errors import SettingError
from kvec.words.limits import Limits

ATTEMPTS = "restart-strategy.exponential-delay.attempts-before-reset-backoff"
WISHES = FlinkWishes(Path("model"), "items.ndjson", "out")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--source", "http://here"), "http:// is not known; Flink's sources are files, socket:// and kafka://"),
        (("--source", "socket://here"), "write socket://host:port"),
        (("--source", "kafka://here"), "write kafka://broker:9092/topic"),
        (("--sink", "tcp://here"), "--sink is tcp://here; it can be a folder"),
        (("--sink-format", "orc"), "--sink-format is 'orc'; it can be ndjson, parquet"),
        (("--sink", "-", "--sink-format", "parquet"), "--sink-format parquet is for a folder of files"),
        (
            ("--sink-format", "parquet", "--detach", "--cluster", "here:8081"),
            "--sink-format parquet is this command's to do, and --detach ends it; leave out one of the two",
        ),
        (("--sink", "out", "--dead-letters", "./out"), "--dead-letters is the folder of --sink"),
        (("--cluster", "here:8081"), "--cluster needs --checkpoints: a folder that all of its machines reach"),
        (("--parallelism", "0"), "--parallelism is 0; it must be at least 1"),
        (("--split-by", "way"), "say into how many parts with --split-tangles"),
        (("--linger", "-1"), "--linger is -1.0; it must be at least 0 seconds"),
        (("--linger", "1"), "--linger is for single rows, of sockets and Kafka; files come in blocks: leave it out"),
        (
            ("--detach",),
            "--detach leaves the job to a cluster, but local is one in this process; name it with --cluster",
        ),
        (("--source", "kafka://b:9092/t?from=lates"), "from is 'lates'; it can be earliest, latest"),
        (("--idle", "3"), "go by the wall clock, which files do not have; use --expiry"),
        (("--event-time", "now"), "--event-time is 'now'; it can be items, wall"),
        (("--every", "100"), "--every is '100'; write a time, as in 30s"),
        (("--cluster", "here", "--checkpoints", "kept"), "--cluster is here; write host:port"),
        (("--set", "fast"), "--set is 'fast'; write NAME=VALUE"),
        (("--from", "nowhere"), "holds no whole checkpoint or savepoint"),
        (("--expiry", "-1"), "--expiry is -1.0; it must be at least 0 seconds"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    words: tuple[str, ...], said: str, lively: Trained, tmp_path: Path, refused: Callable[..., str]
) -> None:
    common = {"--source": lively.items, "--sink": str(tmp_path / "out")}
    rest = [word for flag, given in common.items() if flag != words[0] for word in (flag, given)]
    assert said in refused("flink", lively.model, *rest, *words)


def test_a_sink_is_not_the_folder_of_its_source(lively: Trained, tmp_path: Path, refused: Callable[..., str]) -> None:
    pl.read_parquet(lively.items).write_ndjson(tmp_path / "items.ndjson")
    said = refused("flink", lively.model, "--source", tmp_path, "--sink", tmp_path)
    assert "the folder of --source; name another" in said
    said = refused("flink", lively.model, "--source", lively.items, "--sink", lively.model)
    assert f"--sink is {lively.model}, a model" in said


def test_a_state_is_named_by_its_split() -> None:
    task = Task("model", (), None, None, Limits(), Manner(), 1, "", False)
    names = {decide_uid(replace(task, parts=parts, by=by)) for parts, by in ((1, ""), (3, ""), (4, ""), (4, "way"))}
    assert len(names) == 4


def test_it_does_not_go_on_over_files_that_have_changed(
    lively: Trained, tmp_path: Path, refused: Callable[..., str]
) -> None:
    (tmp_path / "_metadata").write_bytes(b"\x00\x0eSource: slices\x00\x1ckvec-slices-0123456789abcdef")
    said = refused("flink", lively.model, "--source", lively.items, "--sink", tmp_path / "out", "--from", tmp_path)
    assert f"(new or changed since then: {Path(lively.items).name})" in said


@pytest.mark.skipif(importlib.util.find_spec("pyflink") is not None, reason="pyflink is here")
def test_without_flink_it_says_how_to_install_it(lively: Trained, tmp_path: Path, refused: Callable[..., str]) -> None:
    said = refused("flink", lively.model, "--source", lively.items, "--sink", tmp_path / "out")
    assert said.startswith("kvec: kvec flink needs pyflink; pip install 'kvec[flink]' in an environment of its own")


def test_settings_that_are_given_go_before_ours(tmp_path: Path) -> None:
    found = settings_of(replace(WISHES, settings=("state.backend.type=hashmap",), checkpoints=tmp_path), True)
    assert found["state.backend.type"] == "hashmap"
    assert found["execution.checkpointing.dir"] == tmp_path.resolve().as_uri()
    assert found["execution.checkpointing.interval"] == "30000ms"
    assert found[ATTEMPTS] == "10", "it does not try for ever"
    remote = settings_of(replace(WISHES, cluster="here:8081", linger=0.05), False)
    assert (remote["rest.address"], remote["rest.port"], remote["execution.target"]) == ("here", "8081", "remote")
    assert remote["python.fn-execution.bundle.time"] == "50"
    assert remote[ATTEMPTS] == "20"


def test_only_whole_checkpoints_are_gone_on_with(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / "job" / f"chk-{number}").mkdir(parents=True)
    with pytest.raises(SettingError, match="none has a file _metadata"):
        newest_state(tmp_path)
    for number in (1, 2):
        (tmp_path / "job" / f"chk-{number}" / "_metadata").write_text("x")
    assert newest_state(tmp_path).name == "chk-2"
    assert newest_state(tmp_path / "job" / "chk-1").name == "chk-1"


def test_a_trace_is_told_on_one_line() -> None:
    trace = "java.X: no\n\tat a.b\nCaused by: java.Y: RuntimeException: Error from the worker\n"
    assert explained(trace) == "java.Y: RuntimeException: Error from the worker"
    ours = trace + "  kvec.words.errors.ModelError: model: no such\nCaused by: java.Z: gone"
    assert explained(ours) == "model: no such"
    kafka = "Could not found the Java class 'org.apache.flink.connector.kafka.source.KafkaSource.builder'."
    assert explained(kafka).endswith("--jar flink-sql-connector-kafka-….jar")
    assert explained("Caused by: java.net.ConnectException: Connection refused").endswith("running there?")
    other = "Caused by: java.X: Cannot map checkpoint/savepoint state for operator 17 to the new program"
    assert "of files that have changed, or was split in another way" in explained(other)
    assert explained("") == "no more is known"
