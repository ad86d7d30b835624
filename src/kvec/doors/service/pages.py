"""The page and its files, read once; only what was found then can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from kvec.doors.service.problems import Refusal

KINDS = {
    "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml", "png": "image/png", "woff2": "font/woff2", "json": "application/json",
}  # fmt: skip
INDEX = "index.html"


class Page(NamedTuple):
    """One file of the page."""

    content: bytes
    kind: str
    tag: str


@cache
def pages() -> dict[str, Page]:
    """The files of the page by name."""
    return dict(_found(files("kvec.doors").joinpath("web"), ""))


def _found(folder: Traversable, before: str) -> Iterator[tuple[str, Page]]:
    for file in folder.iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if file.is_dir():
            yield from _found(file, f"{before}{file.name}/")
        elif kind is not None:
            content = file.read_bytes()
            yield f"{before}{file.name}", Page(content, kind, f'"{blake2b(content, digest_size=12).hexdigest()}"')


async def get_page(request: Request) -> Response:
    """The page."""
    return _answer(request, INDEX)


async def get_asset(request: Request) -> Response:
    """A file of the page."""
    return _answer(request, request.path_params["name"])


def _answer(request: Request, name: str) -> Response:
    page = pages().get(name)
    if page is None:
        raise Refusal(404, "the page has no such file")
    headers = {"ETag": page.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == page.tag:
        return Response(status_code=304, headers=headers)
    return Response(page.content, headers=headers, media_type=page.kind)
