"""A small service that speaks the contract of `kvec serve` over a made stream, for the page and its tests."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.doors.web.made_stream import FIELDS, LABELS, THRESHOLD, Item, Key, made_items

WEB = Path(__file__).resolve().parents[3] / "src" / "kvec" / "doors" / "web"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
CURVE = [
    {"threshold": round(1 - e, 3), "earliness": e, "accuracy": a, "hm": 2 * a * (1 - e) / (a + 1 - e)}
    for e in (0.04, 0.06, 0.09, 0.12, 0.16, 0.2, 0.26, 0.33, 0.42, 0.55, 0.7, 0.85, 1.0)
    for a in (round(0.995 - 0.5 * (1 - e) ** 6, 4),)
]


class Feed:
    """The stream as it runs: a thread takes items at their times, those who watch are given frames."""

    def __init__(
        self, source: Iterator[Item], speed: float = 1.0, is_replay: bool = True, is_playing: bool = True
    ) -> None:
        self.lock = threading.Condition()
        self.source, self.speed, self.is_replay = source, speed, is_replay
        self.is_playing, self.is_over = is_playing, False
        self.steps = self.cuts = 0
        self.taken: list[Item] = []
        self.decided: list[Key] = []
        self.keys: dict[tuple[str, str], Key] = {}
        self.point = dict(CURVE[5])
        self.live: dict[str, Any] = {"accuracy": None, "labelled": 0}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self.lock:
            self.is_over = True
            self.lock.notify_all()
        self._thread.join(10)

    def step(self, n: int) -> None:
        """Take so many items."""
        with self.lock:
            until = len(self.taken) + n
            self.steps += n
            self.lock.notify_all()
            assert self.lock.wait_for(lambda: len(self.taken) >= until, 10)

    def cut(self) -> None:
        """End the frames of all who watch; the stream goes on."""
        with self.lock:
            self.cuts += 1

    def _run(self) -> None:
        at, last = 0.0, time.monotonic()
        item = next(self.source, None)
        while item is not None:
            with self.lock:
                if self.is_over:
                    return
                now = time.monotonic()
                if self.is_playing:
                    at += (now - last) * self.speed
                last = now
                while item is not None and (item.time <= at or self.steps):
                    if self.steps:
                        self.steps, at = self.steps - 1, item.time
                    self._take(item)
                    item = next(self.source, None)
                if item is None:
                    self.is_playing = False
                self.lock.notify_all()
                self.lock.wait(0.02)

    def _take(self, item: Item) -> None:
        self.taken.append(item)
        item.is_taken = True
        self.keys[str(item.key.tangle), item.key.name] = item.key
        if item.key.decided and item.i + 1 == item.key.decided[2]:
            self.decided.append(item.key)

    def frames(self) -> Iterator[dict[str, Any]]:
        """The greeting, then what is new, at most twenty times a second."""
        names = {"labels": LABELS, "fields": FIELDS, "session_field": "direction", "is_replayed": self.is_replay}
        yield {"hello": {**names, "model": self.card()}}
        numbers: dict[tuple[int, str], int] = {}
        items, decisions, cuts = len(self.taken), len(self.decided), self.cuts
        while True:
            with self.lock:
                if self.is_over or self.cuts != cuts:
                    return
                new, named = self.taken[items:], self.decided[decisions:]
                items, decisions = len(self.taken), len(self.decided)
                keys, waiting = len(self.keys), sum(1 for key in self.keys.values() if key.decided is None)
            frame: dict[str, Any] = {"now": time.time(), "items": [], "keys": [], "decisions": [], "ended": []}
            for item in new:
                name = (item.key.tangle, item.key.name)
                if name not in numbers:
                    numbers[name] = len(numbers)
                    frame["keys"].append([numbers[name], item.key.tangle, item.key.name, 0, THRESHOLD])
                frame["items"].append(
                    [numbers[name], item.i, item.time, list(item.codes), item.session, round(item.halt, 4), item.best,
                     round(max(item.probabilities), 4)]
                )  # fmt: skip
                if item.i + 1 == item.key.length and item.key.decided:
                    frame["ended"].append([item.key.decided[2], item.key.length, item.key.decided[3]])
            for key in named:
                if (number := numbers.get((key.tangle, key.name))) is not None and key.decided:
                    label, chance, read, reason = key.decided
                    frame["decisions"].append([number, decisions, label, round(chance, 4), read, reason, True])
            frame["counts"] = {
                "items": items, "decisions": decisions, "live": keys, "waiting": waiting, "rate": len(new) / 0.05,
                "dropped_frames_items": 0,
            }  # fmt: skip
            yield frame
            time.sleep(0.05)

    def card(self) -> dict[str, Any]:
        return {
            "name": "default", "hash": "5f2c9a71", "labels": LABELS, "fields": FIELDS, "session": ["direction"],
            "live": self.live, "threshold": THRESHOLD, "delay_cost": None, "promise": None,
            "curve": CURVE, "point": self.point, "settings": {"encoder": {"blocks": 2, "width": 64}},
        }  # fmt: skip

    def key(self, tangle: str, name: str) -> dict[str, Any] | None:
        key = self.keys.get((tangle, name))
        if key is None:
            return None
        seen = [item for item in key.items if item.is_taken]
        final = key.decided if key.decided and len(seen) >= key.decided[2] else None
        last = seen[-1]
        trace = [
            {"i": item.i, "time": item.time, "value": item.value, "halt": item.halt,
             "probabilities": dict(zip(LABELS, item.probabilities, strict=True))}
            for item in seen[-256:]
        ]  # fmt: skip
        return {
            "tangle": key.tangle, "key": key.name, "sequence": 0, "is_final": final is not None,
            "label": LABELS[final[0] if final else last.best],
            "probability": final[1] if final else max(last.probabilities), "labels": {},
            "n_observed": final[2] if final else len(seen), "reason": final[3] if final else None,
            "is_known": True if final else None,
            "halt_probability": last.halt, "trace": trace,
        }  # fmt: skip

    def looks(self, tangle: str, name: str) -> dict[str, Any] | None:
        key = self.keys.get((tangle, name))
        if key is None:
            return None
        own = [n for n, item in enumerate(self.taken) if item.key is key]
        told: dict[int, Item] = {}
        looks: list[dict[str, Any]] = []
        for n in own[-40:]:
            item = self.taken[n]
            same = [m for m in own if m <= n][-4:]
            others = [
                m for m in range(max(0, n - 400), n)
                if self.taken[m].key is not key and self.taken[m].codes == item.codes
                and self.taken[m].key.tangle == key.tangle
            ][-6:]  # fmt: skip
            weights = [1.0 + 0.5 * place for place in range(len(same))] + [0.6 + (m % 5) / 3 for m in others]
            seen = [(m, "own") for m in same] + [(m, "value") for m in others]
            told.update((m, self.taken[m]) for m, _ in seen)
            at = [
                {"i": m, "share": weight / sum(weights), "kind": kind}
                for (m, kind), weight in zip(seen, weights, strict=True)
            ]
            looks.append({"item": n, "at": at})
        places = {n: i for i, n in enumerate(sorted(told))}
        for look in looks:
            look["item"] = places[look["item"]]
            look["at"] = [{**one, "i": places[one["i"]]} for one in look["at"]]
        items = [
            {"i": places[n], "key": item.key.name, "sequence": 0, "n": item.i, "time": item.time, "value": item.value}
            for n, item in sorted(told.items())
        ]
        return {"key": name, "sequence": 0, "items": items, "looks": looks}

    def replay(self) -> dict[str, Any]:
        state = "playing" if self.is_playing else "paused"
        place = {"position": len(self.taken), "length": 5000}
        return {"state": state, "speed": self.speed, **place, "model": "default"}


class Handler(BaseHTTPRequestHandler):
    """Answers by the contract."""

    feed: Feed
    token: str | None = None

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path = urllib.parse.urlsplit(self.path).path
        if path == "/" or path.startswith("/assets/"):
            return self._file(path.removeprefix("/assets/") if path != "/" else "index.html")
        if not self._is_allowed():
            return None
        if path == "/v1/watch":
            return self._watch()
        answer: Any = None
        match path.strip("/").split("/"):
            case ["v1", "model"]:
                answer = self.feed.card()
            case ["v1", "models"]:
                answer = {"models": [{"name": "default"}]}
            case ["v1", "replay"] if self.feed.is_replay:
                answer = self.feed.replay()
            case ["v1", "keys", tangle, key]:
                with self.feed.lock:
                    answer = self.feed.key(tangle, urllib.parse.unquote(key))
            case ["v1", "keys", tangle, key, "looks"]:
                with self.feed.lock:
                    answer = self.feed.looks(tangle, urllib.parse.unquote(key))
        return self._json(answer) if answer is not None else self._problem(404, "there is no such thing")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_allowed():
            return None
        feed = self.feed
        match urllib.parse.urlsplit(self.path).path.strip("/").split("/"):
            case ["v1", "models", "default", "dial"]:
                feed.point = min(CURVE, key=lambda point: abs(point["earliness"] - body["earliness"]))
                return self._json(feed.point)
            case ["v1", "replay"]:
                with feed.lock:
                    feed.is_playing = {"play": True, "pause": False, "step": False}.get(body["action"], feed.is_playing)
                    feed.steps += body["action"] == "step"
                    feed.speed = body.get("speed", feed.speed)
                    feed.lock.notify_all()
                time.sleep(0.05)
                return self._json(feed.replay())
        return self._problem(404, "there is no such thing")

    def _is_allowed(self) -> bool:
        if self.token is None or self.headers.get("Authorization") == f"Bearer {self.token}":
            return True
        self._problem(401, "a token is needed")
        return False

    def _watch(self) -> None:
        self._head(200, "text/event-stream")
        try:
            for frame in self.feed.frames():
                self.wfile.write(f"data: {json.dumps(frame)}\n\n".encode())
                self.wfile.flush()
        except OSError:
            return

    def _file(self, name: str) -> None:
        file = WEB / name
        if not file.is_file() or ".." in name:
            return self._problem(404, "there is no such file")
        self._send(200, TYPES.get(file.suffix, "text/plain"), file.read_bytes())

    def _json(self, value: Any) -> None:
        self._send(200, "application/json", json.dumps(value).encode())

    def _problem(self, status: int, detail: str) -> None:
        self._send(status, "application/problem+json", json.dumps({"status": status, "detail": detail}).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        self.wfile.write(body)

    def _head(self, status: int, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()


class Server(ThreadingHTTPServer):
    """Says nothing of browsers that go away in the middle of an answer."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Service:
    """The mock on a port of its own; `with Service(feed) as service: service.address`."""

    def __init__(self, feed: Feed, token: str | None = None, port: int = 0) -> None:
        handler = type("Own", (Handler,), {"feed": feed, "token": token})
        self.feed = feed
        self.server = Server(("127.0.0.1", port), handler)
        self.port = self.server.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}/"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Service:
        self.feed.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.feed.stop()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(10)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8766)
    options.add_argument("--keys", type=int, default=22)
    options.add_argument("--pace", type=float, default=2.0)
    options.add_argument("--token")
    given = options.parse_args()
    with Service(Feed(made_items(7, given.keys, given.pace)), given.token, given.port) as started:
        print(f"the page is at {started.address}", flush=True)
        threading.Event().wait()
