"""What the tests of the service share: a served model, requests to it, and an application without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
from tests.doors.made import Trained

from kvec.doors.service.app import build
from kvec.doors.service.asking import Ask, Manner, Settled
from kvec.doors.service.bodies import JSON
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.hub import Hub
from kvec.doors.service.meters import Meters
from kvec.doors.service.served import Served
from kvec.doors.service.service import Origin, Service


def opened(trained: Trained, folder: Path | None = None, bounds: Bounds | None = None, **limits: Any) -> Served:
    origin = Origin(Path(trained.model))
    return Served("default", origin.read(), Manner(bounds or Bounds(), limits), folder, Meters())


def rows_of(trained: Trained, n: int | None = None) -> list[dict[str, Any]]:
    """Items as a client sends them."""
    frame = trained.frame.drop("label")
    return (frame if n is None else frame.head(n)).to_dicts()


def batches(rows: list[dict[str, Any]], size: int) -> list[list[dict[str, Any]]]:
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def taken(served: Served, *bodies: Any, keys: Iterable[str] = ()) -> list[Settled]:
    """Requests that are taken together; their answers."""
    answers: dict[int, Any] = {}
    named = zip(bodies, list(keys) or [""] * len(bodies), strict=True)
    served.take([
        Ask(orjson.dumps(body), JSON, key, lambda answer, i=i: answers.setdefault(i, answer))
        for i, (body, key) in enumerate(named)
    ])  # fmt: skip
    for answer in answers.values():
        if isinstance(answer, Exception):
            raise answer
    return [answers[i] for i in range(len(bodies))]


def crashed(served: Served) -> None:
    """Let a served model go as a kill would: nothing more is written."""
    assert served._keeper is not None
    served._release()


def told(served: Served) -> list[dict[str, Any]]:
    """All decisions of a log."""
    return [orjson.loads(line) for line in served.log.since(0, 10**9)[1]]


def without(decisions: Iterable[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.items() if name not in names} for one in decisions]


@asynccontextmanager
async def asked(
    trained: Trained, folder: Path | None = None, bounds: Bounds | None = None,
    others: Mapping[str, Trained] | None = None, **given: Any,
) -> AsyncIterator[tuple[httpx.AsyncClient, Service]]:  # fmt: skip
    """A client of an application that runs in this process, with further models by their names."""
    bounds = bounds or Bounds()
    first = opened(trained, folder, bounds)
    origins = {"default": Origin(Path(trained.model))}
    origins |= {name: Origin(Path(other.model)) for name, other in (others or {}).items()}
    manner = Manner(bounds, {})
    more = {name: Served(name, origins[name].read(), manner, None, first.meters) for name in others or {}}
    hub = Hub({"default": first, **more}, bounds)
    service = Service(hub, bounds, first.meters, origins, **given)
    first.meters.read(hub.facts, lambda: hub.n_waiting)
    app = build(service)
    service.begin()
    hub.start()
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client:
            yield client, service
    finally:
        service.stop()
        hub.stop()
