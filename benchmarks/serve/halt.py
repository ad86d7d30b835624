"""How long a snapshot halts its stream: written in the stream's own thread, and apart from it.

    python benchmarks/serve/halt.py --items 86000

Beside the halt it tells the longest time for which the stream's thread had to stand still while the copy was being
written, by a loop that looks at the clock. On a busy machine that is mostly the time of other processes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[threads] = "1"

HERE = Path(__file__).resolve().parent


def filled(model: Any, n_items: int) -> Any:
    """A stream that remembers so many items."""
    from kvec.decide.stream import Stream
    from kvec.read.arriving import RowReader
    from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic

    reader, stream, round_ = RowReader(DEMO_SCHEMA), Stream(model), 0
    rows = demo_traffic(40, 3).drop("label").sort("time").to_dicts()
    while stream.n_cached < n_items:
        stream.feed_many([reader.item({**row, "tangle": f"{round_}.{row['tangle']}"}) for row in rows])
        round_ += 1
    return stream


def measured(stream: Any, folder: Path, times: int) -> dict[str, Any]:
    """Save it in both ways, several times."""
    from kvec.doors.keeping import Keeper

    keeper = Keeper(folder)
    found: dict[str, Any] = {"whole": [], "apart": []}
    for _ in range(times):
        start, cpu = time.perf_counter(), time.thread_time()
        keeper.save(stream, {})
        found["whole"].append(_spent(start, cpu))
        start, cpu = time.perf_counter(), time.thread_time()
        keeper.save_apart(stream, {})
        halt = _spent(start, cpu)
        last = start = time.perf_counter()
        longest = 0.0
        while keeper.is_saving:
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        keeper.settle(waits=True)
        written = {"written_after_s": round(last - start, 3), "longest_stop_s": round(longest, 4)}
        found["apart"].append(halt | written)
    found["megabytes"] = round((folder / "stream.state").stat().st_size / 1e6, 1)
    keeper.close()
    return found


def _spent(start: float, cpu: float) -> dict[str, float]:
    return {"halt_s": round(time.perf_counter() - start, 3), "halt_cpu_s": round(time.thread_time() - cpu, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=86_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "halt.json", help="where the result goes")
    given = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from load import make  # type: ignore[import-not-found]

    from kvec.decide.deployed import load_deployed
    from kvec.doors.service.serving import SWITCH

    sys.setswitchinterval(SWITCH)
    with tempfile.TemporaryDirectory() as folder:
        model, _ = make(Path(folder))
        stream = filled(load_deployed(model), given.items)
        result = {
            "command": f"python benchmarks/serve/halt.py --items {given.items} --times {given.times}",
            "python": platform.python_version(), "load_average": [round(one, 1) for one in os.getloadavg()],
            "remembered": stream.n_cached, **measured(stream, Path(folder) / "kept", given.times),
        }  # fmt: skip
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
