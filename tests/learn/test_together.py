"""Processes that train together come to what one process comes to, whatever they share and however little."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.learn.made import TELLING, TINY, WORDS, planted, with_training
from tests.learn.test_streamed import SCHEMA as STREAMED
from tests.learn.test_streamed import made, written
from tests.processes import side_by_side

from kvec.decide.model import build_network
from kvec.learn import supply
from kvec.learn import together as waiting
from kvec.learn.run import Run, new_run
from kvec.learn.streamed import Survey, surveyed
from kvec.learn.together import ALONE, OtherEnded, Together, joined
from kvec.learn.trainer import train
from kvec.read.shards import Shards, open_shards
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.visibility import make_rule
from kvec.words.config import Config, Deciding, Training
from kvec.words.schema import Field, Schema

SCHEMA = Schema(values=(Field("sign", kind="categorical"),), labels=("app",))
STILL = replace(TINY, encoder=replace(TINY.encoder, dropout=0.0, hide=0.1))
CASES: dict[str, Config] = {
    "every": with_training(STILL, epochs=2, class_weights="balanced", **TELLING),
    "expected": with_training(STILL, epochs=2, class_weights="balanced"),
    "error": with_training(STILL, epochs=2, policy_cost="error", delay="items", lengths="early"),
    "sampled": with_training(STILL, epochs=2, objective="paper", exploration=0.1, beta=0.1),
    "sampled, all": with_training(STILL, epochs=2, objective="paper", policy_gradient="all", block=7, returns="final"),
    "blocks": with_training(STILL, epochs=2, block=5),
    "dropping": replace(with_training(STILL, epochs=1, block=7), deciding=Deciding(after_halt="drop")),
    "dial": with_training(replace(STILL, encoder=replace(STILL.encoder, knots=3)), epochs=2),
    "dealt": with_training(STILL, epochs=2, **TELLING),
}
CROWDED = {"dealt": 10}  # so many of the tangles side by side as one, which then has enough keys to be dealt out


def uneven(n_tangles: int, seed: int, crowd: int = 1) -> Tangles:
    """Tangles of unlike length, some of whose sequences have no label."""
    frames = [planted(1, seed + i, length=4 + 3 * (i % 4)) for i in range(n_tangles)]
    for number, frame in enumerate(frames):
        label = frame["label.app"].set(frame["key"] == 1, None) if number % 3 == 0 else frame["label.app"]
        key = frame["key"] + 2 * (number % crowd)
        frames[number] = frame.with_columns(label.alias("label.app"), key, tangle=number // crowd)
    return encode_tangles(pl.concat([f.with_columns(pl.col("tangle").cast(pl.Int64)) for f in frames]), SCHEMA, WORDS)


def result(
    config: Config, together: Together, n_tangles: int = 21, crowd: int = 1
) -> tuple[dict[str, np.ndarray], list[Any]]:
    """The weights and the history of a training in double precision, where order of summing tells nothing."""
    supply.LEAST_STEPS = 4  # batches of five tangles, the last of one: with two processes one has nothing of it
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_network(WORDS, config.encoder, has_time=False).double()
    run: Run = new_run(network, config.training, together)
    train(run, uneven(n_tangles, 1, crowd), uneven(9, 50), make_rule(config.visibility), config)
    history = [{k: v for k, v in record.items() if k != "seconds"} for record in run.history]
    return {name: tensor.numpy() for name, tensor in network.state_dict().items()}, history


def _process(rank: int, size: int, port: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with joined(torch.device("cpu")) as together:
        assert together == Together(rank, size)
        found = {name: result(config, together, crowd=CROWDED.get(name, 1)) for name, config in CASES.items()}
        gone = together.of_furthest(f"of {rank}", rank), together.agreed(rank)
        return found | {"met": gone}


def in_processes(size: int) -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return side_by_side(_process, [(rank, size, port) for rank in range(size)])


@pytest.fixture(scope="module")
def of_two() -> list[dict[str, Any]]:
    return in_processes(2)


@pytest.mark.parametrize("name", CASES)
def test_two_processes_come_to_what_one_comes_to(of_two: list[dict[str, Any]], name: str) -> None:
    weights, history = result(CASES[name], ALONE, crowd=CROWDED.get(name, 1))
    for found, told in (each[name] for each in of_two):
        for mine, theirs in zip(history, told, strict=True):
            assert mine == pytest.approx(theirs, rel=1e-8, abs=1e-10)
        for key, tensor in weights.items():
            np.testing.assert_allclose(found[key], tensor, rtol=0, atol=1e-8, err_msg=key)


def test_all_follow_the_first_or_the_furthest(of_two: list[dict[str, Any]]) -> None:
    assert [each["met"] for each in of_two] == [("of 1", 0)] * 2


def test_one_process_meets_nobody() -> None:
    with joined(torch.device("cpu")) as together:
        assert together is ALONE and together.is_first and together.keeps
    assert ALONE.gathered(3) == [3] and ALONE.of_furthest(3, 0) == 3 and ALONE.totals({"a": 0.5}, None) == {"a": 0.5}  # type: ignore[arg-type]
    parameter = torch.nn.Parameter(torch.ones(2))
    ALONE.add_up([parameter])
    assert parameter.grad is None


# -- waiting ----------------------------------------------------------------------------------------------------------

WAIT = 5.0  # seconds that a process waits for another in these tests


def _slow(rank: int, port: int, folder: Path) -> tuple[Survey, bool]:
    """What a survey of many slow windows finds; then whether the first notices that the second has fallen silent."""
    waiting.PATIENCE = timedelta(seconds=WAIT)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shards, read = open_shards(folder / "data", Schema.from_dict(STREAMED)), Shards.read

    def slow(self: Shards, wanted: pl.DataFrame) -> pl.DataFrame:
        time.sleep(WAIT / 4)
        return read(self, wanted)

    Shards.read = slow  # type: ignore[method-assign]
    (folder / f"{rank}.there").touch()
    while len(list(folder.glob("*.there"))) < 2:
        time.sleep(0.01)
    with joined(torch.device("cpu")) as together:
        found = surveyed(shards, Training(stream_items=80), (8, 1, 1), together)
        is_lost = False
        if rank:
            while not (folder / "over").exists():
                time.sleep(0.01)
        else:
            try:
                together.gathered(None)
            except OtherEnded:
                is_lost = True
            (folder / "over").touch()
        return found, is_lost


def test_none_waits_for_long_without_a_word(tmp_path: Path) -> None:
    data = written(made(60), tmp_path / "data")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.monotonic()
    (one, is_lost), (two, _) = side_by_side(_slow, [(rank, port, tmp_path) for rank in range(2)])
    assert time.monotonic() - started > 2 * WAIT and is_lost
    alone = surveyed(open_shards(data, Schema.from_dict(STREAMED)), Training(stream_items=80), (8, 1, 1), ALONE)
    assert one.fingerprint() == two.fingerprint() == alone.fingerprint()
    assert waiting.PATIENCE <= timedelta(hours=1)
