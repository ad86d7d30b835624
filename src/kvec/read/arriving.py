"""One row of a source as an item: what `read_table` makes of whole columns, for one row at a time."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kvec.read.cells import FALSE, TRUE
from kvec.words.errors import DataError
from kvec.words.items import Item, Key, TangleId
from kvec.words.schema import Field, Outcome, Schema

MOST_CUT = 100_000  # keys whose outcome is remembered, the newest
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")  # 007 and +7 are names
_CLOCK = re.compile(
    r"\+?([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:T([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(\.[0-9]+)?)?([+-][0-9]{2}:?[0-9]{2})?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MISSING = "is empty or not there; every item needs "

Cells = Mapping[str, Any]
Convert = Callable[[Any], Any]


class _Unfit(Exception):
    """What is wrong with a cell."""


class RowReader:
    r"""Makes items of rows, by a schema.

    Cells are text, numbers or truths. `forms` says that all of them are text, as in a CSV file, and how those of
    categorical fields are meant (see `form_of`).

    >>> reader = RowReader(Schema(key=("src", "dst"), time="at", values=(Field("size", kind="binned"),)))
    >>> reader.item({"src": "a|b", "dst": 7, "at": "1970-01-01 00:01", "size": 40})
    Item(tangle=0, key='a\\|b|7', value={'size': 40}, time=60.0, is_end=False)
    """

    def __init__(self, schema: Schema, forms: Mapping[str, str] | None = None) -> None:
        self._tangle = tuple(name.strip() for name in schema.tangle.split(",") if name.strip())
        self._key = schema.key
        self._tangle_of = _Namer(self._tangle, "", forms is not None)
        self._key_of = _Namer(self._key, schema.empty_key, forms is not None)
        self._time = schema.time or ("time" if schema.unfold_gap else "")
        self._end = schema.end
        self._fields = [(f.name, f.source, *_converter(f, forms)) for f in schema.values]
        self._outcome = schema.outcome
        self.unseen = {column for _, column, _, _ in self._fields}  # value columns that no row has had
        self.cut: OrderedDict[tuple[TangleId, Key], None] = OrderedDict()  # keys whose outcome has happened

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns that items are made from, with the entry of the schema that names each."""
        single = [(self._time, "time"), (self._end, "end")]
        if self._outcome is not None:
            single.append((self._outcome.column, "outcome"))
        return [
            *((name, "key") for name in self._key),
            *((name, "tangle") for name in self._tangle),
            *((name, entry) for name, entry in single if name),
            *((column, "values") for _, column, _, _ in self._fields),
        ]

    @property
    def names(self) -> frozenset[str]:
        """Those of the columns whose cells are names: keys and tangles."""
        return frozenset((*self._key, *self._tangle))

    def name(self, cells: Cells) -> tuple[TangleId, Key]:
        """Whose item a row is; a row without names is refused."""
        return self._tangle_of(cells), self._key_of(cells)

    def to_plain(self) -> dict[str, Any]:
        """What it remembers of the rows so far, as `restore` reads it."""
        names = {"tangle": self._tangle_of.is_whole, "key": self._key_of.is_whole}
        return names | {"cut": [list(sequence) for sequence in self.cut], "unseen": sorted(self.unseen)}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Remember what `to_plain` told."""
        self._tangle_of.is_whole, self._key_of.is_whole = plain["tangle"], plain["key"]
        self.cut = OrderedDict(((tangle, key), None) for tangle, key in plain["cut"])
        self.unseen = set(plain.get("unseen", ()))

    def tangle(self, cells: Cells) -> TangleId:
        """The tangle of a row; a row without one is refused."""
        return self._tangle_of(cells)

    def item(self, cells: Cells) -> Item | None:
        """The item of a row; None where an outcome cuts it away. Cells that do not fit are refused."""
        tangle, key = self.name(cells)
        if self.unseen:
            self.unseen.difference_update(cells)
        column = self._time
        try:
            moment = _seconds(cells.get(column)) if column else None
            is_end = False
            if self._end:
                column = self._end
                is_end = _is_true(cells.get(column))
            if self._outcome is not None and self._is_cut((tangle, key), cells, self._outcome):
                return None
            value = {}
            for name, column, passes, convert in self._fields:
                cell = cells.get(column)
                value[name] = cell if cell.__class__ in passes else convert(cell)
        except _Unfit as problem:
            raise DataError(f"column {column!r}: {problem}") from None
        return Item(tangle, key, value, moment, is_end)

    def _is_cut(self, sequence: tuple[TangleId, Key], cells: Cells, outcome: Outcome) -> bool:
        """Whether a key's outcome has happened, by this row or before."""
        if sequence in self.cut:
            return True
        cell = cells.get(outcome.column)
        if cell is None or _text(cell) not in (outcome.cut_before or outcome.label_from):
            return False
        self.cut[sequence] = None
        if len(self.cut) > MOST_CUT:
            self.cut.popitem(last=False)
        return True


def form_of(values: Sequence[str | int]) -> str:
    """How the text cells of a categorical field are meant, by the values it is known to have.

    >>> form_of((40, 52)), form_of(("1.5", "2")), form_of(("false", "true")), form_of(("007", "1.50"))
    ('number', 'number', 'boolean', 'text')
    """
    texts = [value for value in values if isinstance(value, str)]
    if texts and set(texts) <= {"true", "false"}:
        return "boolean"
    return "number" if all(_is_number_text(text) for text in texts) else "text"


def _seconds(cell: Any) -> float:
    """A time as seconds: from a number, or from text such as 2014-10-22 11:15:41.

    >>> _seconds("2024/05/01 12:30:00.25"), _seconds("2024-05-01T12:30Z"), _seconds("17.5")
    (1714566600.25, 1714566600.0, 17.5)
    """
    found: float | None = None
    if cell.__class__ is float:
        found = cell
    elif isinstance(cell, str):
        found = _clock(cell)
    elif isinstance(cell, int) and not isinstance(cell, bool):
        found = float(cell) if abs(cell) < 2**1023 else None
    if found is None or not math.isfinite(found):
        problem = _MISSING + "a time" if cell is None else f"{_shown(cell)} is no time"
        raise _Unfit(f"{problem}; write seconds, or a form such as 2024-05-01 12:30:00")
    return found


def _clock(text: str) -> float | None:
    number = _float(text)
    if number is not None:
        return number
    tidy = re.sub(r"^(\S+)\s+", r"\1T", text.strip().replace("/", "-"))
    parts = _CLOCK.fullmatch(tidy[:-1] + "+00:00" if tidy.endswith("Z") else tidy)
    if parts is None or int(parts[6] or 0) > 60:  # a leap second is one
        return None
    year, month, day, hour, minute, second, fraction, offset = parts.groups()
    try:
        start = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), tzinfo=UTC) - _EPOCH
    except ValueError:
        return None
    whole = start // _SECOND + int(second or 0)
    if offset:
        east = 3600 * int(offset[1:3]) + 60 * int(offset[-2:])
        whole += east if offset[0] == "-" else -east
    return whole + int(((fraction or ".0")[1:7]).ljust(6, "0")) / 1_000_000


def _name(cell: Any, is_text: bool) -> str | int | None:
    """A key or tangle as a whole number or text; None where it is empty."""
    if cell.__class__ is str:
        return _whole(cell) if is_text and _WHOLE.fullmatch(cell) else cell or None
    if cell is None or cell.__class__ is bool:
        return None if cell is None else _text(cell)
    if isinstance(cell, int):
        return cell if -(2**63) <= cell < 2**63 else str(cell)
    if not isinstance(cell, float):
        raise _Unfit(f"holds {_shown(cell)}, not a single value")
    if math.isnan(cell):
        return None
    return int(cell) if cell.is_integer() and abs(cell) < 2**53 else str(cell)


class _Namer:
    """Finds the key or tangle of a row: in a column, or in several, joined as text with `|`.

    A column has whole numbers or text, as its first name was: 12 and "12" are the same, as in a table.
    """

    def __init__(self, columns: tuple[str, ...], empty: str, is_text: bool) -> None:
        self._columns, self._empty, self._is_text = columns, empty, is_text
        self.is_whole: bool | None = None

    def __call__(self, cells: Cells) -> str | int:
        if len(self._columns) != 1:
            parts = [str(self._part(cells, column)).replace("|", r"\|") for column in self._columns]
            return "|".join(parts) if parts else 0  # a|b, c is not a, b|c
        name = self._part(cells, self._columns[0])
        is_whole = name.__class__ is int
        if is_whole is not self.is_whole and name is not self._empty:
            if self.is_whole is None:
                self.is_whole = is_whole
            elif is_whole:
                return str(name)
            elif _WHOLE.fullmatch(str(name)):
                return _whole(str(name))
        return name

    def _part(self, cells: Cells, column: str) -> str | int:
        try:
            name = _name(cells.get(column), self._is_text)
            if name is None and not self._empty:
                raise _Unfit(_MISSING + "a name here")
        except _Unfit as problem:
            raise DataError(f"column {column!r}: {problem}") from None
        return self._empty if name is None else name


def _converter(field: Field, forms: Mapping[str, str] | None) -> tuple[frozenset[type], Convert]:
    """The types of cells that are values of a field as they are, and what makes one from any other cell."""
    empty = frozenset([type(None)])
    if field.transform == "first":
        return empty, lambda cell: _text(cell).split("|", 1)[0].strip()
    if field.transform == "sign":
        return empty, lambda cell: None if (number := _number(cell)) is None else int(number >= 0)
    if field.transform == "magnitude":
        return empty, lambda cell: None if (number := _number(cell)) is None else abs(number)
    if field.kind != "categorical":
        return empty, _number
    if forms is None:
        return empty | {str, int, bool}, _number
    form = forms[field.name]
    return (empty | {str}, _text) if form == "text" else (empty, _typed if form == "number" else _truth)


def _number(cell: Any) -> int | float | None:
    """A number; None where it is not finite."""
    if cell.__class__ is float:
        return cell if math.isfinite(cell) else None
    if isinstance(cell, int):
        return int(cell) if -(2**63) <= cell < 2**63 else float(cell) if abs(cell) < 2**1023 else None
    if isinstance(cell, str):
        whole = _whole(cell) if _WHOLE.fullmatch(cell) else cell
        if isinstance(whole, int):
            return whole
        found = _float(cell.strip())
        if found is None:
            raise _Unfit(f"{_shown(cell)} is no number")
    else:
        raise _Unfit(f"holds {_shown(cell)}, not a single value")
    return found if math.isfinite(found) else None


def _typed(cell: str) -> str | int | float | None:
    """The text of a cell that stands for a number, where it is one."""
    if _WHOLE.fullmatch(cell):
        return _whole(cell)
    number = None if cell.startswith("0") and cell.isdigit() else _float(cell.strip())
    return cell if number is None else number if math.isfinite(number) else None


def _truth(cell: str) -> str:
    return cell.lower() if cell.lower() in ("true", "false") else cell


def _text(cell: Any) -> str:
    if cell.__class__ is str:
        return str(cell)
    if cell.__class__ is bool:
        return "true" if cell else "false"
    if not isinstance(cell, int | float):
        raise _Unfit(f"holds {_shown(cell)}, not a single value")
    return str(cell)


def _whole(text: str) -> int | str:
    """A whole number, or its text where it has too many digits."""
    if len(text) > 18 and not -(2**63) <= int(text[:21]) < 2**63:
        return text
    return int(text)


def _float(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _is_number_text(text: str) -> bool:
    number = _float(text)
    if number is None or not math.isfinite(number):
        return False
    return text == (str(int(number)) if number.is_integer() else str(number))


def _is_true(cell: Any) -> bool:
    if cell is None or cell.__class__ is bool:
        return bool(cell)
    text = str(int(cell)) if isinstance(cell, int | float) and math.isfinite(cell) else str(cell).lower()
    if text not in (*TRUE, *FALSE):
        raise _Unfit(f"{_shown(cell)} is no end mark; use true and false, or 1 and 0")
    return text in TRUE


def _shown(cell: Any) -> str:
    """A cell as it is told in a message: never long."""
    kind = {list: "a list", dict: "an object"}.get(cell.__class__)
    text = repr(cell)
    return kind or (text if len(text) <= 80 else f"{text[:80]}…")
