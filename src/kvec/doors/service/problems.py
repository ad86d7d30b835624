"""Refusals as application/problem+json (RFC 9457): what was wrong, where, and the way out."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import orjson
from starlette.responses import Response

T = TypeVar("T")

KIND = "application/problem+json"
RETRY = "1"  # seconds after which to try again where there is no room


class Refusal(Exception):
    """A request that cannot be answered as it was meant; `more` is told beside what is wrong."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, dict(headers or {}), more

    @property
    def body(self) -> bytes:
        """The problem as JSON."""
        title = HTTPStatus(self.status).phrase
        return orjson.dumps(
            {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail, **self.more}
        )

    def response(self) -> Response:
        """The problem as an answer."""
        return Response(self.body, self.status, self.headers, KIND)

    def anew(self) -> Refusal:
        """The same, without the frames that it went through: they hold bodies."""
        return Refusal(self.status, self.detail, self.headers, **self.more)


def unless_refused(found: T | Refusal) -> T:
    """What another thread has found; where it is a refusal, raise one like it.

    Not itself: where an exception is in its own frames, all that these hold stays until Python looks for circles.
    """
    if isinstance(found, Refusal):
        raise found.anew()
    return found


def busy(detail: str = "too many requests wait already; try again soon", **headers: str) -> Refusal:
    """What is told where there is no room."""
    return Refusal(429, detail, {"Retry-After": RETRY, **headers})


def place_of(error: BaseException) -> str:
    """Where something went wrong that nobody thought of; nothing of what was being read is told."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}"
