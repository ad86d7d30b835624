"""Schemathesis asks whatever the OpenAPI allows, and some that it does not: no answer is a failure of the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE, Serving

from kvec.doors.service.openapi import document

requests = pytest.importorskip("requests")  # schemathesis brings it
schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.checks")

ENDLESS = r"^/v1/(decisions|watch)$"  # answers that go on
schema = schemathesis.openapi.from_dict(document())
asking = settings(max_examples=16, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> bytes:
    """A body of lines: text as it is, anything else as JSON."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value, default=str).encode()


@pytest.fixture(scope="module", params=["without a state", "with a state"])
def address(lively: Trained, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    state = ["--state", tmp_path_factory.mktemp("serving") / "kept"] if request.param == "with a state" else []
    serving = Serving(lively.model, "--timeout", "20", *state)
    yield serving.url
    assert serving.stop() == 0
    assert not [line for line in serving.lines if "failed" in line or "start the service again" in line]


@schema.exclude(path_regex=ENDLESS).parametrize()
@asking
def test_every_answer_is_as_told(address: str, case: Any) -> None:
    answer = case.call(base_url=address, timeout=PATIENCE)
    case.validate_response(answer, checks=[checks.not_a_server_error])
    require_told(case, answer.status_code, answer.headers["content-type"][0], answer.text)


@schema.include(path_regex=ENDLESS).parametrize()
@asking
def test_every_stream_begins_as_told_or_is_refused(address: str, case: Any) -> None:
    with requests.request(**case.as_transport_kwargs(base_url=address), timeout=PATIENCE, stream=True) as answer:
        kind = answer.headers["content-type"]
        if answer.status_code == 200:
            assert kind.startswith("text/event-stream")
            assert next(answer.iter_content(64))  # the first bytes; it never ends
            text = ""
        else:
            text = answer.text
    require_told(case, answer.status_code, kind, text)


@pytest.mark.parametrize(
    "path", ["decisions?after=-1", "decisions?after=x", "decisions?model=none", "watch?model=none"]
)
def test_streams_refuse_wrong_parameters(address: str, path: str) -> None:
    answer = requests.get(f"{address}/v1/{path}", timeout=PATIENCE)
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["field"] in ("after", "model")


def require_told(case: Any, status: int, kind: str, text: str) -> None:
    """An answer must be one that the OpenAPI names, and a refusal a problem."""
    assert status < 500, (status, text)
    assert str(status) in {*case.operation.definition.raw["responses"], "405"}, (status, text)
    if status >= 400:
        assert kind == "application/problem+json"
