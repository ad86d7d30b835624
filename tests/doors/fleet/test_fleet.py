"""Fleets against a real server: the decisions of one process, whichever worker or server is lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.doors.fleet.crewed import PATIENCE, Hand, Server, needs_server, rows_of, send, wait_until
from tests.doors.made import Trained
from tests.doors.streamed import assert_same, decided, streamed

from kvec.decide.deployed import load_deployed
from kvec.doors.cli import run
from kvec.doors.fleet import sending
from kvec.doors.fleet.ground import source_of
from kvec.doors.fleet.link import Link
from kvec.doors.fleet.partitions import partition_of
from kvec.read.arriving import RowReader

pytest.importorskip("nats")
pytestmark = needs_server
LEASE = "&lease=20"  # a busy machine may halt a worker for seconds


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.kill()


@pytest.fixture
def wanted(lively: Trained, tmp_path: Path) -> Path:
    """Items as a file; beside it what one process decides about them."""
    items = rows_of(lively.frame.head(1500), tmp_path / "items.ndjson")
    streamed(lively.model, items, "-o", tmp_path / "wanted.ndjson")
    return items


def wait_for_all(server: Server, items: Path) -> None:
    """As many decisions are there as one process makes."""
    n_expected = len(decided(items.with_name("wanted.ndjson")))
    wait_until(lambda: server.count() >= n_expected, "all decisions")


def assert_all(server: Server, items: Path) -> None:
    """All decisions of one process are there, each once, and no others; to be asked when no worker is left."""
    assert_same(server.decided(), decided(items.with_name("wanted.ndjson")))


def test_two_workers_and_a_third_and_one_less(server: Server, lively: Trained, wanted: Path) -> None:
    lines = wanted.read_bytes().splitlines(keepends=True)
    parts = [wanted.with_name(f"part{i}.ndjson") for i in range(3)]
    for i, part in enumerate(parts):
        part.write_bytes(b"".join(lines[i * 500 : (i + 1) * 500]))
    place = server.place(f"?create=yes&partitions=4{LEASE}")
    hands = [Hand(lively.model, place, "a")]
    try:
        wait_until(lambda: len(hands[0].partitions) == 4, "one worker has all")
        send(lively.model, parts[0], server.url("items"))
        hands.append(Hand(lively.model, place, "b"))
        wait_until(lambda: [len(one.partitions) for one in hands] == [2, 2], "two share")
        send(lively.model, parts[1], server.url("items"))
        hands.append(Hand(lively.model, place, "c"))
        wait_until(lambda: [len(one.partitions) for one in hands] == [2, 1, 1], "three share")
        assert set.union(*(one.partitions for one in hands)) == {0, 1, 2, 3}
        hands[0].end()
        wait_until(lambda: [len(one.partitions) for one in hands[1:]] == [2, 2], "two share again")
        send(lively.model, parts[2], server.url("items"), "--close")
        wait_for_all(server, wanted)
    finally:
        for one in hands:
            one.end()
    assert_all(server, wanted)
    assert set(server.owners().values()) == {""}
    for subject, content in server.messages("decisions", "decisions.*"):
        assert int(subject.rpartition(".")[2]) == partition_of(json.loads(content)["tangle"], 4)


def test_a_worker_is_killed_and_another_goes_on(server: Server, lively: Trained, wanted: Path) -> None:
    flags = ["--source", server.url("items", "?create=yes&partitions=2&lease=3"), "--sink", server.url("decisions")]
    command = [sys.executable, "-m", "kvec", "stream", lively.model, *flags, "--every", "100"]
    log = wanted.with_name("worker.log")
    lines = wanted.read_bytes().splitlines(keepends=True)
    parts = [wanted.with_name(f"part{i}.ndjson") for i in range(2)]
    for part, some in zip(parts, (lines[:1000], lines[1000:]), strict=True):
        part.write_bytes(b"".join(some))
    with log.open("ab") as out:
        first = subprocess.Popen(command, stderr=out)
        try:
            wait_until(lambda: b"partition 1" in log.read_bytes() and b"partition 0" in log.read_bytes(), "a worker")
            sender = threading.Thread(target=send, args=(lively.model, parts[0], server.url("items"), "--rate", "1500"))
            sender.start()
            wait_until(lambda: server.count() >= 10, "some decisions")
        finally:
            first.kill()
            first.wait()
        n_before = server.count()
        second = subprocess.Popen(command, stderr=out)
        try:
            sender.join(PATIENCE)
            send(lively.model, parts[1], server.url("items"), "--close")
            wait_for_all(server, wanted)
        finally:
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE) == 0
    assert_all(server, wanted)
    assert n_before < len(decided(wanted.with_name("wanted.ndjson"))), "the first has left something to do"
    assert b"is left to others" in log.read_bytes()
    assert set(server.owners().values()) == {""}


def test_the_server_is_killed_under_load(server: Server, lively: Trained, wanted: Path) -> None:
    place = server.place(f"?create=yes&partitions=2{LEASE}")
    hands = [Hand(lively.model, place, name) for name in ("a", "b")]
    try:
        wait_until(lambda: [len(one.partitions) for one in hands] == [1, 1], "two share")
        sender = threading.Thread(
            target=send, args=(lively.model, wanted, server.url("items"), "--close", "--rate", "1500")
        )
        sender.start()
        for n in (10, 25):
            wait_until(lambda n=n: server.count() >= n, "some decisions")
            server.kill()
            server.start()
        sender.join(PATIENCE)
        wait_for_all(server, wanted)
    finally:
        for one in hands:
            one.end()
    assert_all(server, wanted)


def test_broken_items_become_letters(server: Server, lively: Trained, tmp_path: Path) -> None:
    items = tmp_path / "items.ndjson"
    good = lively.frame.head(3).write_ndjson().splitlines()
    rows = [good[0], "{not json", '{"key": "k"}', good[1].replace('"time":', '"tim":'), good[2]]
    items.write_text("\n\n  \n".join(rows) + "\n\n")  # blank lines are passed over
    worker = Hand(lively.model, server.place(f"?create=yes&partitions=2{LEASE}"), "a")
    try:
        wait_until(lambda: len(worker.partitions) == 2, "a worker")
        server.ask(lambda link: link.publish("items.0", b" \n", {}))  # from others than kvec send too
        send(lively.model, items, server.url("items"), "--close")
        wait_until(lambda: len(server.messages("decisions", "decisions.letters.*")) >= 3, "letters")
        wait_until(lambda: len(server.decided()) > 0, "decisions")
    finally:
        worker.end()
    letters = [json.loads(content) for _, content in server.messages("decisions", "decisions.letters.*")]
    assert sorted(one["raw"] for one in letters) == sorted(rows[1:4])
    assert letters[0].keys() == {"place", "number", "problem", "raw"}
    assert all(one["place"].startswith("items.") for one in letters)
    tally = worker.worker.tally
    assert (tally.letters, tally.items, tally.decisions) == (3, 2, len(server.decided()))


def test_the_server_sorts_tangles_as_we_do(server: Server) -> None:
    names = ["a", "link-7", "ä", "0", "12345", "10/8", *(f"tangle-{i}" for i in range(20))]

    async def publish(link: Link) -> None:
        assert await source_of(link, server.place("?create=yes&partitions=7")) == 7
        for name in names:
            await link.publish(f"items.tangle.{name}", name.encode(), {})

    server.ask(publish)
    sorted_by_server = {content.decode(): subject for subject, content in server.messages("items", "items.*")}
    assert sorted_by_server == {name: f"items.{partition_of(name, 7)}" for name in names}


def test_the_python_of_the_page_sends_an_item(server: Server, lively: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "nats.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert "nats://localhost" in block
    server.ask(lambda link: source_of(link, server.place("?create=yes&partitions=4")))
    exec(compile(block.replace("nats://localhost", server.url("")), "nats.md", "exec"), {})
    ((subject, content),) = server.messages("items", "items.*")
    assert subject == f"items.{partition_of('link 7', 4)}"
    row = json.loads(content)
    assert RowReader(load_deployed(Path(lively.model)).schema).item(row) is not None


def test_rows_are_sent_once(
    server: Server, lively: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, url = lively.frame.head(40), server.url("items", "?create=yes&partitions=3")
    frame.write_parquet(tmp_path / "items.parquet")
    monkeypatch.setattr(sending, "WINDOW", 8)
    for _ in range(2):
        send(lively.model, tmp_path / "items.parquet", url)
    said = capsys.readouterr().err
    assert "40 items sent to" in said and "; 40 were there already" in said
    lines = rows_of(frame, tmp_path / "items.ndjson").read_bytes()
    script = [sys.executable, "-m", "kvec", "send", lively.model, "-", "--sink", url]
    done = subprocess.run(script, input=lines, capture_output=True, timeout=PATIENCE, check=True)
    assert b"40 items sent" in done.stderr and b"already" not in done.stderr
    stored = server.messages("items", "items.*")
    assert len(stored) == 80
    for subject, content in stored:
        assert subject == f"items.{partition_of(json.loads(content)['tangle'], 3)}"
    (tmp_path / "long.ndjson").write_text(json.dumps({"tangle": "x" * 140_000}) + "\n")  # workers would refuse it
    assert run(["send", lively.model, str(tmp_path / "long.ndjson"), "--sink", url]) == 2
    assert "has 140,014 bytes, and an item may have 131,072 on this server; leave it out" in capsys.readouterr().err


def test_a_newer_model_takes_over(server: Server, lively: Trained, trained: Trained, wanted: Path) -> None:
    place = server.place(f"?create=yes&partitions=1{LEASE}")
    old = Hand(lively.model, place, "a")
    wait_until(lambda: old.partitions == {0}, "the old model")
    lines = wanted.read_bytes().splitlines(keepends=True)
    for name, some in (("first", lines[:700]), ("second", lines[700:])):
        wanted.with_name(f"{name}.ndjson").write_bytes(b"".join(some))
    send(lively.model, wanted.with_name("first.ndjson"), server.url("items"))
    refused = Hand(trained.model, place, "b")
    wait_until(lambda: refused.is_over, "another model is refused")
    assert "not the model of group 'kvec'" in refused.error and "--take-over" in refused.error
    new = Hand(trained.model, place, "c", is_newer=True)
    try:
        wait_until(lambda: old.is_over, "the old model leaves")
        assert old.error == ""
        wait_until(lambda: new.partitions == {0}, "the new model")
        send(lively.model, wanted.with_name("second.ndjson"), server.url("items"), "--close")
        expected = decided(wanted.with_name("wanted.ndjson"))
        wait_until(lambda: server.count() >= len(expected), "all decisions")
    finally:
        new.end()
    assert server.decided().keys() == expected.keys()
