"""What the scripts beside this file share: the table that they learn from, and the CSV file that they add to."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import kvec
from kvec.read.rows import read_table
from kvec.read.table import Table
from kvec.tangle.tangling import Split
from kvec.words.schema import Schema

BEFORE = {  # defaults at that time
    "objective": "expected", "visibility": "paper", "lengths": "even", "batch": 64, "deal": False,
    "use_membership": True, "time": "auto",
}  # fmt: skip


def some_table(data: str, schema: Path | None, share: float, tangles: int) -> Table:
    """So many tangles of made traffic, or a share of a table's."""
    if data == "made":
        return read_table(kvec.synthetic.demo_traffic(tangles), kvec.synthetic.DEMO_SCHEMA)
    table = read_table(data, Schema.from_toml(schema) if schema else None)
    if share < 1:
        some = Split.of(table.frame, (share, (1 - share) / 2, (1 - share) / 2), 0)
        table = replace(table, frame=some.part(table.frame, "train"))
    return table


def add_rows(path: Path, rows: list[dict[str, object]]) -> None:
    """Add rows to a CSV file, which begins with their names."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)
