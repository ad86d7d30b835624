"""Items in, decisions out: POST /v1/items, the events of /v1/decisions, and the WebSocket for both ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from kvec.doors.service.answered import Answer
from kvec.doors.service.asking import Settled
from kvec.doors.service.bodies import JSON, LINES, parsed
from kvec.doors.service.problems import Refusal
from kvec.doors.service.reading import (
    CLOSE,
    Gone,
    Holding,
    body_of,
    chunks,
    form_of,
    key_of,
    number_of,
    require_key,
    require_number,
    served_of,
    service_of,
)
from kvec.doors.service.served import Served
from kvec.doors.service.service import Service

HEARTBEAT = 15.0  # seconds
BUSY = 0.05  # seconds to wait where a body is being streamed in and too much waits already
EVENTS = "text/event-stream"
ROUTE = "/v1/stream"


async def post_items(request: Request) -> Response:
    """Take items; the answer has the decisions that they settled."""
    service, served = service_of(request), served_of(request)
    form, key = form_of(request), key_of(request)
    try:
        if form == LINES and not key:
            settled = await _streamed(request, service, served)
        else:
            settled = await service.take(served, await body_of(request, service), form, key)
    except Gone:
        return Response(status_code=499)
    return Response(settled.body, media_type="application/json")


async def _streamed(request: Request, service: Service, served: Served) -> Settled:
    """Take lines as they come, and wait for each block before the next one; a refusal says what was taken before."""
    bounds = service.bounds
    parts: list[Settled] = []
    rest, n_rows = b"", 0
    blocks = chunks(request, service)
    is_over = False
    try:
        with Holding(service) as holding:
            while not is_over:
                chunk = await anext(blocks, None)
                is_over = chunk is None
                holding.require(len(rest) + len(chunk or b""))
                whole, line_break, rest = (rest, b"", b"") if chunk is None else (rest + chunk).rpartition(b"\n")
                if not is_over and not line_break and len(rest) > bounds.max_line:
                    raise Refusal(413, f"a line is longer than {bounds.max_line:,} bytes", CLOSE)
                lines = [line for line in whole.split(b"\n") if line.strip()]
                within = lines[: bounds.max_items - n_rows]
                if within:
                    settled = await _patiently(service, served, b"\n".join(within), is_first=not parts)
                    parts.append(_moved(settled, n_rows))
                    n_rows += len(within)
                if len(within) < len(lines):
                    raise Refusal(413, f"more than {bounds.max_items:,} rows; send the rest in parts", CLOSE)
    except Refusal as refusal:
        so_far = _joined(parts)
        refusal.more |= {"taken": so_far.answer.taken, "row": n_rows}
        refusal.more["decisions"] = [orjson.loads(line) for line in so_far.decisions]
        raise
    return _joined(parts)


async def _patiently(service: Service, served: Served, block: bytes, is_first: bool) -> Settled:
    """Take a block; in the middle of a body, wait until there is room for it."""
    while True:
        try:
            return await service.take(served, block, LINES)
        except Refusal as refusal:
            if is_first or refusal.status != 429:
                raise
        await asyncio.sleep(BUSY)


def _moved(settled: Settled, by: int) -> Settled:
    """The answer to a block, with the row numbers of the whole body."""
    if not by or settled.answer.refused == b"[]":
        return settled
    refused = [{**one, "row": one["row"] + by} for one in orjson.loads(settled.answer.refused)]
    return settled._replace(answer=settled.answer._replace(refused=orjson.dumps(refused)))


def _joined(parts: list[Settled]) -> Settled:
    refused = b",".join([part.answer.refused[1:-1] for part in parts if part.answer.refused != b"[]"])
    lines = [line for part in parts for line in part.decisions]
    return Settled(Answer(sum(part.answer.taken for part in parts), 0, len(lines), b"[%b]" % refused), lines)


# -- decisions ----------------------------------------------------------------------------------------------------


async def get_decisions(request: Request) -> Response:
    """Tell decisions as they fall, from a number on."""
    served = served_of(request)
    after = number_of(request, "after")
    if (last := request.headers.get("last-event-id")) is not None:
        after = require_number(last, "Last-Event-ID")
    start = served.log.newest if after is None else after
    _require_there(served, start)
    return events(request, _events(request, served, start))


def events(request: Request, told: AsyncIterator[bytes]) -> Response:
    """Server-sent events; whoever asks for the head alone does not wait for their end."""
    is_head = request.method == "HEAD"
    return Response(media_type=EVENTS) if is_head else StreamingResponse(told, media_type=EVENTS)


def _require_there(served: Served, after: int) -> None:
    log = served.log
    if after + 1 < log.oldest:
        raise Refusal(410, f"decisions before {log.oldest} are gone", oldest=log.oldest, newest=log.newest)
    if after > log.newest:
        raise Refusal(  # to wait would pass by all that fall until then, where numbers have begun anew
            404, f"there is no decision {after} yet; the newest is {log.newest}, so ask after={log.newest}, or from "
            "now on without a number", oldest=log.oldest, newest=log.newest,
        )  # fmt: skip


async def _events(request: Request, served: Served, after: int) -> AsyncIterator[bytes]:
    yield b": decisions of %b\n\n" % served.name.encode()
    async for lines in _since(request, served, after):
        if lines is None:
            yield b": alive\n\n"
            continue
        if not lines:
            yield b'event: gone\ndata: {"oldest":%d}\n\n' % served.log.oldest
            return
        yield b"".join([b"id: %d\nevent: decision\ndata: %b\n\n" % (n, line) for n, line in lines])


async def _since(
    connection: HTTPConnection, served: Served, after: int
) -> AsyncIterator[list[tuple[int, bytes]] | None]:
    """Decisions after a number as they fall; None where nothing is new for a while, none at all where some are gone."""
    service = service_of(connection)
    while service.is_open_to(connection.scope):
        news = service.news(served)
        first, found = served.log.since(after)
        if first != after + 1:
            yield []
            return
        lines = list(enumerate(found, first))
        if lines:
            after = lines[-1][0]
            yield lines
        elif not await service.wait(news, HEARTBEAT):
            yield None


# -- both ways ----------------------------------------------------------------------------------------------------


async def get_stream(request: Request) -> Response:
    """Say that a WebSocket is wanted."""
    raise Refusal(426, "this is a WebSocket; connect to it with ws://", {"Upgrade": "websocket"})


async def websocket(socket: WebSocket) -> None:
    """Take items and tell decisions over one connection."""
    service = service_of(socket)
    try:
        served = served_of(socket)
    except Refusal as refusal:
        await socket.send_denial_response(refusal.response())
        return
    await socket.accept()
    pushing: asyncio.Task[None] | None = None
    sending = asyncio.Lock()
    try:
        while service.is_open_to(socket.scope):
            message = await _message(socket, service)
            if message is None or not service.is_open_to(socket.scope):
                break
            is_first = pushing is None
            try:
                if is_first:
                    after = _after(message, served.log.newest)
                    _require_there(served, after)
                    pushing = asyncio.create_task(_push(socket, served, after, sending))
                answer = await _answer(message, service, served, is_first)
            except Refusal as refusal:
                service.answered("WS", ROUTE, refusal.status, socket.client.host if socket.client else "?")
                answer = b'{"problem":%b,"id":%b}' % (refusal.body, orjson.dumps(_id(message)))
            if answer:
                async with sending:
                    await socket.send_text(answer.decode())
        await socket.close(1001 if service.is_stopping else 1008)
    except (WebSocketDisconnect, RuntimeError):  # gone, perhaps in the middle of an answer
        pass
    finally:
        if pushing is not None:
            pushing.cancel()
            with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                await pushing


async def _message(socket: WebSocket, service: Service) -> bytes | None:
    """The next message; None where the connection may not go on."""
    receiving = asyncio.ensure_future(socket.receive())
    closed = asyncio.ensure_future(service.closed(socket.scope))
    try:
        await asyncio.wait({receiving, closed}, return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            return None
        message = receiving.result()
    finally:
        receiving.cancel()
        closed.cancel()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    text = message.get("text")
    return message.get("bytes") or b"" if text is None else text.encode("utf-8", "replace")


def _after(message: bytes, newest: int) -> int:
    found = _object(message).get("after", newest)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise Refusal(422, "after must be a whole number from 0 on", field="after")
    return found


def _object(message: bytes) -> dict[str, Any]:
    found = parsed(message)
    if not isinstance(found, dict):
        raise Refusal(422, "a message must be a JSON object")
    return found


def _id(message: bytes) -> Any:
    with contextlib.suppress(Refusal):
        found = _object(message).get("id")
        return found if isinstance(found, str) else None
    return None


async def _answer(message: bytes, service: Service, served: Served, is_first: bool) -> bytes:
    found = _object(message)
    known = ("items", "id", "after") if is_first else ("items", "id")
    if unknown := [name for name in found if name not in known]:
        raise Refusal(
            422, f"{unknown[0][:80]!r} has no meaning here; a message has 'items' and may have 'id', and the first one "
            "'after'", field=unknown[0][:80],
        )  # fmt: skip
    if "items" not in found:
        if is_first and "id" not in found:
            return b""
        raise Refusal(422, "the message has no 'items'", field="items")
    key = found.get("id", "")
    require_key(key, "id")
    try:
        items = orjson.dumps(found["items"])
    except orjson.JSONEncodeError:  # it can be read deeper than it can be written
        raise Refusal(422, "the items are nested too deeply", field="items") from None
    settled = await service.take(served, items, JSON, key)
    answer = settled.answer
    return b'{"taken":%d,"refused":%b,"id":%b}' % (answer.taken, answer.refused, orjson.dumps(key))


async def _push(socket: WebSocket, served: Served, after: int, sending: asyncio.Lock) -> None:
    async for lines in _since(socket, served, after):
        if lines is None:
            continue
        if not lines:
            async with sending:
                await socket.send_text(f'{{"gone":{{"oldest":{served.log.oldest}}}}}')
            return
        for _, line in lines:
            async with sending:
                await socket.send_text(f'{{"decision":{line.decode()}}}')
