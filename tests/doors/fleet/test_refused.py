"""What a fleet cannot do is said on one line, with a way out."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from tests.doors.fleet.crewed import Hand, Server, needs_server, wait_until
from tests.doors.made import Trained

from kvec.doors.fleet import link
from kvec.doors.fleet.link import Link
from kvec.words.errors import DataError

pytest.importorskip("nats")
Refused = Callable[..., str]
LEASE = "&lease=20"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.kill()


def test_flags_that_a_fleet_does_not_know(lively: Trained, refused: Refused) -> None:
    nats = ("stream", lively.model, "--source", "nats://localhost/items", "--sink", "nats://localhost/decisions")
    for flags, said in (
        (("--state", "kept"), "leave out --state: a fleet keeps its states on the server"),
        (("--strict",), "items that cannot be used go to decisions.letters.*"),
        (("--dead-letters", "x"), "items that cannot be used go to decisions.letters.*"),
        (("--table",), "leave out --table"),
        (("--follow",), "leave out --follow"),
        (("--format", "csv"), "leave out --format"),
        (("--on-stop", "decide"), "kvec send --close decides it"),
        (("--event-time", "soon"), "--event-time"),
        (("--max-line", "0"), "--max-line is 0"),
        (("--every", "soon"), "--every is 'soon'"),
    ):
        assert said in refused(*nats, *flags)
    assert "name one" in refused(*nats, "items.ndjson")
    model = ("stream", lively.model)
    for flags, said in (
        (("nats://localhost/items",), "write --sink nats://…/decisions"),
        (("items.ndjson", "--sink", "nats://localhost/d"), "name items on NATS with --source"),
        (("items.ndjson", "-o", "kafka://b/t"), "decisions go to a file, to the standard output or to nats://"),
        (("nats://a/items", "-o", "nats://b/d"), "must be on the same servers, nats://a:4222"),
        (("nats://a/items", "-o", "nats://a/d?create=yes"), "say all settings in the source"),
        (("nats://a/items", "-o", "nats://a/items"), "need streams of their own"),
    ):
        assert said in refused(*model, *flags)
    send = ("send", lively.model, lively.items)
    assert "items are sent to nats://" in refused(*send, "--sink", "tcp://:1")
    assert "--rate is 0" in refused(*send, "--sink", "nats://a/items", "--rate", "0")
    assert "NDJSON and Parquet" in refused("send", lively.model, "tcp://:0", "--sink", "nats://a/items")


def test_without_the_client(lively: Trained, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    said = refused("stream", lively.model, "nats://localhost/items", "-o", "nats://localhost/decisions")
    assert said == "kvec: nats:// needs nats; pip install 'kvec[nats]'"


def test_without_a_server(lively: Trained, refused: Refused) -> None:
    said = refused("stream", lively.model, "nats://127.0.0.1:9/items", "-o", "nats://127.0.0.1:9/decisions")
    assert "no way to the server" in said and "is it running, and is the address right?" in said
    assert "no way to the server" in refused("send", lively.model, lively.items, "--sink", "nats://127.0.0.1:9/items")


@needs_server
def test_without_jetstream(lively: Trained, refused: Refused, tmp_path: Path) -> None:
    plain = Server(tmp_path, store=False)
    try:
        said = refused("stream", lively.model, plain.url("items"), "-o", plain.url("decisions"))
        assert "JetStream is off; start the server with nats-server -js" in said
    finally:
        plain.kill()


@needs_server
def test_streams_that_cannot_be_used(server: Server, lively: Trained, refused: Refused) -> None:
    def stream(query: str = "", name: str = "items", sink: str = "decisions") -> str:
        return refused("stream", lively.model, server.url(name, query), "-o", server.url(sink))

    assert "there is no stream 'items'; add ?create=yes to the source" in stream()

    async def make(link: Link) -> None:
        api, js = link.api, link.js
        await js.add_stream(name="plain", subjects=["plain.*"])
        await js.add_stream(name="queue", subjects=["queue.*"], retention=api.RetentionPolicy.WORK_QUEUE)
        await js.add_stream(name="other", subjects=["other.*"])
        await js.add_stream(name="wide", subjects=["wide.>"])
        await js.add_stream(name="four", subjects=["four.*"], metadata={"kvec.partitions": "4"})

    server.ask(make)
    assert "does not note its partitions; say how many, as in ?partitions=4" in stream(name="plain")
    assert "keeps messages by workqueue" in stream(name="queue")
    assert "has 4 partitions, not 5" in stream("?partitions=5", name="four")
    assert "there is no stream 'decisions'" in stream(name="four")
    assert "does not take other.letters.*; add that subject" in stream(name="four", sink="other")
    assert "must allow rollups" in stream(name="four", sink="wide")
    assert "there is no stream 'none'" in refused("send", lively.model, lively.items, "--sink", server.url("none"))


@needs_server
def test_workers_that_disagree(server: Server, lively: Trained, refused: Refused) -> None:
    first = ("stream", lively.model, server.url("agreed", f"?create=yes&group=agreed{LEASE}"), "-o")
    worker = Hand(lively.model, server.place(f"?create=yes&group=agreed{LEASE}", "agreed"), "a")
    try:
        wait_until(lambda: len(worker.partitions) == 4, "a worker")
        said = refused(*first, server.url("decisions"), "--expiry", "3")
        assert "in group 'agreed'; give the same, or name another group and another --sink" in said
        other = Hand(lively.model, server.place(f"?group=other{LEASE}", "agreed"), "b")
        wait_until(lambda: other.is_over, "a sink has one group")
        assert other.error == "decisions: is written by group 'agreed'; name another --sink, or that group"
    finally:
        worker.end()


@needs_server
def test_a_bucket_that_was_made_anew(server: Server, lively: Trained) -> None:
    place = server.place(f"?create=yes&group=anew&partitions=1{LEASE}", "anew")
    for said in ("", "knows a newer owner of partition 0 than the bucket 'anew'"):
        worker = Hand(lively.model, place, "a", sink="anew-decisions")
        if said:
            wait_until(lambda: worker.is_over, "an older lease")  # noqa: B023
            assert said in worker.error
        else:
            wait_until(lambda: worker.partitions == {0}, "a worker")  # noqa: B023
            worker.end()
        server.ask(lambda link: link.js.delete_key_value("anew"))


@needs_server
def test_old_servers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "OLDEST", (99, 0))
    with pytest.raises(DataError, match=r"the server is nats-server 2\.\d+; a fleet needs 99.0 or later"):
        server.ask(None)  # type: ignore[arg-type]


def certificate(folder: Path) -> None:
    """A certificate for 127.0.0.1 that is its own authority."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption(),
    ))  # fmt: skip


@needs_server
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_passwords_and_certificates(lively: Trained, refused: Refused, tmp_path: Path) -> None:
    certificate(tmp_path)
    (tmp_path / "login").write_text("ann\nsecret\n")
    safe = Server(
        tmp_path, "--user", "ann", "--pass", "secret", "--tls", "--tlscert", str(tmp_path / "cert.pem"), "--tlskey",
        str(tmp_path / "key.pem"),
    )  # fmt: skip
    try:
        trusted = f"?ca={tmp_path}/cert.pem"
        for query, said in (
            ("?tls=yes", "self-signed certificate"),
            (trusted, "creds=FILE, login=FILE or token=FILE?"),
        ):
            assert said in refused("stream", lively.model, safe.url("items", query), "-o", safe.url("decisions"))
        query = f"{trusted}&login={tmp_path}/login"
        said = refused("stream", lively.model, safe.url("items", query), "-o", safe.url("decisions"))
        assert "there is no stream 'items'" in said
    finally:
        safe.kill()
        gc.collect()  # the client leaves connections half closed where it is refused: told here, not in another test
