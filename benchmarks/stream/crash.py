"""Kills `kvec stream` with SIGKILL at random moments, lets it go on, and compares with the stream that never broke.

    python benchmarks/stream/crash.py --runs 50

For a file, and for a journalled socket whose sender sends again what was not taken. Makes its own data and model.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for threads in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(threads, "1")

KVEC = [sys.executable, "-m", "kvec", "stream"]
PATIENCE = 120.0  # seconds after which a run counts as hung
TINY = {"width": 16, "heads": 2, "feed_forward": 16, "fusion": 16, "blocks": 1, "epochs": 1}


def make(folder: Path, tangles: int, seed: int) -> tuple[Path, Path]:
    """Items by time, and a small model at a threshold that half of the sequences reach early."""
    from kvec.estimator import KVEC as Classifier
    from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic

    items, model = folder / "items.ndjson", folder / "model"
    frame = demo_traffic(tangles, seed=seed, keys=6).sort("time", maintain_order=True)
    frame.write_ndjson(items)
    fitted = Classifier(schema=DEMO_SCHEMA, device="cpu", seed=seed, **TINY).fit(frame)
    scores = fitted.scores(fitted.tangles(frame))
    highest = sorted(float(scores.halt[start : start + 6].max()) for start in scores.offsets[:-1])
    fitted.save(model)
    card = json.loads((model / "kvec.json").read_text())
    card["operating_point"]["threshold"] = highest[len(highest) // 2]
    (model / "kvec.json").write_text(json.dumps(card))
    return items, model


def decisions(path: Path) -> dict[str, tuple[Any, ...]]:
    """What was decided, by name; each name once."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    named = {row["id"]: (row["label"], row["n_observed"], row["reason"], round(row["probability"], 4)) for row in rows}
    if len(named) < len(rows):
        raise AssertionError(f"{path}: {len(rows) - len(named)} decisions are there twice")
    return named


def require_same(found: dict[str, tuple[Any, ...]], wanted: dict[str, tuple[Any, ...]], what: str) -> None:
    if found != wanted:
        lost, new = wanted.keys() - found.keys(), found.keys() - wanted.keys()
        other = [name for name in found.keys() & wanted.keys() if found[name] != wanted[name]]
        raise AssertionError(f"{what}: {len(lost)} lost, {len(new)} new, {len(other)} different, such as {other[:3]}")


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def wait_until(is_time: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    """Wait for a moment; whether the process was still there."""
    until = time.monotonic() + PATIENCE
    while not is_time():
        if process.poll() is not None:
            return False
        if time.monotonic() > until:
            process.kill()
            raise AssertionError("a run hangs")
        time.sleep(0.001)
    return process.poll() is None


def moment(rng: random.Random, progress: Callable[[], float]) -> Callable[[], bool]:
    """A random moment: mostly somewhere in the work that is left, now and then at any time from the start on."""
    if rng.random() < 0.2:
        at = time.monotonic() + rng.uniform(0, 2)
        return lambda: time.monotonic() >= at
    target, wait, reached = rng.uniform(min(progress(), 0.99), 0.99), rng.uniform(0, 0.02), 0.0

    def is_time() -> bool:
        nonlocal reached
        if not reached and progress() >= target:
            reached = time.monotonic()
        return bool(reached) and time.monotonic() >= reached + wait

    return is_time


def killed(command: list[str], log: Any, rng: random.Random, progress: Callable[[], float], kills: int) -> int:
    """Start and kill a few times; how often it was hit at work."""
    hits = 0
    for _ in range(rng.randint(1, kills)):
        process = subprocess.Popen(command, stdout=log, stderr=log)
        hits += wait_until(moment(rng, progress), process)
        process.kill()
        process.wait()
    return hits


def break_file(folder: Path, items: Path, model: Path, wanted: Path, rng: random.Random, kills: int) -> int:
    """One run over a file."""
    sink, whole = folder / "decisions.ndjson", size(wanted)
    state = ["--state", str(folder / "kept"), "--every", str(rng.choice([100, 500, 2000]))]
    command = [*KVEC, str(model), str(items), "-o", str(sink), *state]
    with (folder / "log").open("ab") as log:
        hits = killed(command, log, rng, lambda: size(sink) / whole, kills)
        subprocess.run(command, stdout=log, stderr=log, check=True, timeout=PATIENCE)
    require_same(decisions(sink), decisions(wanted), "file")
    return hits


class Sender(threading.Thread):
    """Sends lines over a socket until all are taken; after a broken connection it asks where to go on."""

    def __init__(self, path: Path, lines: list[bytes], rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.path, self.lines, self.taken = path, lines, 0
        self._rng = random.Random(rng.random())

    def run(self) -> None:
        """Connect, again and again."""
        while self.taken < len(self.lines):
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(str(self.path))
                    connection.settimeout(PATIENCE)
                    self._talk(connection)
            except OSError:
                time.sleep(0.01)

    def _talk(self, connection: socket.socket) -> None:
        answers = connection.makefile("rb")
        connection.sendall(b'{"kvec.sender": "crash test"}\n')
        sent = self.taken = self._answer(answers)
        while self.taken < len(self.lines):
            n = min(self._rng.randint(1, 200), len(self.lines) - sent, 1000 - (sent - self.taken))
            if n > 0:
                connection.sendall(b"".join(self.lines[sent : sent + n]))
                sent += n
                time.sleep(self._rng.uniform(0, 0.02))
            if sent > self.taken:
                self.taken = self._answer(answers)

    def _answer(self, answers: Any) -> int:
        line = answers.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the stream is gone")
        return int(json.loads(line)["taken"])


def break_socket(folder: Path, items: Path, model: Path, wanted: Path, rng: random.Random, kills: int) -> int:
    """One run over a journalled socket."""
    sink, lines = folder / "decisions.ndjson", items.read_bytes().splitlines(keepends=True)
    state = ["--state", str(folder / "kept"), "--every", str(rng.choice([100, 500, 2000]))]
    command = [*KVEC, str(model), f"unix://{folder / 'socket'}", "-o", str(sink), *state, "--on-stop", "decide"]
    sender = Sender(folder / "socket", lines, rng)
    sender.start()
    with (folder / "log").open("ab") as log:
        hits = killed(command, log, rng, lambda: sender.taken / len(lines), kills)
        n_before = (folder / "log").read_bytes().count(b"listening")

        def is_done() -> bool:
            return sender.taken == len(lines) and (folder / "log").read_bytes().count(b"listening") > n_before

        with subprocess.Popen(command, stdout=log, stderr=log) as process:
            if not wait_until(is_done, process):
                raise AssertionError("the stream ended by itself")
            process.terminate()
            if process.wait(PATIENCE) != 0:
                raise AssertionError(f"the stream ended with {process.returncode}")
    require_same(decisions(sink), decisions(wanted), "socket")
    return hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50, help="of each source")
    parser.add_argument("--tangles", type=int, default=40, help="about 180 items each")
    parser.add_argument("--kills", type=int, default=3, help="in one run, at the most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", type=Path, help="write the figures here, as JSON")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="kvec-crash-"))
    items, model = make(folder, given.tangles, given.seed)
    wanted = folder / "wanted.ndjson"
    subprocess.run([*KVEC, str(model), str(items), "-o", str(wanted)], check=True, stderr=subprocess.DEVNULL)
    n_items = len(items.read_bytes().splitlines())
    figures: dict[str, Any] = {"items": n_items, "decisions": len(decisions(wanted)), "seed": given.seed}
    for name, break_one in (("file", break_file), ("socket", break_socket)):
        hits, started = 0, time.monotonic()
        for run in range(given.runs):
            own = folder / f"{name}{run}"
            own.mkdir()
            try:
                hits += break_one(own, items, model, wanted, rng, given.kills)
            except (AssertionError, subprocess.SubprocessError) as failure:
                sys.exit(f"{name}, run {run}: {failure}; all of it is in {own}")
            shutil.rmtree(own)
        figures[name] = {"runs": given.runs, "killed_at_work": hits, "seconds": round(time.monotonic() - started, 1)}
        print(f"{name}: {given.runs} runs, killed {hits} times at work; the same decisions each time, each once")
    if given.result is not None:
        from common import origin

        outcome = {"outcome": "after every kill the decisions of the stream that never broke, each of them once"}
        given.result.write_text(json.dumps(origin(None, "--result") | outcome | figures, indent=1) + "\n")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
