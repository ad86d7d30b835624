"""kill -9 under load: no acknowledged item is lost, no decision comes twice, by the record of the clients."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE, Serving, free_port
from tests.doors.service.serviced import batches, opened, taken, told

from kvec.client import Client

BATCH = 40
KILLS = 2


def test_killed_under_load(lively: Trained, tmp_path: Path) -> None:
    frame = lively.frame.drop("label")
    parts = [frame.filter(pl.col("tangle") % 2 == i).to_dicts() for i in range(2)]
    whole = opened(lively)
    for part in parts:
        for some in batches(part, BATCH):
            taken(whole, some)
    wanted = {one["id"]: (one["label"], one["n_observed"], one["reason"]) for one in told(whole)}

    port = free_port()
    arguments = (lively.model, "--state", tmp_path / "kept", "--every", "1s")
    serving = Serving(*arguments, port=port)
    acknowledged: list[list[dict[str, Any]]] = [[], []]
    heard: list[dict[str, Any]] = []
    errors: list[BaseException] = []

    def send(i: int) -> None:
        try:
            with Client(serving.url, patience=PATIENCE) as client:
                for answer in client.items(parts[i], BATCH):
                    acknowledged[i].append(answer)
                    time.sleep(0.01)
        except BaseException as error:
            errors.append(error)

    def listen() -> None:
        try:
            with Client(serving.url, patience=PATIENCE) as client:
                for decision in client.decisions(after=0):
                    heard.append(decision)
                    if len(heard) == len(wanted):
                        return
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=send, args=(i,)) for i in range(2)] + [threading.Thread(target=listen)]
    for thread in threads:
        thread.start()
    n_batches = sum(-(-len(part) // BATCH) for part in parts)
    chance = random.Random(5)
    try:
        for kill in range(1, KILLS + 1):
            until = time.monotonic() + PATIENCE
            while sum(map(len, acknowledged)) < n_batches * kill // (KILLS + 1) and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(chance.random() / 50)
            serving.kill()
            serving = Serving(*arguments, port=port)
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        code = serving.stop()
    assert not errors and not any(thread.is_alive() for thread in threads), errors
    assert code == 0

    answers = [answer for some in acknowledged for answer in some]
    assert sum(answer["taken"] for answer in answers) == frame.height
    fallen = [one for answer in answers for one in answer["decisions"]]
    for name, found in (("acknowledged", fallen), ("heard", heard)):
        assert len({one["n"] for one in found}) == len(found), name
        assert {one["id"]: (one["label"], one["n_observed"], one["reason"]) for one in found} == wanted, name
    assert [one["n"] for one in heard] == list(range(1, len(wanted) + 1))
    again = opened(lively, tmp_path / "kept" / "default")
    assert again.stream.counters.items == frame.height
    assert told(again) == heard
    again.close()
