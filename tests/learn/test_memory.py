"""What does not fit in memory is refused before or when it happens, by the setting to make smaller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.properties.strategies import VOCABULARY

from kvec.decide.model import build_network
from kvec.learn import memory
from kvec.learn.memory import build_in_memory, bytes_to_train, machine_memory, refused_by, way_out_of_batches
from kvec.words.config import Encoder, Training
from kvec.words.errors import SettingError


@pytest.mark.parametrize("settings", [Encoder(), Encoder(width=16, blocks=5, fusion=32, use_time=False)])
def test_the_bytes_of_training_are_counted_without_taking_them(settings: Encoder) -> None:
    weights = sum(p.numel() for p in build_network(VOCABULARY, settings, True).parameters())
    assert bytes_to_train(VOCABULARY, settings, True) == 5 * 4 * weights


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"width": 1_000_000}, r"encoder\.width \(1000000\)"),
        ({"width": 2**52}, r"encoder\.width \(4503599627370496\)"),  # more elements than can be counted
        ({"blocks": 10**9}, r"encoder\.blocks \(1000000000\)"),
        ({"feed_forward": 10**12}, r"encoder\.feed_forward"),
        ({"fusion": 10**9, "width": 128}, r"encoder\.fusion"),
        ({"slots": 10**13, "use_membership": True}, r"encoder\.slots"),
        ({"positions": 10**13}, r"encoder\.positions"),
        ({"time_modulus": 10**13, "time": "order"}, r"encoder\.time_modulus"),
    ],
)
def test_a_network_too_large_for_the_machine_is_refused(
    given: dict[str, object], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 64e9)
    with pytest.raises(SettingError, match=rf"takes [\d,]+ GB, and this machine has 64 GB; make {named}"):
        build_in_memory(VOCABULARY, Encoder(**given), True)  # type: ignore[arg-type]


def test_a_network_that_fits_is_the_same_as_without_the_question() -> None:
    torch.manual_seed(3)
    asked = build_in_memory(VOCABULARY, Encoder(blocks=1), True)
    torch.manual_seed(3)
    plain = build_network(VOCABULARY, Encoder(blocks=1), True)
    assert all(torch.equal(a, b) for a, b in zip(asked.parameters(), plain.parameters(), strict=True))


def test_memory_that_runs_out_while_building(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: float("inf"))
    with pytest.raises(SettingError, match=r"does not fit in memory; make encoder\.positions \(1000000000000000\) sm"):
        build_in_memory(VOCABULARY, Encoder(positions=10**15), True)


def take_torch() -> Any:
    return torch.empty(2**59)


def take_numpy() -> Any:
    return np.empty(2**59, dtype=np.uint8)


@pytest.mark.parametrize("take", [take_torch, take_numpy])
def test_memory_that_runs_out_becomes_an_error_with_a_way_out(take: Any) -> None:
    settings = Training(batch=7)
    with pytest.raises(SettingError) as caught, refused_by(lambda: way_out_of_batches(settings)):
        take()
    assert str(caught.value) == (
        "a batch does not fit in memory; "
        "make training.batch_items (8192), training.batch (7), training.block (4096) smaller"
    )


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="a bug"), refused_by(lambda: "memory"):
        raise RuntimeError("a bug")


def test_this_machine_has_some_memory() -> None:
    assert machine_memory() > 1e8
