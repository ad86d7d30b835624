"""The flag --at: where on its trade-off a model is to work, said the same way to every command that uses one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from typer import Option

from kvec.words.errors import SettingError

At = Annotated[
    list[str] | None,
    Option(
        "--at",
        metavar="TARGET=VALUE",
        help="Work elsewhere on the model's trade-off: earliness=0.1, accuracy=0.95, cost_per_error=1 with "
        "cost_per_item=0.01 or cost_per_second=0.1, delay_cost=2, threshold=0.4; by its validation scores.",
        show_default=False,
    ),
]


def target_of(given: Iterable[str] | None) -> dict[str, float]:
    """What to aim at.

    >>> target_of(["cost_per_error=1,cost_per_item=0.01"])
    {'cost_per_error': 1.0, 'cost_per_item': 0.01}
    """
    target: dict[str, float] = {}
    for entry in (part for text in given or () for part in text.split(",")):
        name, equals, value = entry.partition("=")
        try:
            if not equals or name.strip() in target:
                raise ValueError
            target[name.strip()] = float(value)
        except ValueError:
            raise SettingError(
                f"--at {entry!r} cannot be read; write each target once as a name and a number, as in earliness=0.1"
            ) from None
    return target
