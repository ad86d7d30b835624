"""Two models of one service: what goes to the one is not in the other."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from tests.doors.made import Trained
from tests.doors.service.serviced import asked, rows_of

from kvec.doors.service.service import Service


async def _counts(client: httpx.AsyncClient, service: Service, name: str) -> tuple[int, int]:
    await service.call(lambda: None)  # they are counted just behind the answer
    found: dict[str, int] = (await client.get("/v1/model", params={"model": name})).json()["counts"]
    return found["items"], found["decisions"]


def test_two_models_keep_apart(trained: Trained, lively: Trained) -> None:
    rows = rows_of(lively, 600)

    async def wish() -> None:
        async with asked(lively, others={"sure": trained}) as (client, service):
            names = (await client.get("/v1/models")).json()
            assert [one["name"] for one in names["models"]] == ["default", "sure"] and names["default"] == "default"
            said = (await client.post("/v1/items?model=sure", json=rows[:400])).json()
            assert said["taken"] == 400 and {one["model"] for one in said["decisions"]} == {"sure"}
            assert await _counts(client, service, "sure") == (400, len(said["decisions"]))
            assert await _counts(client, service, "default") == (0, 0)
            decided = said["decisions"][0]
            path = f"/v1/keys/{decided['tangle']}/{decided['key']}"
            assert (await client.get(path)).status_code == 404  # the other one has not seen it
            assert (await client.get(path, params={"model": "sure"})).json()["is_final"]

            key = {"Idempotency-Key": "a/1"}  # each model has keys of its own
            both: list[dict[str, Any]] = [
                (await client.post("/v1/items", params={"model": name}, json=rows[400:], headers=key)).json()
                for name in ("default", "sure")
            ]
            assert [one["taken"] for one in both] == [200, 200]
            assert (await _counts(client, service, "default"))[0] == 200 and (await _counts(client, service, "sure"))[
                0
            ] == 600
            assert [one["n"] for one in both[0]["decisions"]] == list(range(1, len(both[0]["decisions"]) + 1))

            before = (await client.get("/v1/model", params={"model": "sure"})).json()["threshold"]
            await client.post("/v1/models/default/dial", json={"threshold": 0.9})
            assert (await client.get("/v1/model")).json()["threshold"] == 0.9
            assert (await client.get("/v1/model", params={"model": "sure"})).json()["threshold"] == before

            text = (await client.get("/metrics")).text
            items = {
                sample.labels["model"]: sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
                if sample.name == "kvec_items_total"
            }
            assert items == {"default": 200, "sure": 600}

    asyncio.run(wish())
