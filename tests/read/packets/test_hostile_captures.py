"""A short run of the fuzzer: its corpus is what its script makes, and changed captures break nothing."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

import pytest

from kvec.read.packets import captures

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "packets" / "fuzz.py"


@pytest.fixture()
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(captures, "MOST_PACKETS", captures.MOST_PACKETS)  # the script sets it, and here it is set back
    spec = importlib.util.spec_from_file_location("fuzz", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_corpus_is_what_the_script_makes(fuzz: ModuleType) -> None:
    made, kept = fuzz.seeds(), {path.name: path.read_bytes() for path in fuzz.CORPUS.iterdir()}
    assert set(made) == set(kept)
    assert all(made[name] == kept[name] for name in made if not name.endswith((".gz", ".xz")))


def test_all_seeds_are_read_without_complaint(fuzz: ModuleType) -> None:
    for name, data in fuzz.seeds().items():
        capture = captures.open_capture(fuzz.io.BytesIO(data), name)
        assert sum(map(len, capture)) > 0
        assert set(capture.counters) <= {"unknown block"}, name


def test_changed_captures_break_nothing(fuzz: ModuleType) -> None:
    feed, chance, known = fuzz.feeder(), random.Random(0), list(fuzz.seeds().values())
    for _ in range(600):
        feed(fuzz.mutated(chance.choice(known), chance, known))
