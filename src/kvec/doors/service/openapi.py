"""The service told as OpenAPI 3.1: one entry for every route, with examples."""

from __future__ import annotations

from typing import Any

from kvec import __version__

Plain = dict[str, Any]
MODEL: Plain = {
    "name": "model", "in": "query", "required": False, "schema": {"type": "string", "minLength": 1},
    "description": "The name of a model; without it, the first one.",
}  # fmt: skip
NAMES: list[Plain] = [
    {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "description": f"The name of the {name}, percent-encoded: a slash is %2F.",
    }
    for name in ("tangle", "key")
]
NAME: Plain = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
DECISION: Plain = {
    "id": "link-7/10.0.0.1:443/0", "n": 17, "model": "default", "tangle": "link-7", "key": "10.0.0.1:443",
    "sequence": 0, "label": "video", "probability": 0.93, "labels": {"label": {"label": "video", "probability": 0.93}},
    "n_observed": 4, "length": None, "reason": "halted", "is_known": True, "familiarity": None, "at": 1790000000.25,
}  # fmt: skip
ITEM: Plain = {"tangle": "link-7", "key": "10.0.0.1:443", "time": 12.5, "size": 1400, "direction": 1}
ANSWER: Plain = {"taken": 2, "decisions": [DECISION], "refused": [{"row": 1, "detail": "column 'time': is no time"}]}
NAMED = {"type": ["string", "integer"]}
SCHEMAS: Plain = {
    "Item": {
        "type": "object",
        "description": "A row of the model's schema, as GET /v1/model tells it.",
        "additionalProperties": True,
        "examples": [ITEM],
    },
    "Decision": {
        "type": "object",
        "required": ["id", "n", "model", "tangle", "key", "sequence", "label", "probability", "n_observed", "reason"],
        "properties": {
            "id": {"type": "string"}, "n": {"type": "integer", "description": "Its number in this model's log."},
            "model": {"type": "string"}, "tangle": NAMED, "key": NAMED, "sequence": {"type": "integer"},
            "label": {"type": "string"}, "probability": {"type": "number"}, "labels": {"type": "object"},
            "n_observed": {"type": "integer"}, "length": {"type": ["integer", "null"]},
            "reason": {"enum": ["halted", "ended", "expired", "evicted", "closed"]},
            "is_known": {"type": "boolean", "description": "False: too unsure or too strange, if asked to say so."},
            "familiarity": {"type": ["number", "null"], "description": "Where it was asked for by --at unknown_below."},
            "at": {"type": "number", "description": "When it fell, in seconds since 1970."},
        },
        "examples": [DECISION],
    },
    "Answer": {
        "type": "object",
        "required": ["taken", "decisions", "refused"],
        "properties": {
            "taken": {"type": "integer"},
            "decisions": {"type": "array", "items": {"$ref": "#/components/schemas/Decision"}},
            "refused": {"type": "array", "items": {"$ref": "#/components/schemas/RefusedRow"}},
            "forgotten": {
                "type": "integer",
                "description": "Decisions of a repeated request that the log has let go of.",
            },
        },
        "examples": [ANSWER],
    },
    "RefusedRow": {
        "type": "object",
        "required": ["row", "detail"],
        "properties": {"row": {"type": "integer"}, "detail": {"type": "string"}},
    },
    "Label": {
        "type": "object",
        "required": ["key", "label"],
        "properties": {
            "tangle": NAMED, "key": NAMED, "label": {"type": "string"},
            "sequence": {
                "type": "integer", "minimum": 0, "maximum": 2**63 - 1,
                "description": "Without it, the newest that is decided, or the newest where none is.",
            },
        },
        "examples": [{"tangle": "link-7", "key": "10.0.0.1:443", "label": "video"}],
    },
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
            "detail": {"type": "string"}, "field": {"type": "string"}, "row": {"type": "integer"},
            "taken": {"type": "integer", "description": "Of a body that was streamed in: items taken before."},
            "decisions": {"type": "array", "description": "Of a body that was streamed in: what these settled."},
        },
        "examples": [{
            "type": "about:blank", "title": "Not Found", "status": 404, "detail": "there is no model 'other' here",
            "field": "model",
        }],
    },
}  # fmt: skip
WHY = {
    400: "Something in the request cannot be read.", 401: "A token is needed.", 403: "Not from this host or page.",
    404: "There is no such thing.", 408: "The body came too slowly.", 410: "These decisions are gone.",
    413: "Too large; send it in parts.", 415: "Another Content-Type is needed.",
    422: "The request was read, and cannot be used.", 429: "Too much waits already; Retry-After says when to come.",
    503: "Not now.",
}  # fmt: skip
BODY = (400, 408, 413, 415, 429)


def document() -> Plain:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kvec serve", "version": __version__, 
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Early classification of tangled key-value sequences: items in, decisions out. "
            "WS /v1/stream takes {items, id} and pushes {decision}; see the manual.",
        },
        "paths": {path: {verb: dict(one) for verb, one in verbs.items()} for path, verbs in PATHS.items()},
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }  # fmt: skip


def _problem(status: int) -> Plain:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": WHY[status], "content": content}


def _one(
    name: str, summary: str, good: Plain, *statuses: int, parameters: list[Plain] | None = None,
    body: Plain | None = None,
) -> Plain:  # fmt: skip
    refused = {str(status): _problem(status) for status in sorted({401, 403, *statuses})}
    found: Plain = {"operationId": name, "summary": summary, "responses": {"200": good, **refused}}
    if parameters:
        found["parameters"] = parameters
    if body is not None:
        found["requestBody"] = {"required": True, "content": body}
    return found


def _json(schema: Plain, example: Any = None) -> Plain:
    content: Plain = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {"description": "The answer.", "content": {"application/json": content}}


def _text(kind: str, description: str) -> Plain:
    return {"description": description, "content": {kind: {"schema": {"type": "string"}}}}


def _ref(name: str) -> Plain:
    return {"$ref": f"#/components/schemas/{name}"}


def _few(*names: str) -> Plain:
    return {"type": "object", "required": list(names)}


ITEMS: Plain = {
    "application/json": {
        "schema": {"oneOf": [_ref("Item"), {"type": "array", "items": _ref("Item")}]}, "example": [ITEM],
    },
    "application/x-ndjson": {
        "schema": {"type": "string"},
        "example": '{"tangle": "link-7", "key": "10.0.0.1:443", "time": 12.5, "size": 1400}\n',
    },
}  # fmt: skip
LABELS: Plain = {
    "application/json": {"schema": {"oneOf": [_ref("Label"), {"type": "array", "items": _ref("Label")}]}},
}
KEY_HEADER: Plain = {
    "name": "Idempotency-Key", "in": "header", "required": False,
    "schema": {"type": "string", "maxLength": 200, "pattern": "^[!-~]*$"},
    "description": "The same key again gets the first answer, and takes nothing.",
}  # fmt: skip
AFTER: Plain = {
    "name": "after", "in": "query", "required": False, "schema": {"type": "integer", "minimum": 0},
    "description": "Decisions behind this number; without it, those from now on.",
}  # fmt: skip
LAST: Plain = {
    "name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "integer", "minimum": 0},
}  # fmt: skip
TARGET: Plain = {
    "application/json": {
        "schema": {
            "type": "object", "minProperties": 1, "additionalProperties": False,
            "properties": {
                name: {"type": "number"}
                for name in (
                    "earliness", "accuracy", "threshold", "delay_cost", "cost_per_error", "cost_per_item",
                    "cost_per_second",
                )
            },
        },
        "example": {"earliness": 0.1},
    }
}  # fmt: skip
WISH: Plain = {
    "application/json": {
        "schema": {
            "type": "object", "required": ["action"],
            "properties": {
                "action": {"enum": ["pause", "play", "step", "seek"]},
                "speed": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000},
                "position": {"type": "integer", "minimum": 0},
            },
        },
        "example": {"action": "play", "speed": 2},
    }
}  # fmt: skip
LOOKS: Plain = {
    "key": "10.0.0.1:443", "sequence": 0,
    "items": [
        {"i": 0, "key": "10.0.0.9:80", "sequence": 2, "n": 5, "time": 12.4, "value": {"size": 1400, "direction": 1}},
        {"i": 1, "key": "10.0.0.1:443", "sequence": 0, "n": 0, "time": 12.5, "value": {"size": 1400, "direction": 1}},
    ],
    "looks": [{"item": 1, "at": [{"i": 0, "share": 0.7, "kind": "value"}, {"i": 1, "share": 0.3, "kind": "own"}]}],
}  # fmt: skip
EVENTS = "text/event-stream"
PATHS: Plain = {
    "/v1/items": {
        "post": _one(
            "take_items", "Take items: one, an array, or lines that may be streamed in.", _json(_ref("Answer"), ANSWER),
            404, *BODY, 422, 503, parameters=[MODEL, KEY_HEADER], body=ITEMS,
        ),
    },
    "/v1/decisions": {
        "get": _one(
            "tell_decisions", "Decisions as they fall, as server-sent events.",
            _text(EVENTS, "Events `decision` with the number as their id."), 400, 404, 410,
            parameters=[MODEL, AFTER, LAST],
        ),
    },
    "/v1/keys/{tangle}/{key}": {
        "get": _one(
            "tell_key", "What is known of a key, item by item.",
            _json(_few("tangle", "key", "sequence", "is_final", "label", "probability", "is_known", "trace")), 400,
            404, 429, 503, parameters=[*NAMES, MODEL],
        ),
    },
    "/v1/keys/{tangle}/{key}/looks": {
        "get": _one(
            "tell_looks", "Which items each item of the key's newest sequence looked at.",
            _json(_few("key", "sequence", "items", "looks"), LOOKS), 400, 404, 429, 503, parameters=[*NAMES, MODEL],
        ),
    },
    "/v1/models": {"get": _one("tell_models", "The models that are served.", _json(_few("models", "default")))},
    "/v1/model": {
        "get": _one(
            "tell_model", "The card of a model.", _json(_few("name", "labels", "fields", "threshold", "curve")), 400,
            404, parameters=[MODEL],
        ),
    },
    "/v1/models/{name}/dial": {
        "post": _one(
            "turn_dial", "Let a model work elsewhere on its trade-off, for sequences from now on.",
            _json(_few("point", "model")), 404, *BODY, 422, 503, parameters=[NAME], body=TARGET,
        ),
    },
    "/v1/models/{name}/reload": {
        "post": _one(
            "reload_model", "Read a model's folder again; what has changed takes over.",
            _json(_few("model", "is_changed", "hash")), 404, 422, 429, 503, parameters=[NAME],
        ),
    },
    "/v1/labels": {
        "post": _one(
            "take_labels", "Take true labels that have come later.",
            _json(_few("taken", "decided", "new", "refused")), 404, *BODY, 422, 503, parameters=[MODEL], body=LABELS,
        ),
    },
    "/v1/replay": {
        "get": _one("tell_replay", "How a replay stands.", _json(_few("state", "speed", "position")), 404),
        "post": _one(
            "control_replay", "Pause, play, step or seek.", _json(_few("state", "speed", "position")), 404, *BODY, 422,
            body=WISH,
        ),
    },
    "/v1/watch": {
        "get": _one(
            "watch", "What the page draws, in frames.", _text(EVENTS, "Frames of at most 20 a second."), 400, 404,
            parameters=[MODEL],
        ),
    },
    "/v1/healthz": {"get": _one("tell_health", "Whether the process answers.", _json(_few("status")))},
    "/v1/readyz": {"get": _one("tell_ready", "Whether items are taken.", _json(_few("status")), 503)},
    "/healthz": {"get": _one("tell_health_too", "The same.", _json(_few("status")))},
    "/readyz": {"get": _one("tell_ready_too", "The same.", _json(_few("status")), 503)},
    "/metrics": {"get": _one("tell_metrics", "What was counted.", _text("text/plain", "Prometheus's format."))},
    "/v1/metrics": {"get": _one("tell_metrics_too", "The same.", _text("text/plain", "Prometheus's format."))},
    "/v1/openapi.json": {"get": _one("tell_openapi", "This document.", _json(_few("openapi", "paths")))},
    "/": {"get": _one("page", "The page.", _text("text/html", "A page."))},
    "/assets/{name}": {
        "get": _one(
            "asset", "A file of the page.",
            {"description": "A file.", "content": {"text/javascript": {}, "text/css": {}, "image/svg+xml": {}}}, 404,
            parameters=[NAME],
        ),
    },
}  # fmt: skip
