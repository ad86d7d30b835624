"""A service in a process: tokens, events, WebSockets, slow and rude clients, signals."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE, Serving
from tests.doors.service.serviced import rows_of
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from kvec.client import Client, ServiceError

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "0123456789abcdef0123"
AUTH = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def serving(lively: Trained, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("serving")
    (folder / "tokens").write_text(TOKEN)
    found = Serving(
        lively.model, "--state", folder / "kept", "--token-file", folder / "tokens", "--timeout", "2",
        "--max-body", "1000000", "--max-line", "50000", "--keep-decisions", "20",
    )  # fmt: skip
    with Client(found.url, token=TOKEN) as client:
        client.send(rows_of(lively, 3))  # so that there is a state to keep, whichever tests follow
    yield found
    assert found.stop() == 0
    assert any("stopped; the state is kept in" in line for line in found.lines)
    assert (folder / "kept" / "default" / "stream.state").is_file()
    assert not any(TOKEN in line for line in found.lines)


def test_a_client_sends_and_hears(serving: Serving, lively: Trained) -> None:
    with Client(serving.url, token=TOKEN) as client:
        start = client.model()["counts"]["decisions"]
        answers = list(client.items(rows_of(lively, 700), batch=100))
        assert sum(answer["taken"] for answer in answers) == 700
        fallen = [one for answer in answers for one in answer["decisions"]]
        listening = client.decisions(after=start)
        heard = [next(listening) for _ in fallen[-10:]] if len(fallen) <= 20 else []
        listening.close()
        assert heard == fallen[: len(heard)]
        key = client.key(fallen[-1]["tangle"], fallen[-1]["key"])
        assert key is not None and key["label"] == fallen[-1]["label"]
        assert client.key("never", "seen") is None
        assert client.labels([{**_named(fallen[-1]), "label": fallen[-1]["label"]}])["decided"] == 1
        again = client.send(rows_of(lively, 5), key="mine")
        assert client.send(rows_of(lively, 5), key="mine") == again
    for token in (None, "wrong"):
        with Client(serving.url, token=token) as client, pytest.raises(ServiceError, match="401"):
            client.send([])


def _named(decision: dict[str, Any]) -> dict[str, Any]:
    return {"tangle": decision["tangle"], "key": decision["key"]}


def test_events_resume_and_what_is_gone_is_told(serving: Serving, lively: Trained) -> None:
    with Client(serving.url, token=TOKEN) as client:
        while client.model()["counts"]["decisions"] < 40:
            list(client.items(rows_of(lively)))
        with pytest.raises(ServiceError, match="410") as gone:
            next(client.decisions(after=0))
    oldest = gone.value.problem["oldest"]
    with httpx.stream("GET", f"{serving.url}/v1/decisions?after={oldest}", headers=AUTH, timeout=PATIENCE) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        seen = []
        for line in answer.iter_lines():
            if line.startswith("id: "):
                seen.append(int(line[4:]))
            if len(seen) == 3:
                break
    headers = {**AUTH, "Last-Event-ID": str(seen[0])}
    with httpx.stream("GET", f"{serving.url}/v1/decisions", headers=headers, timeout=PATIENCE) as answer:
        again = next(line for line in answer.iter_lines() if line.startswith("id: "))
    assert seen == [oldest + 1, oldest + 2, oldest + 3] and again == f"id: {seen[1]}"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_lines_for_curl_on_the_page(lively: Trained, tmp_path: Path) -> None:
    lines = re.findall(r"^curl .*", (ROOT / "docs" / "serve.md").read_text(encoding="utf-8"), re.MULTILINE)
    rows = rows_of(lively, 20)
    (tmp_path / "items.ndjson").write_text("\n".join(map(json.dumps, rows)))
    serving, told = Serving(lively.model), []
    try:
        for line in lines:
            words = shlex.split(line.replace("http://127.0.0.1:8765", serving.url), comments=True)
            is_endless = "-N" in words
            run = subprocess.run(
                [*words, "-sS", "-i", *(["--max-time", "2"] if is_endless else [])], cwd=tmp_path, capture_output=True,
                text=True, timeout=PATIENCE, check=False,
            )  # fmt: skip
            assert " 200 OK" in run.stdout.splitlines()[0], run.stdout + run.stderr
            told.append(run.stdout.partition("\n\n")[2])
    finally:
        assert serving.stop() == 0
    one, many, key, dial = map(json.loads, told[:4])
    assert (one["taken"], one["refused"]) == (1, []) and (many["taken"], many["refused"]) == (len(rows), [])
    assert key["key"] == "k" and dial["model"] == "default" and len(told) == len(lines) == 5


def test_both_ways_over_a_websocket(serving: Serving, lively: Trained) -> None:
    address = serving.url.replace("http", "ws") + "/v1/stream"
    for headers in ({}, {"Authorization": "Bearer wrong"}, {**AUTH, "Origin": "http://evil.example"}):
        with pytest.raises(InvalidStatus) as refused, connect(address, additional_headers=headers):
            pass
        assert refused.value.response.status_code in (401, 403)
    with pytest.raises(InvalidStatus) as refused, connect(f"{address}?model=other", additional_headers=AUTH):
        pass
    assert refused.value.response.status_code == 404
    serving.wait_for("WS /v1/stream answered with 401 to 127.0.0.1")
    assert httpx.get(f"{serving.url}/v1/keys/a/secret", timeout=PATIENCE).status_code == 401
    serving.wait_for(r"GET /v1/keys/\{names:path\} answered with 401 to 127.0.0.1")
    assert httpx.get(f"{serving.url}/v1/nothing", headers=AUTH, timeout=PATIENCE).status_code == 404
    serving.wait_for("GET of an unknown path answered with 404 to 127.0.0.1")
    assert not any("secret" in line for line in serving.lines)
    serving.wait_for("WS /v1/stream answered with 404 to 127.0.0.1")
    metrics = httpx.get(f"{serving.url}/metrics", headers=AUTH, timeout=PATIENCE).text
    assert 'kvec_http_requests_total{route="/v1/stream",status="404"} 1.0' in metrics
    rows = [{**row, "tangle": f"ws {row['tangle']}"} for row in rows_of(lively, 400)]
    with connect(address, additional_headers=AUTH, open_timeout=PATIENCE) as socket_:
        socket_.send(json.dumps({"items": rows, "id": "one"}))
        decisions, taken = [], None
        while taken is None:
            message = json.loads(socket_.recv(PATIENCE))
            if "decision" in message:
                decisions.append(message["decision"])
            else:
                taken = message
        assert taken == {"taken": 400, "refused": [], "id": "one"}
        socket_.send(json.dumps({"items": rows, "id": "one"}))
        while "taken" not in (message := json.loads(socket_.recv(PATIENCE))):
            decisions.append(message["decision"])
        assert message == taken
        odd = ('{"itmes": []}', '{"id": "q"}', '{"after": 3}', "{}", json.dumps(rows[0]))
        for bad in ("nonsense", "[]", '{"items": 3}', '{"items": [], "id": 7}', b"\xff", *odd):
            socket_.send(bad)
            while "problem" not in (message := json.loads(socket_.recv(PATIENCE))):
                decisions.append(message["decision"])
            assert message["problem"]["status"] in (400, 422)
    assert decisions and all(one["tangle"].startswith("ws ") for one in decisions)
    numbers = [one["n"] for one in decisions]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    with connect(address, additional_headers=AUTH, open_timeout=PATIENCE) as socket_:
        socket_.send(json.dumps({"after": numbers[-1] - 1}))
        assert json.loads(socket_.recv(PATIENCE))["decision"]["n"] == numbers[-1]


def test_a_websocket_may_be_quiet_for_long_before_its_first_message(serving: Serving, lively: Trained) -> None:
    """So long that all decisions of its beginning are gone."""
    address = serving.url.replace("http", "ws") + "/v1/stream"
    with connect(address, additional_headers=AUTH, open_timeout=PATIENCE) as socket_:
        with Client(serving.url, token=TOKEN) as client:
            wanted = client.model()["counts"]["decisions"] + 50
            for round_ in range(1000):
                if client.model()["counts"]["decisions"] >= wanted:
                    break
                list(client.items([{**row, "tangle": f"{round_} {row['tangle']}"} for row in rows_of(lively)]))
        socket_.send(json.dumps({"items": [], "id": "first"}))
        assert json.loads(socket_.recv(PATIENCE)) == {"taken": 0, "refused": [], "id": "first"}


def test_a_token_that_is_taken_away_ends_what_it_has_opened(lively: Trained, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN}\n{'b' * 20}\n")
    serving = Serving(lively.model, "--token-file", tokens)
    address = serving.url.replace("http", "ws") + "/v1/stream"
    try:
        with (
            connect(address, additional_headers=AUTH, open_timeout=PATIENCE) as socket_,
            httpx.stream("GET", f"{serving.url}/v1/decisions", headers=AUTH, timeout=PATIENCE) as decisions,
            httpx.stream("GET", f"{serving.url}/v1/watch", headers=AUTH, timeout=PATIENCE) as frames,
        ):
            socket_.send(json.dumps({"items": []}))
            assert json.loads(socket_.recv(PATIENCE))["taken"] == 0
            tokens.write_text("b" * 20)
            serving.process.send_signal(signal.SIGHUP)
            serving.wait_for("read again: 1 token")
            assert b"".join(decisions.iter_raw()).startswith(b": decisions of default")
            assert b"hello" in b"".join(frames.iter_raw())
            with pytest.raises(ConnectionClosed) as closed:
                socket_.recv(PATIENCE)  # also where it is silent
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
    finally:
        assert serving.stop() == 0


def test_frames_are_watched(serving: Serving, lively: Trained) -> None:
    url = f"{serving.url}/v1/watch"
    rows = [{**row, "tangle": f"seen {row['tangle']}"} for row in rows_of(lively, 300)]
    with httpx.stream("GET", url, headers=AUTH, timeout=PATIENCE) as answer:
        lines = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
        hello = next(lines)["hello"]
        assert hello["session_field"] == "direction" and hello["model"]["name"] == "default"
        with Client(serving.url, token=TOKEN) as client:
            fallen = client.send(rows)["decisions"]
        items: list[list[Any]] = []
        names: dict[int, list[Any]] = {}
        decided: list[list[Any]] = []
        while len(items) < 300 or len(decided) < len(fallen):
            frame = next(lines)
            items += frame["items"]
            names |= {key[0]: key[1:] for key in frame["keys"]}
            decided += frame["decisions"]
            assert frame["counts"]["dropped_frames_items"] == 0
    assert [names[item[0]][:2] for item in items] == [[row["tangle"], row["key"]] for row in rows]
    sizes = next(field["values"] for field in hello["fields"] if field["name"] == "size")
    known = [(item[3][0], row["size"]) for item, row in zip(items, rows, strict=True) if item[3][0] >= 0]
    assert known and all(sizes[code] == size for code, size in known)
    assert [(one[1], hello["labels"][one[2]], one[4]) for one in decided] == [
        (one["n"], one["label"], one["n_observed"]) for one in fallen
    ]


def raw(serving: Serving, *parts: bytes, wait: float = 0.0) -> bytes:
    """What is answered to bytes as they are; until the connection is closed."""
    with socket.create_connection(("127.0.0.1", serving.port), timeout=PATIENCE) as one:
        for part in parts:
            try:
                one.sendall(part)
            except OSError:
                break
            time.sleep(wait)
        answer = b""
        try:
            while some := one.recv(65536):
                answer += some
        except OSError:
            pass
        return answer


HEAD = f"POST /v1/items HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([b"GET /v1/healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "], None),  # and then silence
        ([HEAD + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n[{"], 408),
        ([HEAD.replace(b"0123", b"wrong") + b"Content-Length: 1000\r\n\r\n", b"["], 401),
        ([HEAD + b"Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"], 413),
        ([HEAD + b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
          *[b"10000\r\n" + b"x" * 0x10000 + b"\r\n"] * 20], 413),
        ([b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 1_000_000], 400),
        ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10], 400),
        ([b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n"], 400),
    ],
    ids=["slow head", "slow body", "refused", "huge", "endless line", "long head", "not HTTP", "bytes in the path"],
)  # fmt: skip
def test_rude_clients_are_cut_off(serving: Serving, parts: list[bytes], status: int | None) -> None:
    began = time.monotonic()
    answer = raw(serving, *parts)
    assert time.monotonic() - began < PATIENCE / 2
    if status is not None and answer:  # one that is still sending may hear nothing
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    if status is None:
        assert answer == b""
    assert httpx.get(f"{serving.url}/v1/readyz", timeout=PATIENCE).status_code == 200


def test_a_line_without_an_end_is_cut_off(serving: Serving) -> None:
    sent, chunk = 0, b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", serving.port), timeout=PATIENCE) as one:
        one.sendall(HEAD + b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while sent < 1 << 30:
                one.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass
    assert sent < 64 << 20  # what the buffers on the way can hold, not a gigabyte
    assert httpx.get(f"{serving.url}/v1/readyz", timeout=PATIENCE).status_code == 200


def test_items_that_are_nested_too_deeply_are_refused_over_a_websocket(serving: Serving) -> None:
    address = f"ws://127.0.0.1:{serving.port}/v1/stream"
    with connect(address, additional_headers=AUTH, open_timeout=PATIENCE) as socket_:
        socket_.send('{"items":' + "[" * 400 + "]" * 400 + ',"id":"deep"}')
        told = json.loads(socket_.recv(PATIENCE))
        assert told["id"] == "deep" and told["problem"]["status"] == 422
        assert told["problem"]["detail"] == "the items are nested too deeply"


def test_a_websocket_whose_client_does_not_read_is_cut_off(serving: Serving, lively: Trained) -> None:
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    head = f"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(PATIENCE)
        one.connect(("127.0.0.1", serving.port))
        one.sendall(head + b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + key + b"\r\n")
        assert b"101" in one.recv(1024)
        message = b"\x81\xfe" + (1000).to_bytes(2, "big") + bytes(4) + b'{"items":3,"id":"%b"}' % (b"i" * 979)
        one.settimeout(0.2)
        until = time.monotonic() + PATIENCE
        is_cut = False
        while not is_cut and time.monotonic() < until:  # each message is answered with a problem; nobody reads
            try:
                one.sendall(message)
            except TimeoutError:
                pass
            except OSError:
                is_cut = True
    assert is_cut
    assert httpx.get(f"{serving.url}/v1/readyz", timeout=PATIENCE).status_code == 200


def test_sighup_reads_tokens_and_models_again(serving: Serving) -> None:
    serving.process.send_signal(signal.SIGHUP)
    serving.wait_for("read again: 1 token")
    serving.wait_for("default: the model has not changed")
