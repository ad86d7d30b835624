"""Connections that may not linger: slow headers, slow readers and too many of them are cut off."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from kvec.doors.service.bounds import Bounds
from kvec.doors.service.item_routes import ROUTE
from kvec.doors.service.reading import Holding
from kvec.doors.service.service import Service

MOST_HEAD = 64 << 10  # bytes of a request line and its headers


def protocol_of(bounds: Bounds) -> type[HttpToolsProtocol]:
    """The protocol of a server with these bounds."""

    class Guarded(HttpToolsProtocol):
        """HTTP, with patience that ends."""

        _timer: asyncio.TimerHandle | None = None
        _stuck: asyncio.TimerHandle | None = None
        _n_head = 0  # bytes of a head that is not complete; -1: it is

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > bounds.max_connections:
                transport.abort()
                return
            self._begin()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._timer, self._stuck):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.timeout_keep_alive_task is not None and not self.cycle.more_body:
                data = data.lstrip(b"\r\n")  # line breaks between requests are no request
                if not data:
                    return
            if self._n_head >= 0:
                self._n_head += len(data)
            super().data_received(data)
            if self._n_head > MOST_HEAD:
                self.send_400_response("The head of the request is too long.")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._begin()

        def on_headers_complete(self) -> None:
            self._n_head = -1
            if self._timer is not None:
                self._timer.cancel()
            super().on_headers_complete()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete and self.cycle.more_body:  # nobody reads what is left of the body
                self._wait()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stuck = self.loop.call_later(bounds.timeout, self.transport.abort)

        def resume_writing(self) -> None:
            if self._stuck is not None:
                self._stuck.cancel()
            super().resume_writing()

        def _begin(self) -> None:
            """A head may come from now on, within some time."""
            self._n_head = 0
            self._wait()

        def _wait(self) -> None:
            """Close the connection, unless a whole head comes within some time."""
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(bounds.timeout, self.transport.close)

        def send_400_response(self, msg: str) -> None:
            if not self.transport.is_closing():
                super().send_400_response(msg)

    return Guarded


def socket_protocol_of(service: Service) -> type[WebSocketsSansIOProtocol]:
    """The protocol of WebSockets with the bounds of a service."""

    class Guarded(WebSocketsSansIOProtocol):
        """A WebSocket whose client must read, and whose messages are counted while they come in."""

        _stuck: asyncio.TimerHandle | None = None

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._holding = Holding(service)

        def connection_lost(self, exc: Exception | None) -> None:
            self._holding.hold(0)
            if self._stuck is not None:
                self._stuck.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            is_room = self._holding.hold(self._holding.n + len(data))
            is_fair = self._holding.n <= 2 * service.bounds.max_body  # pings count too while a message is not whole
            if (is_room and is_fair) or not self.handshake_complete:
                super().data_received(data)
                self._let_go()
            else:
                service.answered("WS", ROUTE, 429, self.client[0] if self.client else "?")
                self.transport.abort()

        async def receive(self) -> Any:
            message = await super().receive()
            self._let_go()
            return message

        def _let_go(self) -> None:
            """Where no message waits or has begun, hold no more than the beginning of a frame."""
            if self.queue.empty() and not self.frames:
                self._holding.hold(len(self.conn.reader.buffer))

        def pause_writing(self) -> None:
            super().pause_writing()
            self._cut_soon()

        def resume_writing(self) -> None:
            if self._stuck is not None:
                self._stuck.cancel()
            super().resume_writing()

        def keepalive_timeout(self) -> None:
            super().keepalive_timeout()
            self._cut_soon()

        def _cut_soon(self) -> None:
            """Cut the connection off, unless its client reads again."""
            if self._stuck is not None:
                self._stuck.cancel()
            self._stuck = self.loop.call_later(service.bounds.timeout, self.transport.abort)

    return Guarded


def quiet() -> dict[str, Any]:
    """Logging of the server: nothing but what kvec itself says."""
    silent = {"handlers": [], "level": "CRITICAL", "propagate": False}
    return {
        "version": 1, "disable_existing_loggers": False,
        "loggers": {name: silent for name in ("uvicorn", "uvicorn.error", "uvicorn.access")},
    }  # fmt: skip
