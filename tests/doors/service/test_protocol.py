"""Connections that hold too much while it comes in."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import uvicorn
from starlette.responses import Response
from tests.doors.made import Trained
from tests.doors.service.serviced import asked
from uvicorn.server import ServerState
from websockets.protocol import State

from kvec.doors.service.bounds import Bounds
from kvec.doors.service.protocol import protocol_of, quiet, socket_protocol_of


def test_what_is_no_message_is_not_held(lively: Trained) -> None:
    """Answers to pings come for as long as a client listens."""

    async def check() -> None:
        async with asked(lively) as (_, service):
            config = uvicorn.Config(Mock(), log_config=quiet(), lifespan="off", ws_per_message_deflate=False)
            protocol = socket_protocol_of(service)(config, ServerState(), {})
            protocol.connection_made(Mock())
            protocol.handshake_complete = True
            protocol.conn.state = State.OPEN
            protocol.conn.parser = protocol.conn.parse()
            protocol.conn.parser.send(None)
            pong = b"\x8a\x84" + bytes(4) + b"1234"  # masked with zeros
            for _ in range(100):
                protocol.data_received(pong)
            assert service.n_coming == 0
            protocol.data_received(pong[:1])
            assert service.n_coming == 1, "a frame has begun"
            protocol.data_received(pong[1:])
            assert service.n_coming == 0
            protocol.connection_lost(None)

    asyncio.run(check())


def test_messages_of_websockets_are_counted_while_they_come_in(lively: Trained) -> None:
    async def check() -> None:
        async with asked(lively) as (client, service):
            config = uvicorn.Config(Mock(), log_config=quiet(), lifespan="off", ws_per_message_deflate=False)
            protocol = socket_protocol_of(service)(config, ServerState(), {})
            transport = Mock()
            protocol.connection_made(transport)
            protocol.handshake_complete = True
            protocol.data_received(b"GET ")  # not whole
            assert service.n_coming == 4 and not transport.abort.called
            service.n_coming += 64 << 20  # others send too
            protocol.data_received(b"x")
            assert transport.abort.called
            protocol.connection_lost(None)
            assert service.n_coming == 64 << 20
            service.n_coming = 0
            metrics = (await client.get("/metrics")).text
            assert 'kvec_http_requests_total{route="/v1/stream",status="429"} 1.0' in metrics

    asyncio.run(check())


def test_line_breaks_between_requests_do_not_keep_a_connection() -> None:
    async def check() -> None:
        config = uvicorn.Config(Response("there"), log_config=quiet(), lifespan="off")
        config.load()
        protocol = protocol_of(Bounds())(config, ServerState(), {})
        transport = Mock()
        transport.is_closing.return_value = False
        protocol.connection_made(transport)
        request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
        for n in (1, 2):
            protocol.data_received(request)
            while protocol.server_state.total_requests < n:
                await asyncio.sleep(0.001)
            closing = protocol.timeout_keep_alive_task
            assert closing is not None
            protocol.data_received(b"\r\n")
            assert protocol.timeout_keep_alive_task is closing and not closing.cancelled()
            request = b"\r\n" + request
        protocol.connection_lost(None)

    asyncio.run(check())
