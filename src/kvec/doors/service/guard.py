"""Who may ask, and what every answer carries: bearer tokens, hosts and origins, security headers, problems, counts."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvec.doors.service.problems import Refusal
from kvec.doors.service.service import TOKEN, Service
from kvec.words.errors import SettingError

# without a token; and what lies under /assets/
OPEN = ("/", "/v1/healthz", "/v1/readyz", "/healthz", "/readyz", "/v1/openapi.json", "/openapi.json")
LEAST_TOKEN = 16  # characters
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
    "x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin", "permissions-policy": "camera=(), geolocation=(), microphone=()",
}  # fmt: skip
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:]*)(?::\d+)?")


def read_tokens(path: Path) -> frozenset[bytes]:
    """The digests of the tokens in a file, one on each line."""
    try:
        tokens = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise SettingError(f"{path}: cannot read tokens: {why}") from None
    if not tokens:
        raise SettingError(f"{path}: holds no token; make one with: openssl rand -hex 32 > {path}")
    if short := [token for token in tokens if len(token) < LEAST_TOKEN or not token.isascii()]:
        raise SettingError(
            f"{path}: {len(short)} of its tokens cannot be used: shorter than {LEAST_TOKEN} characters, or not plain"
        )
    return frozenset(_digest(token.encode()) for token in tokens)


class Guard:
    """Stands in front of the application."""

    def __init__(self, app: ASGIApp, service: Service, routes: Sequence[BaseRoute]) -> None:
        self._app, self._service, self._routes = app, service, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        status, service = 0, self._service

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/v1/"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            self._require_allowed(scope)
            await self._app(scope, receive, sending)
        except Refusal as refusal:
            await refusal.response()(scope, receive, sending)  # to a WebSocket too
        finally:
            if status:  # of a WebSocket only where it is refused
                client = (scope.get("client") or ["?"])[0]
                service.answered(scope.get("method", "WS"), self._route(scope), status, client)

    def _require_allowed(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        service, host = self._service, headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refusal(403, "this page is not the service's own, so it may not ask here")
        if service.hosts and _name(host) not in service.hosts:
            raise Refusal(
                403, f"asked as {_name(host)[:80]!r}, which is not this machine; use http://127.0.0.1, or --token-file"
            )
        if not service.tokens or scope["path"] in OPEN or scope["path"].startswith("/assets/"):
            return
        kind, _, token = headers.get("authorization", "").partition(" ")
        given = _digest(token.strip().encode("utf-8", "replace"))
        is_known = False
        for known in service.tokens:  # all of them, so that time tells nothing
            is_known |= hmac.compare_digest(given, known)
        if kind.lower() != "bearer" or not is_known:
            is_given = kind.lower() == "bearer" and token.strip()
            why = "the token is wrong" if is_given else "a token is needed: Authorization: Bearer TOKEN"
            raise Refusal(401, why, {"WWW-Authenticate": "Bearer"})
        scope[TOKEN] = given

    def _route(self, scope: Scope) -> str:
        """The path of a request as the application has it, also where it was refused before; never names in it."""
        if found := getattr(scope.get("route"), "path", ""):
            return str(found)
        return next((str(getattr(r, "path", "")) for r in self._routes if r.matches(scope)[0] != Match.NONE), "")


def _name(host: str) -> str:
    """A host without its port."""
    found = _HOST.fullmatch(host.lower())
    return found[1] if found else host


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
