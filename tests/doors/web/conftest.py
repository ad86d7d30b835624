"""Debian's Chromium for tests of the page; left out where it is missing, unless KVEC_BROWSER=must wants them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

import pytest
from tests.doors.web.made_stream import made_items
from tests.doors.web.mock import Feed, Service

try:
    from playwright.sync_api import Browser, Page, sync_playwright
except ImportError:
    if os.environ.get("KVEC_BROWSER") == "must":
        raise
    sync_playwright = None  # type: ignore[assignment]

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PATIENCE = 60_000  # milliseconds; machines may be busy


def lacking(reason: str) -> Any:
    """Skip for a reason that is no fault of the code, or fail where tests of the page have to run."""
    if os.environ.get("KVEC_BROWSER") == "must":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")  # it runs a loop of asyncio, beside which no other test could run one
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if sync_playwright is None:
        lacking("playwright is missing: pip install 'kvec[dev]'")
    if program is None:
        lacking("chromium not found: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, headless=True, args=FLAGS)
        yield started
        started.close()


@pytest.fixture()
def serve() -> Iterator[Callable[..., Service]]:
    """Start the mock service over a made stream; what a test starts ends with it."""
    with ExitStack() as stack:

        def start(feed: Feed | None = None, **options: Any) -> Service:
            service = Service(feed or known_feed(), **options)
            return stack.enter_context(service)

        yield start


@pytest.fixture()
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open the page of a service; whatever it complains about fails the test."""
    complaints: list[str] = []
    with ExitStack() as stack:

        def open_page(service: Service, is_live: bool = True, **options: Any) -> Page:
            context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda said: _note(complaints, said.type, said.text))
            page.goto(service.address)
            if is_live:
                page.wait_for_selector("#state:is([data-state=live], [data-state=held])")
            return page

        yield open_page
    assert complaints == []


def _note(complaints: list[str], kind: str, text: str) -> None:
    if kind in ("error", "warning") and "Failed to load resource" not in text:  # an answer such as 404 is no fault
        complaints.append(text)


def known_feed(
    n_items: int = 150, keys: int = 6, speed: float = 4.0, length: tuple[int, int] = (6, 20), **options: Any
) -> Feed:
    """The same few items every time, paused until the page has them play."""
    source = islice(made_items(3, keys, pace=6.0, length=length), n_items)
    return Feed(source, speed, **{"is_playing": False, **options})
