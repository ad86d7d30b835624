"""Schemathesis asks whatever the OpenAPI allows, and some that it does not: no answer is a failure of the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE, Serving

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.checks")

ENDLESS = r"^/v1/(decisions|watch)$"  # answers that go on; they are asked in test_process


@pytest.fixture(scope="module")
def api(lively: Trained) -> Iterator[Any]:
    serving = Serving(lively.model, "--timeout", "20")
    yield schemathesis.openapi.from_url(f"{serving.url}/v1/openapi.json").exclude(path_regex=ENDLESS)
    assert serving.stop() == 0
    assert not [line for line in serving.lines if "failed" in line or "start the service again" in line]


schema = schemathesis.pytest.from_fixture("api")


@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_answer_is_as_told(case: Any) -> None:
    answer = case.call(timeout=PATIENCE)
    case.validate_response(answer, checks=[checks.not_a_server_error])
    assert answer.status_code < 500 or (answer.status_code == 503 and "stopping" not in answer.text)
    told = case.operation.definition.raw["responses"]
    assert str(answer.status_code) in told, (answer.status_code, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"][0] == "application/problem+json"
