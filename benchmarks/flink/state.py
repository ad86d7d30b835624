"""What a tangle's keyed state costs: bytes and microseconds of a whole state and of the log, without Flink.

    python benchmarks/flink/state.py --work scratch     # where show.py has left items and a model

Rows go through the keeper and the watcher in blocks, as a Flink worker would have them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from prepared import origin  # first: it says how many threads there are

import polars as pl  # isort: skip

from kvec.decide.deployed import load_deployed  # isort: skip
from kvec.doors.flink.keeping import Keeper  # isort: skip
from kvec.doors.flink.parting import Parting  # isort: skip
from kvec.doors.flink.watching import Manner, Watcher  # isort: skip

HERE = Path(__file__).resolve().parent
SLICE = 1024


class Counting:
    """Keyed state in memory that counts what is written."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.entries: list[bytes] = []
        self.wholes = self.whole_bytes = self.log_bytes = 0

    def whole(self) -> bytes | None:
        """The whole state."""
        return self.content

    def log(self) -> list[bytes]:
        """What came since."""
        return self.entries

    def add(self, entry: bytes) -> None:
        """One more entry."""
        self.entries.append(entry)
        self.log_bytes += len(entry)

    def replace(self, whole: bytes) -> None:
        """A new whole."""
        self.content, self.entries = whole, []
        self.wholes += 1
        self.whole_bytes += len(whole)

    def at(self, wall: float) -> None:
        """No timer is needed here."""

    def at_end(self) -> None:
        """Nor here."""

    @property
    def bytes(self) -> int:
        """What a checkpoint would hold."""
        return len(self.content or b"") + sum(map(len, self.entries))


class Timed(Keeper):
    """A keeper that times whole states."""

    seconds = 0.0

    def _replace(self, name: str, tangle: Any, kept: Any) -> None:
        start = time.process_time()
        super()._replace(name, tangle, kept)
        self.seconds += time.process_time() - start


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--work", required=True, help="where show.py has left items and a model")
    made.add_argument("-o", "--out", help="the result (default: state.json beside this script)")
    given = made.parse_args()
    model = load_deployed(Path(given.work) / "model")
    rows = pl.read_parquet(Path(given.work) / "items.parquet").write_ndjson().encode().splitlines()
    keeper, part = Timed(model), Parting(model.schema)
    watcher, kept = Watcher(keeper, Manner(most_bytes=1 << 40)), defaultdict(Counting)
    parting = taking = 0.0
    n_blocks = most = live = cached = 0
    for at in range(0, len(rows), SLICE):
        start = time.process_time()
        blocks = list(part.blocks(rows[at : at + SLICE]))
        parting += time.process_time() - start
        start = time.process_time()
        for name, block in blocks:
            watcher.take(name, block, kept[name], kept[name], 0.0)
        taking += time.process_time() - start
        n_blocks += len(blocks)
        if (held := sum(one.bytes for one in kept.values())) > most:
            streams = [tangle.stream for tangle in watcher._at_hand.values()]
            most, live, cached = held, sum(s.n_live for s in streams), sum(s.n_cached for s in streams)
    start = time.process_time()
    again = Keeper(model)
    for name, one in kept.items():
        again.restore(name, one)
    restoring = time.process_time() - start
    n, wholes = len(rows), sum(one.wholes for one in kept.values())
    result = origin("", "--work", "-o", "--out") | {
        "items": n, "tangles": len(kept), "rows_of_a_block": round(n / n_blocks, 1),
        "cpu_us_of_an_item": {
            "reading_by_tangle": round(parting / n * 1e6, 1), "deciding_with_state": round(taking / n * 1e6, 1),
            "of_it_whole_states": round(keeper.seconds / n * 1e6, 1),
        },
        "written_bytes_of_an_item": {
            "log": round(sum(one.log_bytes for one in kept.values()) / n),
            "whole": round(sum(one.whole_bytes for one in kept.values()) / n),
        },
        "items_for_a_whole_state": round(n / max(wholes, 1)),
        "whole_state_ms": round(keeper.seconds / max(wholes, 1) * 1000, 2),
        "whole_state_bytes": round(sum(one.whole_bytes for one in kept.values()) / max(wholes, 1)),
        "state_at_most": {
            "bytes": most, "live_keys": live, "remembered_items": cached, "bytes_of_a_live_key": round(most / live),
            "bytes_of_a_remembered_item": round(most / cached),
        },
        "restoring_a_tangle_ms": round(restoring / len(kept) * 1000, 1),
    }  # fmt: skip
    text = json.dumps(result, indent=1)
    (Path(given.out) if given.out else HERE / "state.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
