"""The application: every route, and how errors are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from kvec.doors.messages import say
from kvec.doors.service import item_routes as items
from kvec.doors.service import model_routes as models
from kvec.doors.service.guard import Guard
from kvec.doors.service.openapi import document
from kvec.doors.service.pages import get_asset, get_page
from kvec.doors.service.problems import Refusal, place_of
from kvec.doors.service.service import Service
from kvec.words.errors import KvecError, ModelError

ROUTES = [
    Route("/v1/items", items.post_items, methods=["POST"]),
    Route("/v1/decisions", items.get_decisions),
    WebSocketRoute(items.ROUTE, items.websocket),
    Route("/v1/keys/{names:path}", models.get_key),
    Route("/v1/models", models.get_models),
    Route("/v1/model", models.get_model),
    Route("/v1/models/{name}/dial", models.post_dial, methods=["POST"]),
    Route("/v1/models/{name}/reload", models.post_reload, methods=["POST"]),
    Route("/v1/labels", models.post_labels, methods=["POST"]),
    Route("/v1/replay", models.get_replay, methods=["GET"]),
    Route("/v1/replay", models.post_replay, methods=["POST"]),
    Route("/v1/watch", models.get_watch),
    Route("/v1/healthz", models.get_health),
    Route("/v1/readyz", models.get_ready),
    Route("/healthz", models.get_health),
    Route("/readyz", models.get_ready),
    Route("/metrics", models.get_metrics),
    Route("/v1/metrics", models.get_metrics),
    Route("/", get_page),
    Route("/assets/{name:path}", get_asset),
]


def build(service: Service) -> ASGIApp:
    """The application of a service, guarded."""
    told = orjson.dumps(document())

    async def get_openapi(request: Request) -> Response:
        return Response(told, media_type="application/json")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.begin()
        yield

    app = Starlette(
        routes=[
            *ROUTES,
            Route("/v1/openapi.json", get_openapi),
            Route("/openapi.json", get_openapi),
            Route(items.ROUTE, items.get_stream),
        ],
        exception_handlers={
            Refusal: _refused, KvecError: _unusable, HTTPException: _http, Exception: _unexpected,
        },
        lifespan=lifespan,
    )  # fmt: skip
    app.router.redirect_slashes = False
    app.state.service = service
    return Guard(app, service, app.routes)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _unusable(request: Request, error: Exception) -> Response:
    is_ours = isinstance(error, ModelError)  # a folder or a disk that someone must mend here
    return Refusal(503 if is_ours else 422, str(error)).response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow", "in another way")
    detail = {
        404: "there is nothing under this path; /v1/openapi.json tells what there is",
        405: f"this path is not asked so, but with {allowed}",
    }
    return Refusal(error.status_code, detail.get(error.status_code, error.detail), error.headers).response()


async def _unexpected(request: Request, error: Exception) -> Response:
    say(f"an answer failed: {place_of(error)}")
    return Refusal(500, "something failed here that should not; the log says what").response()
