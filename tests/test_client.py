"""The client against a service that breaks: it tries again, under the same key, and tells what it cannot mend."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kvec.client import Client, ServiceError
from kvec.words.errors import SettingError


class Broken(BaseHTTPRequestHandler):
    """Answers by a list: a status, or `None` for a connection that breaks before the answer."""

    plan: ClassVar[list[Any]] = []
    asked: ClassVar[list[tuple[str, str | None, bytes]]] = []
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.path, self.headers["Idempotency-Key"], body))
        self.answer(self.plan.pop(0) if self.plan else 200)

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Last-Event-ID"], b""))
        if not self.path.startswith("/v1/decisions"):
            self.answer(self.plan.pop(0) if self.plan else 200)
            return
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        start = int(self.headers["Last-Event-ID"])
        with contextlib.suppress(OSError):  # whoever read may have gone
            for n in (start + 1, start + 2):
                self.wfile.write(b'id: %d\nevent: decision\ndata: {"n": %d}\n\n: alive\n\n' % (n, n))
            self.wfile.write(b'id: 99\nevent: decision\ndata: {"key": "\xc3')  # and it breaks, in a letter
        self.close_connection = True

    def answer(self, status: int | None) -> None:
        if status is None:
            self.close_connection = True
            return
        body = json.dumps(
            {
                "taken": 1,
                "refused": [{"row": 1, "detail": "odd"}],
                "detail": f"because of {status}",
                "counts": {"decisions": 7},
            }
        ).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(Broken, "plan", [])
    monkeypatch.setattr(Broken, "asked", [])
    monkeypatch.setattr("kvec.client.time.sleep", lambda seconds: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with Client(f"http://127.0.0.1:{server.server_port}", model="m", patience=30) as client:
        yield client
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_request_whose_answer_is_lost_comes_again_under_the_same_key(client: Client) -> None:
    Broken.plan = [None, 503, 429, None]
    assert client.send([{"key": 1}])["taken"] == 1
    assert len(Broken.asked) == 5 and len(set(Broken.asked)) == 1
    client.send([{"key": 1}])
    paths, keys, bodies = zip(*Broken.asked, strict=True)
    assert set(paths) == {"/v1/items?model=m"} and len(set(keys)) == 2 and set(bodies) == {b'[{"key":1}]'}


def test_rows_go_in_batches(client: Client) -> None:
    assert len(list(client.items(({"key": i} for i in range(5)), batch=2))) == 3
    assert [len(json.loads(body)) for _, _, body in Broken.asked] == [2, 2, 1]


def test_what_trying_again_cannot_mend_is_told_at_once(client: Client) -> None:
    Broken.plan = [422]
    with pytest.raises(ServiceError, match="answered 422: because of 422") as told:
        client.send([])
    assert told.value.status == 422 and len(Broken.asked) == 1
    Broken.plan = [404]
    assert client.key("a/b", "c d") is None
    assert Broken.asked[-1][0] == "/v1/keys/a%2Fb/c%20d?model=m"


def test_decisions_go_on_behind_the_last_one_after_a_break(client: Client) -> None:
    found = client.decisions()
    assert [next(found)["n"] for _ in range(5)] == [8, 9, 10, 11, 12]
    found.close()
    assert [last for path, last, _ in Broken.asked if "decisions" in path] == ["7", "9", "11"]


def test_patience_ends() -> None:
    with Client("http://127.0.0.1:1", patience=0.2) as client, pytest.raises(ServiceError, match="cannot be reached"):
        client.send([])
    with pytest.raises(SettingError, match="no address"):
        Client("ftp://x")


def test_tables_and_cells_of_python_are_rows_too(client: Client) -> None:
    moment = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
    rows = [{"key": np.int64(3), "size": float("nan"), "at": moment}, {"key": "a", "size": np.float32(0.5), "at": None}]
    wanted = [{"key": 3, "size": None, "at": moment.isoformat()}, {"key": "a", "size": 0.5, "at": None}]
    client.send(rows)
    assert json.loads(Broken.asked[-1][2]) == wanted
    client.labels(pl.DataFrame({"key": ["a", "b"], "label": ["x", "y"]}))
    assert json.loads(Broken.asked[-1][2]) == [{"key": "a", "label": "x"}, {"key": "b", "label": "y"}]
    client.send(pd.DataFrame({"key": [1, 2], "size": [0.5, None], "at": [pd.Timestamp("2026-05-01"), pd.NaT]}))
    assert json.loads(Broken.asked[-1][2]) == [
        {"key": 1, "size": 0.5, "at": "2026-05-01T00:00:00"}, {"key": 2, "size": None, "at": None},
    ]  # fmt: skip
    client.send([{"at": np.datetime64("2026-05-01T12:30:00.25", "ns")}, {"at": np.datetime64("NaT", "ns")}])
    assert json.loads(Broken.asked[-1][2]) == [{"at": "2026-05-01T12:30:00.250000"}, {"at": None}]
    n = len(Broken.asked)
    for wrong, why in (
        ({"key": 1}, "rows are given as dict; give a list of dicts"), ("items.csv", "rows are given as str"),
        ([{"key": 1}, ["a"]], "row 1 is of type list"), ([{"key": {1}}], "row 0, column 'key': set cannot be sent"),
        ([{"at": np.timedelta64(3, "ns")}], "row 0, column 'at': timedelta cannot be sent"),
    ):  # fmt: skip
        with pytest.raises(SettingError, match=why):
            client.send(wrong)
    assert len(Broken.asked) == n


def test_refused_rows_are_counted_from_the_first_of_all(client: Client) -> None:
    answers = list(client.items([{"key": n} for n in range(5)], batch=2))
    assert [one["row"] for answer in answers for one in answer["refused"]] == [1, 3, 5]
    with pytest.raises(SettingError, match="batch is 0"):  # which would send nothing, and say nothing
        list(client.items([{"key": 1}], batch=0))
    with pytest.raises(SettingError, match="row 3, column 'key'"):
        list(client.items([{"key": 1}] * 3 + [{"key": {1}}], batch=2))


def test_what_no_header_can_hold_is_told_at_once_and_no_token_is_shown(client: Client) -> None:
    with pytest.raises(SettingError, match="must be plain characters on one line"):
        client.send([{}], key="ключ")
    with pytest.raises(SettingError) as told:
        Client("http://127.0.0.1:1", token="secret\nother")
    assert "secret" not in str(told.value)
    assert Client("http://127.0.0.1:1", token=" of a file\n")._token == "of a file"
