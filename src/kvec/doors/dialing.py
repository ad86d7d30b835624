"""The flag --at: where on its trade-off a model is to work, said the same way to every command that uses one."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from kvec.doors.messages import say
from kvec.words.errors import DataError, SettingError

At = Annotated[
    list[str] | None,
    Option(
        "--at",
        metavar="AIM=VALUE",
        help="Work elsewhere on the model's trade-off: earliness=0.1, accuracy=0.95, cost_per_error=1 (or a CSV of "
        "true, decided, cost) with cost_per_item=0.01 or cost_per_second=0.1, delay_cost=2, threshold=0.4; by its "
        "validation scores. And when to say unknown: abstain_below=0.6 (abstain_at_halts=1), unknown_below=0.05.",
        show_default=False,
    ),
]
if TYPE_CHECKING:
    from kvec.estimator import KVEC

COLUMNS = ["true", "decided", "cost"]


def target_of(given: Iterable[str] | None, threshold: float | None = None) -> dict[str, Any]:
    """What to aim at; `threshold` is what --threshold says, which leaves no other point to be aimed at.

    >>> target_of(["cost_per_error=1,cost_per_item=0.01"])
    {'cost_per_error': 1.0, 'cost_per_item': 0.01}
    """
    target: dict[str, Any] = {}
    for entry in (part.strip() for text in given or () for part in text.split(",")):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if name == "cost_per_error" and name not in target and value.endswith(".csv"):
            target[name] = _costs(Path(value))
            continue
        try:
            if not equals or not name or name in target:
                raise ValueError
            target[name] = float(value)
        except ValueError:
            table = "; costs by class are a table: cost_per_error=costs.csv" if name == "cost_per_error" else ""
            raise SettingError(
                f"--at {entry!r} cannot be read; write each target once as a name and a number, as in earliness=0.1"
                f"{table}"
            ) from None
    from kvec.decide.targets import TARGETS, WHEN_UNKNOWN, hints, require_target

    if points := {name: value for name, value in target.items() if name not in WHEN_UNKNOWN}:
        require_target(points | ({"cost_per_error": 1.0} if isinstance(points.get("cost_per_error"), dict) else {}))
    if threshold is not None and (aims := [name for name in target if name in TARGETS]):
        raise SettingError(f"--threshold and --at {aims[0]} both say where to work; give one of them")
    for hint in hints(target):
        say(hint)
    return target


def load_at(path: Path, device: str, target: Mapping[str, Any]) -> KVEC:
    """A saved model at the operating point that meets a target, whose hints were said when it was read."""
    from kvec.estimator import load

    model = load(path, device)
    return model.aimed(target) if target else model


def _costs(path: Path) -> dict[str, dict[str, float]]:
    """What each error costs, by true and decided class, from a table."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not a text file'}") from None
    if not rows or rows[0] != COLUMNS:
        found = f"are {', '.join(rows[0])}" if rows else "are missing"
        raise DataError(f"{path}: its columns {found}; write {', '.join(COLUMNS)}")
    if len(rows) == 1:
        raise DataError(f"{path}: holds no row below its heading, so no error would cost anything")
    costs: dict[str, dict[str, float]] = {}
    first: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(COLUMNS):
            raise DataError(f"{path}, row {number}: holds {len(row)} cells, not {len(COLUMNS)}")
        true, decided, cost = row
        if (before := first.setdefault((true, decided), number)) != number:
            raise DataError(
                f"{path}, rows {before} and {number}: both say what {decided!r} costs for {true!r}; keep one"
            )
        try:
            costs.setdefault(true, {})[decided] = float(cost)
            if not 0 <= float(cost) < math.inf:
                raise ValueError
        except ValueError:
            raise DataError(f"{path}, row {number}: cost is {cost!r}; write a number from 0 on") from None
    return costs
