"""Addresses of a fleet: what they say, and how what they cannot say is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvec.doors.fleet.places import Place
from kvec.words.errors import SettingError


def test_an_address_says_all() -> None:
    plain = Place.of("nats://localhost/items")
    assert plain == Place("nats://localhost/items", ("nats://localhost:4222",), "items")
    full = Place.of("nats://a:1,[::1]:2/items?group=g&partitions=8&create=yes&replicas=3&lease=2.5&tls=yes")
    assert full.servers == ("nats://a:1", "nats://[::1]:2")
    assert (full.group, full.partitions, full.create, full.replicas, full.lease) == ("g", 8, True, 3, 2.5)
    assert full.options().keys() == {"tls"}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nats://localhost", "write nats://localhost:4222/items"),
        ("nats:///items", "write nats://localhost:4222/items"),
        ("nats://localhost/a.b", "write nats://localhost:4222/items"),
        ("nats://localhost:x/items", "names no host and port"),
        ("nats://ann:secret@localhost/items", "login=FILE"),
        ("nats://localhost/items?partition=4", "partition is not known here; known are group, partitions"),
        ("nats://localhost/items?partitions=0", "partitions is '0'; it must be a number from 1 to 1024"),
        ("nats://localhost/items?partitions=2.5", "partitions is '2.5'"),
        ("nats://localhost/items?lease=soon", "lease is 'soon'"),
        ("nats://localhost/items?create=maybe", "create is 'maybe'; it can be yes or no"),
        ("nats://localhost/items?group=a.b", "group is 'a.b'"),
    ],
)
def test_what_an_address_cannot_say(url: str, said: str) -> None:
    with pytest.raises(SettingError, match=said.replace("?", r"\?")) as refused:
        Place.of(url)
    assert "secret" not in str(refused.value) and "\n" not in str(refused.value)


def test_secrets_lie_in_files(tmp_path: Path) -> None:
    (tmp_path / "login").write_text("ann\npass word\n")
    (tmp_path / "token").write_text("t0ken\n")
    found = Place.of(f"nats://localhost/items?login={tmp_path}/login&token={tmp_path}/token").options()
    assert found == {"user": "ann", "password": "pass word", "token": "t0ken"}
    for name in ("creds", "nkey"):
        (tmp_path / name).write_text("-")
    found = Place.of(f"nats://localhost/items?creds={tmp_path}/creds&nkey={tmp_path}/nkey").options()
    assert found == {"user_credentials": str(tmp_path / "creds"), "nkeys_seed": str(tmp_path / "nkey")}


def test_files_that_hold_no_secret(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\n")
    for query, said in (
        ("creds=none", "none: no such file; creds=FILE names one"),
        (f"login={tmp_path}/bad", "cannot be read as text"),
        (f"ca={tmp_path}/bad", "the certificates cannot be used"),
        (f"ca={tmp_path}", "no such file"),
    ):
        with pytest.raises(SettingError, match=said):
            Place.of(f"nats://localhost/items?{query}").options()
    (tmp_path / "one").write_text("ann\n")
    with pytest.raises(SettingError, match="two lines, the user and the password"):
        Place.of(f"nats://localhost/items?login={tmp_path}/one").options()
