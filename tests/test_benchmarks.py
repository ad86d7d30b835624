"""Every benchmark of streaming runs, on a little made traffic, and says what it is meant to say."""

from __future__ import annotations

import gc
import json
import runpy
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numba
import pytest

from kvec.decide.model import build_network
from kvec.tangle.visibility import make_rule

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "stream"


@pytest.fixture()
def common(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What the scripts share; here they start no processes of their own."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        monkeypatch.setenv(name, "1")  # set by the module itself, and undone here
    monkeypatch.syspath_prepend(str(FOLDER))
    module: Any = __import__("common")
    monkeypatch.setattr(module, "apart", lambda function, *given: function(*given))
    monkeypatch.setattr(module, "progress", lambda text: None)
    yield module
    gc.unfreeze()


@pytest.fixture()
def run(common: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(words: str) -> Any:
        script, *options = words.split()
        given = [*options, "--tangles", "20", "-o", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", [str(FOLDER / script), *given])
        runpy.run_path(str(FOLDER / script), run_name="__main__")
        said = json.loads(capsys.readouterr().out)
        assert said["command"] == f"python benchmarks/stream/{words} --tangles 20"
        assert said["matmul_gflops"] > 0
        written = {path.name: path for path in tmp_path.iterdir()}
        assert any(json.loads(path.read_text()) == said for name, path in written.items() if name.endswith(".json"))
        return said, written

    return run


def test_latency_and_throughput(run: Any) -> None:
    said, written = run("bench.py --items 300")
    assert set(written) == {"bench-made.json"}
    for rule in ("paper", "window"):
        alone = said["results"][rule]["one_at_a_time"]
        for mode in ("usual", "frozen"):
            latency = alone[mode]["wall_us"]
            assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
            assert alone[mode]["visible_items"] > 1
        assert [row["chunk"] for row in said["results"][rule]["chunked"]] == [256, 512, 1024]
        assert all(row["items_per_second"] > 0 for row in said["results"][rule]["chunked"])


def test_flat(run: Any) -> None:
    said, written = run("flat.py --items 8000")
    assert set(written) == {"flat-steady.json"}
    assert said["early_at"] == 2000
    assert said["late"]["rss_mb"] > said["arrays_mb"] > 0
    assert all(said[name] > 0 for name in ("time_ratio", "time_ratio_taking_turns", "rss_ratio"))


def test_flood(run: Any) -> None:
    said, written = run("flat.py --mode flood --items 6000 --live-keys 1000")
    assert set(written) == {"flat-flood.json"}
    assert (said["live"], said["evicted"]) == (1000, 5000)
    assert said["when_full"]["array_bytes_per_live_key"] > 1000
    assert said["most_over_plateau"] >= 1


def test_crowd(run: Any) -> None:
    said, _ = run("crowd.py --keys 200 --items 500")
    assert [(row["tangles"], row["keys_in_each"]) for row in said["results"]] == [(1, 200), (20, 10)]
    assert all(row["live_keys"] == 200 and row["after"]["items_per_second"] > 0 for row in said["results"])


def test_against_batch(run: Any) -> None:
    said, written = run("against_batch.py --lengths 5,40 --repeats 1")
    assert set(written) == {"against_batch.json", "against_batch.csv", "against_batch.svg"}
    assert [row["items"] for row in said["curve"]] == [5, 40]
    assert written["against_batch.csv"].read_text().splitlines()[0] == "items,stream_us,batch_us,ratio"
    assert "the stream" in written["against_batch.svg"].read_text()


def test_soak(run: Any) -> None:
    said, _ = run("soak.py --minutes 0.01 --warm 500")
    assert len(said["lines"]) == 3
    assert sum(line["items"] for line in said["lines"]) == said["items"] > 0
    assert said["rate"] == pytest.approx(said["highest_rate"] / 2, abs=1)


def test_kernels(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """That all of them say the same is asserted by the script."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)  # compiling takes longer than running uncompiled
    said, _ = run("kernels.py --calls 1 --visible 20")
    assert {"numba", "NumPy", "PyTorch"} <= {row["kernel"] for row in said["results"]}


def test_blocks(run: Any) -> None:
    said, _ = run("blocks.py --items 10 --blocks 1,5")
    assert [(row["size"], row["block"]) for row in said["results"]] == [
        (size, block) for size in ("small", "twice", "four times") for block in (1, 5)
    ]
    assert all(time > 0 for row in said["results"] for time in row["us_per_item"].values())


def test_rules(run: Any) -> None:
    said, _ = run("rules.py --items 200 --newest 8,16")
    assert [(row["rule"], row["newest"]) for row in said["results"]] == [
        ("paper", 0), ("window", 8), ("typed", 8), ("window", 16), ("typed", 16),
    ]  # fmt: skip
    assert all(row["cpu_us_alone"] > 0 and row["cpu_us_in_chunks"] > 0 for row in said["results"])
    seen = [row["visible_items"] for row in said["results"]]
    assert (seen[1], seen[3]) == (8, 16) and seen[0] < seen[2] < seen[4] <= seen[0] + 16


@pytest.mark.parametrize("rule", ["paper", "typed"])
def test_untrained_weights_are_those_of_the_network(common: Any, rule: str) -> None:
    pool = common.load(None, None, 3)
    model = common.untrained(pool, [f"visibility.rule={rule}"])
    n = len(make_rule(model.config.visibility).relations)
    network = build_network(pool.vocabulary, model.config.encoder, has_time=False, n_relations=n).state_dict()
    wanted = {name: tuple(w.shape) for name, w in network.items() if not name.startswith("baseline.")}
    of_network = {name: w.shape for name, w in model.weights.items() if not name.startswith("waiting.")}
    assert of_network == wanted


def test_traffic_side_by_side(common: Any) -> None:
    """Tangles come whole and in order, a few at a time, each key with one end mark, names never again."""
    pool = common.load(None, None, 4)
    items = list(islice(pool.items(width=3), 1500))
    by_tangle: dict[int, list[Any]] = {}
    for item in items:
        by_tangle.setdefault(item.tangle, []).append(item)
    whole = [name for name, some in by_tangle.items() if len(some) == 100]
    assert len(whole) >= 12 and len(by_tangle) - len(whole) <= 3
    for name in whole:
        assert by_tangle[name] == list(pool.tangle(name % 4, name))
        assert sum(item.is_end for item in by_tangle[name]) == 2
