"""What is known of keys and models, and what can be turned: keys, looks, cards, the dial, labels, replay, the watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from kvec import __version__
from kvec.decide.looking_back import Recalled
from kvec.decide.targets import TARGETS
from kvec.doors.messages import say
from kvec.doors.service.bodies import JSON, rows_of
from kvec.doors.service.frames import Watch
from kvec.doors.service.item_routes import events
from kvec.doors.service.problems import Refusal
from kvec.doors.service.reading import body_of, form_of, names_of, object_of, served_of, service_of
from kvec.doors.service.replaying import Replay
from kvec.doors.service.served import Served
from kvec.doors.service.service import Service
from kvec.doors.service.telling import key_told, looks_told, places_of
from kvec.doors.service.versions import Version
from kvec.words.items import Key

FRAMES = 20  # a second
QUIET = 1.0  # seconds after which counts are told though nothing has come


async def get_key(request: Request) -> Response:
    """What is known of a key, with every item that is kept; or where its items looked."""
    service, served = service_of(request), served_of(request)
    names = names_of(request)
    if len(names) == 3 and names[2] == "looks":
        return await _looks(service, served, names[0], names[1])
    if len(names) != 2:
        raise Refusal(404, "write /v1/keys/TANGLE/KEY, or /v1/keys/TANGLE/KEY/looks")
    told = await service.call(lambda: _key(served, *names))
    if told is None:
        raise Refusal(404, "this key was never seen, or it is forgotten")
    return _json(told)


def _key(served: Served, tangle: str, key: str) -> dict[str, Any] | None:
    status, trace = served.about(tangle, key)
    return key_told(status, trace, served.stream.model.vocabulary.label_names)


async def _looks(service: Service, served: Served, tangle: str, key: str) -> Response:
    def recall() -> tuple[Recalled, list[int | None], Key, int] | None:
        status, trace = served.about(tangle, key)
        known = status or trace
        recalled = None if known is None else served.stream.recall(known.tangle)
        if known is None or recalled is None:
            return None
        return recalled, places_of(recalled.remembered, served.traces.find), known.key, known.sequence

    with service.looking():
        found = await service.call(recall)
        if found is None:
            raise Refusal(404, "this key was never seen, or its items are forgotten")
        recalled, places, name, sequence = found
        looked = await service.look(served, recalled)
        return await service.apart(lambda: _json(looks_told(looked, places, name, sequence)))


# -- models -------------------------------------------------------------------------------------------------------


async def get_models(request: Request) -> Response:
    """The models that are served."""
    hub = service_of(request).hub
    models = [
        {"name": name, "hash": one.version.model.hash, "labels": list(one.version.base.vocabulary.labels[0])}
        for name, one in hub.served.items()
    ]
    return _json({"models": models, "default": models[0]["name"]})


async def get_model(request: Request) -> Response:
    """The card of a model."""
    served = served_of(request)
    return _json(card_of(served))


def card_of(served: Served) -> dict[str, Any]:
    """The card of a model, with how things stand."""
    watched = None if served.watcher is None else served.watcher.status()
    live: dict[str, Any] = {"accuracy": served.truths.accuracy, "labelled": served.truths.n_labelled}
    if watched is not None:
        live |= {"promise_holds": watched.holds, "promise_line": watched.line()}
    return {**served.version.card(served.name), "counts": served.counts(), "live": live}


async def post_dial(request: Request) -> Response:
    """Let a model work elsewhere on its trade-off, for sequences from now on."""
    service, served = service_of(request), service_of(request).hub.find(request.path_params["name"])
    target = await object_of(request, service)
    for name, value in target.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if name not in TARGETS or not (is_number or (name == "cost_per_error" and isinstance(value, dict))):
            raise Refusal(422, f"each entry must be a number under one of {', '.join(TARGETS)}", field=name[:80])
    while not await _is_turned(service, served, target):
        pass
    return _json({"point": served.version.told(served.version.point), "model": served.name})


async def _is_turned(service: Service, served: Served, target: dict[str, Any]) -> bool:
    """Turn the dial of the version that decides now; not done where another one takes over meanwhile."""
    before = served.version
    version = await service.apart(lambda: before.aimed(target))

    def turn() -> bool:
        if served.version is not before:
            return False
        if version.point != before.point:
            served.take_over(version, is_turned=True)
            say(f"{served.name}: the dial is turned to {version.point}, from {before.point}")
        return True

    return await service.call(turn)


async def post_reload(request: Request) -> Response:
    """Read a model's folder again; what has changed takes over."""
    service, served = service_of(request), service_of(request).hub.find(request.path_params["name"])
    is_changed = await reload(service, served)
    return _json({"model": served.name, "is_changed": is_changed, "hash": served.version.model.hash})


async def reload(service: Service, served: Served) -> bool:
    """Let the model that is in the folder now take over; whether it is another one, or at another point."""
    try:
        version = await service.apart(service.origins[served.name].read)

        def take_over() -> bool:
            if served.is_started_with(version):
                return False
            served.take_over(version)
            return True

        is_changed = await service.call(take_over)
    except Exception as error:
        say(f"{served.name}: the model as it is now cannot take over: {error}")
        raise
    say(f"{served.name}: " + ("the new model takes over" if is_changed else "the model has not changed"))
    return is_changed


async def post_labels(request: Request) -> Response:
    """Take true labels that have come later."""
    service, served = service_of(request), served_of(request)
    form = form_of(request)
    body = await body_of(request, service)
    return _json(await service.call(lambda: served.label(rows_of(body, form, service.bounds)), len(body)))


# -- replay -------------------------------------------------------------------------------------------------------


def _replay(request: Request) -> Replay:
    replay = service_of(request).replay
    if replay is None:
        raise Refusal(404, "nothing is replayed here; start the service with --replay FILE")
    return replay


async def get_replay(request: Request) -> Response:
    """How the replay stands."""
    return _json(_replay(request).told())


async def post_replay(request: Request) -> Response:
    """Pause, play, step or seek."""
    replay = _replay(request)
    return _json(replay.control(await object_of(request, service_of(request))))


# -- the watch ----------------------------------------------------------------------------------------------------


async def get_watch(request: Request) -> Response:
    """Tell what a page draws, in frames."""
    served = served_of(request)
    return events(request, _frames(request, served))


async def _frames(request: Request, served: Served) -> AsyncIterator[bytes]:
    """A greeting, and frames; another greeting before the frame in which a model or a point is new."""
    service, version, watch = service_of(request), served.version, Watch()
    served.traces.watch(watch)
    try:
        yield _event(_greeting(service, served, version, watch))
        told, marks = time.monotonic(), [(time.monotonic(), served.counts()["items"])]
        while service.is_open_to(request.scope):
            await asyncio.sleep(1 / FRAMES)
            now, counts, new = time.monotonic(), served.counts(), watch.taken()
            marks = [*(mark for mark in marks if now - mark[0] < 1), (now, counts["items"])]
            rate = (marks[-1][1] - marks[0][1]) / max(now - marks[0][0], 1 / FRAMES)
            few = {name: counts[name] for name in ("items", "decisions", "live", "waiting")}
            frame = watch.frame(new, time.time(), few | {"rate": rate})
            if served.version is not version or watch.wording.is_new:
                version = served.version
                yield _event(_greeting(service, served, version, watch))
            if any(new) or now - told >= QUIET:
                told = now
                yield _event(frame)
    finally:
        served.traces.leave(watch)


def _greeting(service: Service, served: Served, version: Version, watch: Watch) -> dict[str, Any]:
    """What the numbers of frames mean, and the card."""
    watch.wording.meet(version.base.vocabulary)
    session = version.base.schema.session
    replay = service.replay
    is_replayed = replay is not None and replay.is_of(served)
    named = {**watch.wording.told(), "session_field": session[0] if session else None, "is_replayed": is_replayed}
    return {"hello": {**named, "model": card_of(served)}}


def _event(content: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % orjson.dumps(content)


# -- health -------------------------------------------------------------------------------------------------------


async def get_health(request: Request) -> Response:
    """Whether the process answers."""
    return _json({"status": "alive", "kvec": __version__})


async def get_ready(request: Request) -> Response:
    """Whether items are taken."""
    service = service_of(request)
    if service.is_stopping or not service.hub.is_ready:
        raise Refusal(503, "the service is not ready, or stopping")
    if service.hub.failures:
        name, why = next(iter(service.hub.failures.items()))
        raise Refusal(503, f"{name}: {why}")
    return _json({"status": "ready", "waiting": service.hub.n_waiting})


async def get_metrics(request: Request) -> Response:
    """What was counted, in Prometheus's format."""
    return Response(service_of(request).meters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _json(found: Any) -> Response:
    return Response(orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY), media_type=f"application/{JSON}")
