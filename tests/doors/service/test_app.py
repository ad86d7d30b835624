"""The application without a network: what it answers, what it refuses, and how."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shutil
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from starlette.routing import Route
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE
from tests.doors.service.serviced import asked, rows_of

from kvec.decide.looking_back import LookedBack, Recalled
from kvec.doors.service.app import ROUTES
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.guard import read_tokens
from kvec.doors.service.openapi import PATHS, document
from kvec.doors.service.problems import Refusal
from kvec.doors.service.service import MOST_LOOKING, Service
from kvec.doors.service.versions import Version
from kvec.words.errors import ModelError, SettingError

LINES = {"content-type": "application/x-ndjson"}
JSON_KIND = {"content-type": "application/json"}
Check = Callable[[httpx.AsyncClient, Service], Awaitable[None]]


def check(trained: Trained, wish: Check, folder: Path | None = None, **given: Any) -> None:
    async def run() -> None:
        async with asked(trained, folder, **given) as (client, service):
            await wish(client, service)

    asyncio.run(run())


def problem_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    """A refusal as it should be."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail"} <= found.keys()
    assert found["status"] == status
    return found


def test_items_go_in_and_decisions_come_out(lively: Trained) -> None:
    rows = rows_of(lively, 600)

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        one = (await client.post("/v1/items", json=rows[0])).json()
        assert (one["taken"], one["refused"]) == (1, [])
        many = (await client.post("/v1/items?model=default", json=rows[1:300])).json()
        lines = b"\n".join(orjson.dumps(row) for row in rows[300:]) + b"\nnonsense\n"
        streamed = (await client.post("/v1/items", content=lines, headers=LINES)).json()
        assert (many["taken"], streamed["taken"]) == (299, 300)
        assert [one["row"] for one in streamed["refused"]] == [300]
        decisions = one["decisions"] + many["decisions"] + streamed["decisions"]
        assert [d["n"] for d in decisions] == list(range(1, len(decisions) + 1))

        decided = decisions[-1]
        path = f"/v1/keys/{decided['tangle']}/{decided['key']}"
        key = (await client.get(path)).json()
        assert key["is_final"] and key["label"] == decided["label"]
        assert len(key["trace"]) >= decided["n_observed"]
        step = key["trace"][decided["n_observed"] - 1]
        assert step["i"] == decided["n_observed"] - 1
        assert sum(step["probabilities"].values()) == pytest.approx(1)
        assert step["probabilities"][decided["label"]] == pytest.approx(decided["probability"], abs=1e-6)
        looks = (await client.get(f"{path}/looks")).json()
        assert looks["looks"]
        for look in looks["looks"]:
            assert looks["items"][look["item"]]["key"] == decided["key"]
            assert 0 < sum(at["share"] for at in look["at"]) <= 1.0001
            assert all(at["i"] <= look["item"] for at in look["at"])
            assert {at["kind"] for at in look["at"]} <= {"own", "value", "other"}
        problem_of(await client.get("/v1/keys/none/such"), 404)

    check(lively, wish)


def test_lines_that_are_streamed_in_are_taken_as_they_come(lively: Trained) -> None:
    rows = rows_of(lively, 400)

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        async def pieces() -> Any:
            whole = b"\n".join(orjson.dumps(row) for row in [*rows[:200], {"key": 1}, *rows[200:]])
            for start in range(0, len(whole), 777):  # in the middle of lines
                yield whole[start : start + 777]

        answer = (await client.post("/v1/items", content=pieces(), headers=LINES)).json()
        assert answer["taken"] == 400
        assert [one["row"] for one in answer["refused"]] == [200]
        assert service.hub.served["default"].stream.counters.items == 400

        async def long() -> Any:
            yield orjson.dumps(rows[0]) + b"\n"
            for _ in range(100):
                yield b"x" * 100

        told = problem_of(await client.post("/v1/items", content=long(), headers=LINES), 413)
        assert told["taken"] == 1 and "longer than 5,000 bytes" in told["detail"]

        async def silent() -> Any:
            yield orjson.dumps(rows[0]) + b"\n"
            await asyncio.sleep(PATIENCE)

        told = problem_of(await client.post("/v1/items", content=silent(), headers=LINES), 408)
        assert (told["taken"], told["row"]) == (1, 1)

        async def endless() -> Any:
            while True:
                yield (orjson.dumps(rows[0]) + b"\n") * 50

        told = problem_of(await client.post("/v1/items", content=endless(), headers=LINES), 413)
        assert told["taken"] == told["row"] > 100 and "more than 100,000 bytes" in told["detail"]
        fallen = [one["n"] for one in told["decisions"]]
        log = service.hub.served["default"].log
        assert fallen == list(range(log.newest - len(fallen) + 1, log.newest + 1)), "the problem has them"

        before = service.hub.served["default"].stream.counters.items
        many = (orjson.dumps({"key": 1}) + b"\n") * 5_001
        told = problem_of(await client.post("/v1/items", content=many, headers=LINES), 413)
        assert (told["taken"], told["row"]) == (0, 5_000) and "more than 5,000 rows" in told["detail"]
        assert service.hub.served["default"].stream.counters.items == before, "no item is among them"

        async def failing() -> Any:
            yield orjson.dumps(rows[0]) + b"\n"
            service.hub.served["default"].health.failure = "the disk is full"
            yield orjson.dumps(rows[0]) + b"\n"

        told = problem_of(await client.post("/v1/items", content=failing(), headers=LINES), 503)
        assert told["taken"] == 1 and "the disk is full" in told["detail"]
        assert service.n_coming == 0

    check(lively, wish, bounds=Bounds(max_line=5_000, max_body=100_000, timeout=1.0, max_items=5_000))


def test_what_is_coming_in_is_bounded_over_all_requests(lively: Trained) -> None:
    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        service.n_coming = 64 << 20  # bytes of others, as many as may come
        for path, headers in (("/v1/items", LINES), ("/v1/items", JSON_KIND), ("/v1/labels", JSON_KIND)):
            told = await client.post(path, content=b"[]", headers=headers)
            problem_of(told, 429)
            assert told.headers["retry-after"] == "1" and told.headers["connection"] == "close"
        service.n_coming -= 2
        assert (await client.post("/v1/items", content=b"[]", headers=JSON_KIND)).status_code == 200
        assert service.n_coming == (64 << 20) - 2

    check(lively, wish, bounds=Bounds(max_body=1000))


def test_labels_that_wait_are_counted_by_their_bytes(lively: Trained) -> None:
    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        is_held, release = threading.Event(), threading.Event()

        def hold() -> None:
            is_held.set()
            release.wait()

        service.hub.call(hold)
        try:
            await asyncio.to_thread(is_held.wait)
            body = b"[" + b" " * (4 << 20) + b"]"
            some = [asyncio.create_task(client.post("/v1/labels", content=body, headers=JSON_KIND)) for _ in range(4)]
            while service.hub.n_waiting < 4:
                await asyncio.sleep(0.01)
            told = await asyncio.wait_for(client.post("/v1/labels", content=body, headers=JSON_KIND), PATIENCE)
            problem_of(told, 429)
            some[0].cancel()  # whoever sent them has gone
        finally:
            release.set()
        await asyncio.wait(some)
        assert (await client.post("/v1/labels", content=body, headers=JSON_KIND)).status_code == 200
        assert service.hub._bytes == 0

    check(lively, wish, bounds=Bounds(max_body=(4 << 20) + 2))


def test_looks_are_taken_apart_from_the_streams_and_once(lively: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    looked = Recalled.looked

    def noting(recalled: Recalled) -> LookedBack:
        threads.append(threading.current_thread().name)
        return looked(recalled)

    monkeypatch.setattr(Recalled, "looked", noting)

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        rows = rows_of(lively, 300)
        await client.post("/v1/items", json=rows)
        path = f"/v1/keys/{rows[0]['tangle']}/{rows[0]['key']}/looks"
        answers = await asyncio.gather(*(client.get(path) for _ in range(5)))
        assert len({answer.content for answer in answers}) == 1 and answers[0].status_code == 200
        assert len(threads) == 1 and threads[0] != "kvec-streams"
        await client.post("/v1/items", json=rows[:1])
        assert (await client.get(path)).status_code == 200 and len(threads) == 2
        with contextlib.ExitStack() as stack:
            for _ in range(MOST_LOOKING):
                stack.enter_context(service.looking())
            problem_of(await client.get(path), 429)
        assert (await client.get(path)).status_code == 200

    check(lively, wish)


def test_what_was_refused_is_let_go_of_at_once(lively: Trained) -> None:
    """Not when Python looks for circles, which it seldom does: bodies are large."""

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        for _ in range(5):
            problem_of(await client.post("/v1/items", content=b"{", headers=JSON_KIND), 400)
            problem_of(await client.post("/v1/labels", content=b"{", headers=JSON_KIND), 400)
            problem_of(await client.get("/v1/keys/never/seen"), 404)
        left = [one for one in gc.get_objects() if type(one) is Refusal]
        assert len(left) <= 1 and not [one for one in left if one.__traceback__], "the last one, without its frames"

    gc.collect()
    gc.disable()
    try:
        check(lively, wish)
    finally:
        gc.enable()


def test_what_must_be_mended_here_is_no_fault_of_who_asks(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any) -> None:
        raise ModelError("model: is damaged")

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        monkeypatch.setattr("kvec.doors.service.versions.read_folder", damaged)
        assert "is damaged" in problem_of(await client.post("/v1/models/default/reload"), 503)["detail"]
        assert (await client.get("/readyz")).status_code == 200

    check(lively, wish, tmp_path / "kept")


def test_a_dial_that_cannot_be_kept_is_told_and_stops_the_model(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        await client.post("/v1/items", json=rows_of(lively, 200))
        with monkeypatch.context() as broken:
            broken.setattr("kvec.decide.snapshot.sync_folder", full)
            told = problem_of(await client.post("/v1/models/default/dial", json={"threshold": 0.123}), 503)
        assert "nothing is taken any more" in told["detail"] and "No space" in told["detail"]
        for path in ("/v1/readyz", "/readyz"):
            assert "No space" in problem_of(await client.get(path), 503)["detail"]
        assert (await client.get("/healthz")).status_code == 200

    check(lively, wish, tmp_path / "kept")


def test_a_folder_that_was_tuned_since_takes_over(lively: Trained, tmp_path: Path) -> None:
    made = Trained(tmp_path)
    shutil.copytree(lively.model, made.model)

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        reload = "/v1/models/default/reload"
        assert (await client.post(reload)).json()["is_changed"] is False
        card = orjson.loads((tmp_path / "model" / "kvec.json").read_bytes())
        card["operating_point"]["threshold"] = 0.123
        (tmp_path / "model" / "kvec.json").write_bytes(orjson.dumps(card))
        assert (await client.post(reload)).json()["is_changed"] is True
        assert (await client.get("/v1/model")).json()["threshold"] == 0.123
        await client.post("/v1/models/default/dial", json={"threshold": 0.5})
        assert (await client.post(reload)).json()["is_changed"] is False

    check(made, wish)


def test_the_same_key_again_gets_the_first_answer(lively: Trained, tmp_path: Path) -> None:
    rows = rows_of(lively, 300)

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        key = {"Idempotency-Key": "a/1"}
        answers = await asyncio.gather(*(client.post("/v1/items", json=rows, headers=key) for _ in range(5)))
        assert len({answer.content for answer in answers}) == 1
        assert service.hub.served["default"].stream.counters.items == 300
        problem_of(await client.post("/v1/items", json=rows, headers={"Idempotency-Key": "x" * 201}), 400)

    check(lively, wish, tmp_path / "kept")


def test_what_cannot_be_used_is_refused_with_a_reason(lively: Trained) -> None:
    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        for body in (b"{", b"\xff\xfe", b'"\xc3\x28"', b"[1,", b"NaN", b"[" * 100_000):
            told = problem_of(await client.post("/v1/items", content=body, headers=JSON_KIND), 400)
            assert "not JSON" in told["detail"] or "not UTF-8 text: byte" in told["detail"]
        told = problem_of(await client.post("/v1/items", content=b'{"key": "a\xff"}', headers=JSON_KIND), 400)
        assert told["detail"] == "the body is not UTF-8 text: byte 11 of it does not fit"
        told = problem_of(await client.post("/v1/items", content=b'[{},\n{"key" 1}]', headers=JSON_KIND), 400)
        assert told["detail"].endswith("at line 2, column 8")
        lines = (await client.post("/v1/items", content=b'{"key" 1}\n"\xff"\n', headers=LINES)).json()["refused"]
        assert lines[0]["detail"].endswith("at column 8") and "not UTF-8 text: byte 2" in lines[1]["detail"]
        packed = {**JSON_KIND, "content-encoding": "gzip"}
        assert problem_of(await client.post("/v1/items", json=[], headers=packed), 415)["field"] == "content-encoding"
        told = problem_of(await client.post("/v1/items?modle=default", json=[]), 400)
        assert told["detail"] == "there is no parameter 'modle'; there are model and after"
        assert "neither" in problem_of(await client.post("/v1/items", json=3), 422)["detail"]
        assert problem_of(await client.post("/v1/items", content=b"a=1"), 415)["field"] == "content-type"
        told = problem_of(await client.post("/v1/items?model=other", json=[]), 404)
        assert told["field"] == "model" and "there are default" in told["detail"]
        problem_of(await client.post("/v1/items", json=[{}] * 1001), 413)
        problem_of(await client.post("/v1/items", content=b" " * 200_000, headers=JSON_KIND), 413)
        assert problem_of(await client.get("/v1/items"), 405)["detail"].endswith("but with POST")
        assert "/v1/openapi.json tells" in problem_of(await client.get("/v1/nothing"), 404)["detail"]
        assert "ws://" in problem_of(await client.get("/v1/stream"), 426)["detail"]
        for after in ("-1", "x", "1e3", "٣"):
            assert problem_of(await client.get("/v1/decisions", params={"after": after}), 400)["field"] == "after"
        told = problem_of(await client.get("/v1/decisions?after=9"), 404)
        assert told["newest"] == 0 and "there is no decision 9 yet; the newest is 0, so ask after=0" in told["detail"]
        told = problem_of(await client.post("/v1/models/m/dial", json={"earliness": 0.1}), 404)
        assert "there is no model 'm' here; there are default" in told["detail"]
        problem_of(await client.get("/v1/replay"), 404)

    check(lively, wish, bounds=Bounds(max_items=1000, max_body=100_000))


@pytest.mark.parametrize(
    "path",
    ["/assets/../../client.py", "/assets/..%2f..%2fclient.py", "/assets/%2e%2e/app.py", "//etc/passwd", "/assets/",
     "/v1/keys/%ff/a", "/v1/keys/a", "/v1/keys/a/b/c/d", "/v1/keys/..%2f..%2fx/looks", "/assets/C:%5Cx", "/%00"],
)  # fmt: skip
def test_paths_lead_nowhere_else(lively: Trained, path: str) -> None:
    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        answer = await client.get(path)
        assert answer.status_code in (400, 404)
        assert answer.headers["content-type"] == "application/problem+json"

    check(lively, wish)


def test_the_head_of_an_event_stream_comes_alone(lively: Trained) -> None:
    async def check() -> None:
        async with asked(lively) as (client, _):
            for path in ("/v1/decisions", "/v1/watch"):
                answer = await asyncio.wait_for(client.head(path), PATIENCE)
                assert answer.status_code == 200 and answer.content == b""
                assert answer.headers["content-type"].startswith("text/event-stream")

    asyncio.run(check())


def test_names_may_hold_slashes(lively: Trained) -> None:
    row = {**rows_of(lively, 1)[0], "tangle": "a/b", "key": "é?#/looks"}

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        await client.post("/v1/items", json=row)
        found = (await client.get("/v1/keys/a%2Fb/%C3%A9%3F%23%2Flooks")).json()
        assert (found["tangle"], found["key"]) == ("a/b", "é?#/looks")

    check(lively, wish)


def test_the_card_the_dial_and_the_folder(lively: Trained, tmp_path: Path) -> None:
    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        assert (await client.get("/v1/models")).json()["default"] == "default"
        card = (await client.get("/v1/model")).json()
        assert card["labels"] == sorted(card["labels"]) and card["threshold"] == card["point"]["threshold"]
        assert [field["name"] for field in card["fields"]] == ["size", "direction"]
        assert all(0 <= point["hm"] <= 1 for point in card["curve"]) and len(card["curve"]) > 10
        await client.post("/v1/items", json=rows_of(lively, 200))
        wanted = card["curve"][len(card["curve"]) // 2]["earliness"]
        turned = (await client.post("/v1/models/default/dial", json={"earliness": wanted})).json()
        assert turned["point"]["earliness"] == pytest.approx(wanted, abs=0.05)
        assert (await client.get("/v1/model")).json()["threshold"] == turned["point"]["threshold"]
        assert service.hub.served["default"].stream.threshold == turned["point"]["threshold"]
        for target, field in (({"earlyness": 1}, "earlyness"), ({"earliness": "x"}, "earliness")):
            told = problem_of(await client.post("/v1/models/default/dial", json=target), 422)
            assert told["field"] == field
        problem_of(await client.post("/v1/models/default/dial", json={"earliness": 7}), 422)
        problem_of(await client.post("/v1/models/default/dial", json={}), 422)
        problem_of(await client.post("/v1/models/other/dial", json={"earliness": 0.5}), 404)
        assert (await client.post("/v1/models/default/reload")).json()["is_changed"] is False

    check(lively, wish, tmp_path / "kept")


def test_a_dial_turns_the_model_that_decides_then(lively: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer model takes over while the point is being found on the older one."""

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        served = service.hub.served["default"]
        newer = replace(served.version)
        found, n = Version.aimed, 0

        def aimed(version: Version, target: Any) -> Version:
            nonlocal n
            n += 1
            if n == 1:
                service.hub.call(lambda: served.take_over(newer)).result()
            return found(version, target)

        monkeypatch.setattr(Version, "aimed", aimed)
        assert (await client.post("/v1/models/default/dial", json={"threshold": 0.5})).status_code == 200
        assert n == 2 and served.stream.threshold == served.version.point.threshold

    check(lively, wish)


def test_labels_give_a_live_accuracy(lively: Trained) -> None:
    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        answer = (await client.post("/v1/items", json=rows_of(lively, 1500))).json()
        rows = [{"tangle": d["tangle"], "key": d["key"], "label": d["label"]} for d in answer["decisions"][:4]]
        other = next(name for name in ("web", "chat") if name != rows[0]["label"])
        rows[0]["label"] = other
        told = (await client.post("/v1/labels", json=[*rows, {"key": "never seen", "label": other}])).json()
        assert (told["taken"], told["decided"], told["accuracy"]) == (5, 4, 0.75)
        metrics = (await client.get("/metrics")).text
        assert 'kvec_live_accuracy{model="default"} 0.75' in metrics
        assert 'kvec_judged_total{model="default",verdict="right"} 3.0' in metrics
        assert (await client.get("/v1/model")).json()["live"]["labelled"] == 4
        mended = {**rows[0], "label": answer["decisions"][0]["label"]}
        assert (await client.post("/v1/labels", json=mended)).json()["accuracy"] == 1.0, "the newest label counts"
        assert (await client.get("/v1/model")).json()["live"]["labelled"] == 4

    check(lively, wish)


def test_tokens_hosts_and_origins(lively: Trained, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("a-token-of-someone\nanother-token-000\n")

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic a-token-of-someone"}):
            for path in ("/v1/model", "/metrics", "/v1/keys/a/b", "/v1/replay"):
                told = await client.get(path, headers=headers)
                is_wrong = headers.get("Authorization") == "Bearer wrong"
                assert problem_of(told, 401)["detail"].startswith("the token is wrong" if is_wrong else "a token is n")
                assert told.headers["www-authenticate"] == "Bearer"
        for token in ("a-token-of-someone", "another-token-000"):
            assert (await client.get("/v1/model", headers={"Authorization": f"Bearer {token}"})).status_code == 200
        for path in ("/", "/v1/healthz", "/v1/readyz", "/healthz", "/readyz", "/v1/openapi.json", "/openapi.json"):
            assert (await client.get(path)).status_code == 200
        problem_of(await client.get("/", headers={"Origin": "http://evil.example"}), 403)

    check(lively, wish, tokens=read_tokens(file))

    async def without_tokens(client: httpx.AsyncClient, service: Service) -> None:
        problem_of(await client.get("/v1/model", headers={"Host": "evil.example"}), 403)
        assert (await client.get("/v1/model", headers={"Host": "LOCALHOST:8765"})).status_code == 200

    check(lively, without_tokens, hosts=frozenset({"127.0.0.1", "localhost"}))
    file.write_text("short\n")
    with pytest.raises(SettingError, match="1 of its tokens"):
        read_tokens(file)
    with pytest.raises(SettingError, match="cannot read tokens"):
        read_tokens(tmp_path / "none")


def test_every_answer_carries_the_headers(lively: Trained) -> None:
    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        for path in ("/", "/v1/model", "/v1/nothing", "/metrics"):
            headers = (await client.get(path)).headers
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
        page = await client.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        again = await client.get("/", headers={"If-None-Match": page.headers["etag"]})
        assert again.status_code == 304

    check(lively, wish)


def test_too_many_requests_are_told_to_come_again(lively: Trained) -> None:
    rows = rows_of(lively, 50)

    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        is_held, release = threading.Event(), threading.Event()

        def hold() -> None:
            is_held.set()
            release.wait()

        held = service.hub.call(hold)
        try:
            await asyncio.to_thread(is_held.wait)
            waiting = [asyncio.create_task(client.post("/v1/items", json=rows)) for _ in range(3)]
            while service.hub.n_waiting < 3:
                await asyncio.sleep(0.01)
            told = await client.post("/v1/items", json=rows)
        finally:
            release.set()
        problem_of(told, 429)
        assert told.headers["retry-after"] == "1"
        assert [(await one).status_code for one in waiting] == [200] * 3
        await asyncio.wrap_future(held)
        assert (await client.post("/v1/items", json=rows)).status_code == 200

    check(lively, wish, bounds=Bounds(max_queue=3))


def test_a_failure_is_told_once_and_nothing_more_is_taken(
    lively: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def wish(client: httpx.AsyncClient, service: Service) -> None:
        served = service.hub.served["default"]
        await client.post("/v1/items", json=rows_of(lively, 10))
        assert served._keeper is not None
        served._keeper.journal._file.close()  # type: ignore[union-attr]
        for _ in range(2):
            told = problem_of(await client.post("/v1/items", json=rows_of(lively, 10)), 503)
            assert "nothing is taken any more" in told["detail"]
        problem_of(await client.get("/v1/readyz"), 503)
        assert (await client.get("/v1/healthz")).status_code == 200

    check(lively, wish, tmp_path / "kept")
    assert capsys.readouterr().err.count("start the service again") == 1


def test_every_route_is_told_in_the_openapi() -> None:
    told = {(path, verb.upper()) for path, verbs in PATHS.items() for verb in verbs}
    served = set()
    for route in ROUTES:
        if isinstance(route, Route):
            served |= {(route.path, method) for method in (route.methods or ()) if method != "HEAD"}
    keys = {("/v1/keys/{tangle}/{key}", "GET"), ("/v1/keys/{tangle}/{key}/looks", "GET")}
    served = (served - {("/v1/keys/{names:path}", "GET"), ("/assets/{name:path}", "GET")}) | keys
    assert told == served | {("/v1/openapi.json", "GET"), ("/assets/{name}", "GET")}
    names = [one["operationId"] for verbs in document()["paths"].values() for one in verbs.values()]
    assert len(set(names)) == len(names)
