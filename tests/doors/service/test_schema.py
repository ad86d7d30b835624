"""Schemathesis asks whatever the OpenAPI allows, and some that it does not: no answer is a failure of the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, settings
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE, Serving

from kvec.doors.service.openapi import document

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.checks")

ENDLESS = r"^/v1/(decisions|watch)$"  # answers that go on; they are asked in test_process
schema = schemathesis.openapi.from_dict(document()).exclude(path_regex=ENDLESS)


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> bytes:
    """A body of lines: text as it is, anything else as JSON."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else orjson.dumps(value, default=str)


@pytest.fixture(scope="module", params=["without a state", "with a state"])
def address(lively: Trained, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    state = ["--state", tmp_path_factory.mktemp("serving") / "kept"] if request.param == "with a state" else []
    serving = Serving(lively.model, "--timeout", "20", *state)
    yield serving.url
    assert serving.stop() == 0
    assert not [line for line in serving.lines if "failed" in line or "start the service again" in line]


@schema.parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_answer_is_as_told(address: str, case: Any) -> None:
    answer = case.call(base_url=address, timeout=PATIENCE)
    case.validate_response(answer, checks=[checks.not_a_server_error])
    told = case.operation.definition.raw["responses"]
    assert str(answer.status_code) in {*told, "405"}, (answer.status_code, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"][0] == "application/problem+json"
