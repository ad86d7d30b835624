"""The benchmark of the page runs, and says what it is meant to say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "page" / "bench.py"


def test_drawing_is_measured(browser: Any, tmp_path: Path) -> None:
    words = ["--lanes", "20", "--rate", "100", "--length", "30", "--seconds", "2", "--warm", "2", "-o", str(tmp_path)]
    ran = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert json.loads((tmp_path / "result.json").read_text()) == said
    assert set(said["scenes"]) == {"readable", "all", "chosen", "scrolling"}
    for scene in said["scenes"].values():
        assert scene["pictures"] > 0 and scene["lanes_with_a_row"] >= 10
        assert 0 < scene["p50_ms"] <= scene["p95_ms"] <= scene["p99_ms"] <= scene["max_ms"]
