"""How many packets of a capture become items in a second, on one core: python benchmarks/packets/speed.py CAPTURE..."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[threads] = "1"

from kvec.read.packets.captures import Packets, open_capture  # noqa: E402
from kvec.read.packets.flows import Flows  # noqa: E402
from kvec.read.packets.layers import dissect  # noqa: E402


def items_of(path: str | Path) -> int:
    """Read a capture to its end, make items of its packets, and say how many packets there were."""
    flows, n = Flows(), 0
    for packets in open_capture(path):
        flows.take(packets, dissect(packets))
        n += len(packets)
    return n


def stages_of(path: Path) -> dict[str, float]:
    """Seconds of the processor for each part of the work."""
    begin = time.process_time()
    blocks: list[Packets] = list(open_capture(path))
    read = time.process_time()
    layers = [dissect(packets) for packets in blocks]
    dissected = time.process_time()
    flows = Flows()
    for packets, found in zip(blocks, layers, strict=True):
        flows.take(packets, found)
    return {"captures": read - begin, "layers": dissected - read, "flows": time.process_time() - dissected}


def measured(path: Path, repeats: int) -> dict[str, object]:
    """The median over some repetitions; the first reads what was compiled before, and does not count."""
    n = items_of(path)
    spent = []
    for _ in range(repeats):
        begin = time.process_time()
        items_of(path)
        spent.append(time.process_time() - begin)
    stages = [stages_of(path) for _ in range(repeats)]
    flows = Flows()
    for packets in open_capture(path):
        flows.take(packets, dissect(packets))
    return {
        "capture": path.name,
        "packets": n,
        "flows": flows.opened,
        "packets_per_second": round(n / statistics.median(spent)),
        "slowest": round(n / max(spent)),
        "microseconds_per_packet": {
            name: round(statistics.median(s[name] for s in stages) / n * 1e6, 3) for name in stages[0]
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", type=Path, nargs="+")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).with_name("speed.json"))
    given = parser.parse_args()
    results = [measured(path, given.repeats) for path in given.captures]
    text = json.dumps({"repeats": given.repeats, "clock": "of the processor, one core", "results": results}, indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
