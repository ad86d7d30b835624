"""Items and decisions: the values that enter and leave kvec (§III of the paper)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral
from typing import Any

from kvec.words.errors import DataError

TangleId = str | int
Key = str | int
UNKNOWN = "(unknown)"  # what people are shown in place of a label
_PLAIN = frozenset((str, int))  # of names
_CELLS = frozenset((str, int, float, bool, type(None)))


class Reason(StrEnum):
    """Why a sequence was decided when it was."""

    HALTED = "halted"  # the policy had seen enough
    ENDED = "ended"  # the source marked the end
    EXPIRED = "expired"  # no item for longer than the expiry
    EVICTED = "evicted"  # a limit made room
    CLOSED = "closed"  # end of file or stream


@dataclass(frozen=True, slots=True)
class Item:
    """One arrival: a value of several named fields under a key, in one tangle."""

    tangle: TangleId
    key: Key
    value: Mapping[str, Any]
    time: float | None = None
    is_end: bool = False


def admit(item: Any, needs_time: bool) -> Item:
    """A copy that nobody else holds, of plain names and a time in seconds; what is no item is refused.

    >>> admit(Item("shop", 7, {"page": "cart"}, time=12), needs_time=True).time
    12.0
    """
    if not isinstance(item, Item):
        raise DataError(f"{shown(item)} is no item; feed kvec.Item(tangle, key, value, time)")
    tangle, key, value, time = item.tangle, item.key, item.value, item.time
    if tangle.__class__ not in _PLAIN or key.__class__ not in _PLAIN:
        tangle, key = require_name(tangle, "tangle"), require_name(key, "key")
    if value.__class__ is not dict and not isinstance(value, Mapping):
        raise DataError(
            f"tangle {tangle!r}, key {key!r}: the value is {shown(value)}; it must map field names to cells"
        )
    if not needs_time:
        time = None
    elif time.__class__ is not float or not -math.inf < time < math.inf:
        time = _seconds(time)
        if time is None:
            raise DataError(
                f"tangle {tangle!r}, key {key!r}: the time is {shown(item.time)}; this model needs the time of every "
                "item, in seconds"
            )
    cells = dict(value)
    if not _CELLS.issuperset(map(type, cells.values())):
        try:
            cells = {name: cell if type(cell) in _CELLS else plain_cell(cell, name) for name, cell in cells.items()}
        except DataError as error:
            raise DataError(f"tangle {tangle!r}, key {key!r}, {error}") from None
    is_end = item.is_end
    if is_end.__class__ is not bool:
        plain = is_end.item() if hasattr(is_end, "item") and not hasattr(is_end, "__len__") else is_end  # NumPy's
        if not isinstance(plain, int) or plain not in (0, 1):
            raise DataError(
                f"tangle {tangle!r}, key {key!r}: the end mark is {shown(is_end)}; it must be True or False"
            )
        is_end = bool(plain)
    return Item(tangle, key, cells, time, is_end)


def plain_cell(cell: Any, name: str) -> str | int | float | None:
    """A cell of an unusual type as a plain one, as tables have it."""
    if isinstance(cell, str):
        return str.__str__(cell)
    if type(cell).__name__ == "NAType":  # pandas' missing value
        return None
    if hasattr(cell, "item") and not hasattr(cell, "__len__"):  # a number of NumPy's
        cell = cell.item()
    if cell is None or isinstance(cell, bool):
        return cell
    if isinstance(cell, int):
        return int(cell)
    if hasattr(cell, "__float__"):
        return float(cell)
    raise DataError(f"field {name!r}: {type(cell).__name__} is no single value; give text or a number")


def require_name(given: Any, what: str) -> str | int:
    """The name of a tangle or key as plain text or a whole number; anything else is refused."""
    if isinstance(given, str):
        return str.__str__(given)
    if isinstance(given, Integral) and not isinstance(given, bool):
        return int(given)
    raise DataError(f"the name of a {what} is {shown(given)}; it must be text or a whole number")


def require_seconds(given: Any, what: str) -> float:
    """A time in seconds; anything else is refused."""
    time = _seconds(given)
    if time is None:
        raise DataError(f"{what} is {shown(given)}; it must be a time in seconds")
    return time


def _seconds(given: Any) -> float | None:
    """A number as a time; None where it is none, or not finite."""
    try:
        time = math.nan if isinstance(given, bool | str | bytes) else float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    return time if math.isfinite(time) else None


def shown(given: Any) -> str:
    """What was given, on one short line."""
    text = " ".join(repr(given).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True, slots=True)
class Decision:
    """The one label a sequence receives, and how many of its items were seen first.

    `labels` and `probabilities` hold one entry per label column; `label` and `probability` are the first. A label is
    always the best class; where the model was asked to say so, `is_known` tells whether to believe it.

    >>> d = Decision("link-7", "10.0.0.1:443", 0, ("video",), (0.93,), 4, 51, Reason.HALTED)
    >>> d.id, d.label, d.earliness < 0.1
    ('link-7/10.0.0.1:443/0', 'video', True)
    """

    tangle: TangleId
    key: Key
    sequence: int  # 0 for the key's first sequence in the tangle
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    n_observed: int
    length: int | None  # items of the sequence so far as known; None while it may still grow
    reason: Reason
    true_labels: tuple[str | None, ...] | None = field(default=None, compare=False)
    is_known: bool = True  # False: too unsure, or too unlike the classes that the model knows (docs/unknown.md)
    familiarity: float | None = None  # share of known sequences that are at least as strange, where it was asked for
    began: float | None = field(default=None, compare=False)  # in a stream: the time of its tangle's first item
    fell: float | None = field(default=None, compare=False)  # in a stream: the time of the last item it was made by

    @property
    def id(self) -> str:
        """A name that is the same whenever the same sequence is decided; slashes in the tangle's name are escaped.

        Names that read alike, as the keys 1 and "1", give the same ids: use one type for all.
        """
        tangle = str(self.tangle).replace("\\", "\\\\").replace("/", "\\/")  # so that no other sequence has it
        return f"{tangle}/{self.key}/{self.sequence}"

    @property
    def label(self) -> str:
        """The label of the first label column."""
        return self.labels[0]

    @property
    def shown_label(self) -> str:
        """What people are shown: the label, or that it is not known."""
        return self.labels[0] if self.is_known else UNKNOWN

    @property
    def probability(self) -> float:
        """The probability of `label`."""
        return self.probabilities[0]

    @property
    def earliness(self) -> float:
        """Share of the sequence that was seen; lower is better."""
        if not self.length:
            raise ValueError(f"the length of sequence {self.id} is not known yet")
        return self.n_observed / self.length

    def to_plain(self) -> list[Any]:
        """Plain data, as `from_plain` reads it."""
        return [
            self.tangle, self.key, self.sequence, list(self.labels), list(self.probabilities), self.n_observed,
            self.length, self.reason.value, self.is_known, self.familiarity,
        ]  # fmt: skip

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Decision:
        """Read what `to_plain` wrote; older states do not say whether it is known."""
        tangle, key, sequence, labels, probabilities, n_observed, length, reason, *doubt = plain
        is_known, familiarity = doubt or (True, None)
        return cls(
            tangle, key, sequence, tuple(labels), tuple(probabilities), n_observed, length, Reason(reason),
            is_known=is_known, familiarity=familiarity,
        )  # fmt: skip
