"""Training with products in half precision: it learns, near to what single precision learns, in C loops or without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.learn.made import OBJECTIVES, trained, with_training
from tests.processes import side_by_side

from kvec.encode import loops
from kvec.estimator import KVEC
from kvec.words.errors import SettingError


def _histories(is_built: bool) -> dict[str, Any]:
    """The histories of both precisions, for all objectives."""
    torch.set_num_threads(1)
    loops.is_built = is_built and loops.is_built
    found: dict[str, Any] = {}
    for objective in OBJECTIVES:
        for precision in ("float32", "bfloat16"):
            settings = {"settle": 0.0} | OBJECTIVES[objective]
            run = trained(with_training(epochs=2, precision=precision, **settings))
            assert all(tensor.dtype == torch.float32 for tensor in run.network.state_dict().values())
            found[f"{objective} {precision}"] = run.history
    return found


def test_half_precision_stays_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """In processes of their own: some virtual machines tell of instructions for it that they do not have.

    Without the C loops nn.LSTM fuses, which has no half precision on processors without AVX-512.
    """
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    has_lstm = torch.backends.cpu.get_cpu_capability() == "AVX512"
    for found in side_by_side(_histories, [(True,), (False,)] if has_lstm else [(True,)]):
        for objective in OBJECTIVES:
            whole, half = found[f"{objective} float32"], found[f"{objective} bfloat16"]
            assert half[0]["loss"] != whole[0]["loss"]
            assert half[0]["loss"] == pytest.approx(whole[0]["loss"], rel=0.05)
            assert half[1]["loss"] < whole[0]["loss"]


def test_it_is_for_gpus() -> None:
    data = {
        "key": [1, 1, 2, 2] * 9,
        "tangle": [n // 4 for n in range(36)],
        "size": [1, 2] * 18,
        "label": list("aabb") * 9,
    }
    with pytest.raises(SettingError, match="is for GPUs"):
        KVEC(precision="bfloat16", device="cpu").fit(data)
