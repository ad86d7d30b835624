"""What a request brings, read with patience and bounds: bodies, parameters, headers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.requests import HTTPConnection, Request
from starlette.types import Receive

from kvec.doors.service.bodies import JSON, LINES, parsed
from kvec.doors.service.problems import Refusal, busy
from kvec.doors.service.served import Served
from kvec.doors.service.service import Service

FORMS = {
    "application/json": JSON, "application/x-ndjson": LINES, "application/ndjson": LINES,
    "application/jsonl": LINES,
}  # fmt: skip
PARAMETERS = ("model", "after")
MOST_KEY = 200  # characters of an idempotency key
PATIENCE = 10  # a body may take so many times as long as a silence
CLOSE = {"Connection": "close"}


class Gone(Exception):
    """The client has left."""


class Holding:
    """The bytes that one request or connection holds while they come in; counted with those of all others."""

    def __init__(self, service: Service) -> None:
        self._service, self.n = service, 0

    def __enter__(self) -> Holding:
        return self

    def __exit__(self, *_: object) -> None:
        self.hold(0)

    def hold(self, n: int) -> bool:
        """Hold so many bytes; whether there is room for them."""
        self._service.n_coming += n - self.n
        self.n = n
        return not self._service.is_full

    def require(self, n: int) -> None:
        """Hold so many bytes; where too many come in at once, they are refused."""
        if not self.hold(n):
            raise busy("too much is being sent at once; try again soon", **CLOSE)


def service_of(connection: HTTPConnection) -> Service:
    """What all answers share."""
    found: Service = connection.app.state.service
    return found


def served_of(connection: HTTPConnection) -> Served:
    """The model that a request chooses; a parameter that is not known may be a misspelt one, and is refused."""
    for name in connection.query_params:
        if name not in PARAMETERS:
            raise Refusal(
                400, f"there is no parameter {name[:80]!r}; there are {' and '.join(PARAMETERS)}", field=name[:80]
            )
    return service_of(connection).hub.find(connection.query_params.get("model"))


def form_of(request: Request) -> str:
    """The form of a body, by its type; any other than JSON is refused, so that no foreign page's form is taken."""
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refusal(415, "compressed bodies are not taken; send it as it is", CLOSE, field="content-encoding")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in FORMS:
        raise Refusal(
            415, "the Content-Type must be application/json or application/x-ndjson; with curl: -H 'Content-Type: "
            "application/json'", CLOSE, field="content-type",
        )  # fmt: skip
    return FORMS[kind]


def key_of(request: Request) -> str:
    """The idempotency key; empty where there is none."""
    key = request.headers.get("idempotency-key", "")
    require_key(key, "Idempotency-Key")
    return key


def require_key(key: Any, field: str) -> None:
    """Refuse what cannot be an idempotency key."""
    if not isinstance(key, str) or len(key) > MOST_KEY or not key.isprintable():
        raise Refusal(400, f"{field} must be at most {MOST_KEY} printable characters", field=field)


def number_of(request: Request, name: str) -> int | None:
    """A whole number from 0 on, of the query, if it is there."""
    text = request.query_params.get(name)
    return None if text is None else require_number(text, name)


def require_number(text: str, name: str) -> int:
    """Text as a whole number from 0 on."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Refusal(400, f"{name} is {text[:40]!r}; it must be a whole number from 0 on", field=name)
    return int(text)


async def chunks(request: Request, service: Service) -> AsyncIterator[bytes]:
    """A body as it comes; one that is too large or too slow is refused."""
    bounds, n = service.bounds, 0
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length[:18]) > bounds.max_body:
        raise _too_large(bounds.max_body)
    until = asyncio.get_running_loop().time() + PATIENCE * bounds.timeout
    receive: Receive = request.receive
    is_over = False
    while not is_over:
        try:
            async with asyncio.timeout_at(min(until, asyncio.get_running_loop().time() + bounds.timeout)):
                message = await receive()
        except TimeoutError:
            raise Refusal(408, "the body came too slowly", CLOSE) from None
        if message["type"] == "http.disconnect":
            raise Gone
        chunk: bytes = message.get("body", b"")
        n += len(chunk)
        if n > bounds.max_body:
            raise _too_large(bounds.max_body)
        is_over = not message.get("more_body", False)
        if chunk:
            yield chunk


async def body_of(request: Request, service: Service) -> bytes:
    """A whole body."""
    parts: list[bytes] = []
    with Holding(service) as holding:
        async for chunk in chunks(request, service):
            holding.require(holding.n + len(chunk))
            parts.append(chunk)
    return b"".join(parts)


async def json_of(request: Request, service: Service) -> Any:
    """A whole body as JSON."""
    if form_of(request) != JSON:
        raise Refusal(415, "the Content-Type must be application/json", CLOSE, field="content-type")
    return parsed(await body_of(request, service))


async def object_of(request: Request, service: Service) -> dict[str, Any]:
    """A whole body as a JSON object."""
    found = await json_of(request, service)
    if not isinstance(found, dict):
        raise Refusal(422, "the body must be a JSON object")
    return found


def names_of(request: Request) -> list[str]:
    """The parts of the path behind /v1/keys/, each decoded by itself: names may hold slashes."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    try:
        return [unquote_to_bytes(part).decode() for part in raw.split(b"?")[0].split(b"/")[3:]]
    except UnicodeDecodeError:
        raise Refusal(400, "the path is not UTF-8 text") from None


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body has more than {most:,} bytes; send it in parts", CLOSE)
