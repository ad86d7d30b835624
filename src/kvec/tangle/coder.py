"""One arriving value as codes: what `Vocabulary` does for whole columns, for one item at a time."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvec.tangle.vocabulary import FARTHEST, FIRST_KNOWN, MISSING, UNKNOWN, FieldVocabulary, Vocabulary
from kvec.words.errors import DataError
from kvec.words.items import plain_cell
from kvec.words.schema import Schema

MOST_KEPT = 16_384  # values whose codes are kept at hand
_PLAIN = frozenset((str, int, float, type(None)))


class Coded(NamedTuple):
    """What the network and the rules need of one value."""

    codes: list[int]  # of all embedded fields
    numbers: list[float]  # of all projected fields
    session: tuple[Any, ...]  # equal as long as the session goes on
    match: tuple[Any, ...] | None  # equal where value correlation matches; None matches nothing
    unknown: int  # fields whose value was never trained on
    missing: int  # fields that have no value
    alike: tuple[Any, ...] | None = None  # equal where all session fields are; None where there are none


class Cell(NamedTuple):
    """One cell of an embedded field."""

    codes: tuple[int, ...]
    raw: Any  # what matching compares


class Coder:
    """Turns the values of items into codes, remembering values that come again."""

    def __init__(self, vocabulary: Vocabulary, schema: Schema) -> None:
        self._coded = [(field.name, _coder(field)) for field in vocabulary.coded]
        self._projected = vocabulary.projected
        self._names = names = [field.name for field in vocabulary.coded]
        self._session = [names.index(name) for name in schema.session]
        self._match = [names.index(name) for name in schema.match_names if name in names]
        self._kept: dict[tuple[Any, ...], Coded] = {}

    def code(self, value: Mapping[str, Any]) -> Coded:
        """The codes of one value; a field that is not in it is missing."""
        cells = tuple([value.get(name) for name in self._names])
        if self._projected or not _PLAIN.issuperset(map(type, cells)):  # True is equal to 1, but not the same cell
            return self._code(value)
        coded = self._kept.get(cells)
        if coded is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            coded = self._kept[cells] = self._code(value)
        return coded

    def _code(self, value: Mapping[str, Any]) -> Coded:
        codes: list[int] = []
        raws = []
        unknown = missing = 0
        for name, coder in self._coded:
            given = value.get(name)
            cell = coder(given if given.__class__ in _PLAIN else plain_cell(given, name))
            codes += cell.codes
            raws.append(cell.raw)
            first = cell.codes[0]
            if first < FIRST_KNOWN:
                if first == UNKNOWN:
                    unknown += 1
                else:
                    missing += 1
        numbers: list[float] = []
        for field in self._projected:
            given = value.get(field.name)
            number = _number(given if given.__class__ in _PLAIN else plain_cell(given, field.name), field.name)
            missing += number is None
            scaled = 0.0 if number is None else (number - field.mean) / field.scale
            numbers += [min(max(scaled, -FARTHEST), FARTHEST), float(number is None)]
        match: tuple[Any, ...] | None = tuple([raws[i] for i in self._match])
        if not match or None in match:
            match = None
        session = tuple([raws[i] for i in self._session])
        return Coded(codes, numbers, session, match, unknown, missing, session or None)


def _coder(field: FieldVocabulary) -> Callable[[Any], Cell]:
    edges, name = field.edges, field.name
    if field.kind == "binned":

        def binned(given: Any) -> Cell:
            number = _number(given, name)
            return Cell((_bin(edges, number),), None if number is None else _bin(edges, number))

        return binned
    known = {str(value): code for code, value in enumerate(field.values, FIRST_KNOWN)}

    def categorical(given: Any) -> Cell:
        text = cell_text(given)
        code = MISSING if text is None else known.get(text, UNKNOWN)
        if not edges:
            return Cell((code,), text)
        return Cell((code, _bin(edges, None if text is None else _parsed(text))), text)

    return categorical


def cell_text(given: Any) -> str | None:
    """A categorical cell as text, whole numbers without a point; None where it is missing.

    >>> [cell_text(x) for x in (40, 40.0, True, "40.0", None)]
    ['40', '40', 'true', '40.0', None]
    """
    if given is None or given.__class__ is str:
        text: str | None = given
        return text
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, float):
        if not math.isfinite(given):
            return None
        return str(int(given)) if given.is_integer() and abs(given) < 2**53 else _float_text(given)
    return str(given)


def _bin(edges: tuple[float, ...], number: float | None) -> int:
    return MISSING if number is None or math.isnan(number) else bisect_right(edges, number) + FIRST_KNOWN


def _float_text(given: float) -> str:
    """A fraction as tables write it: 0.00001 and 1e-7, not 1e-05 and 1e-07."""
    text, _, exponent = repr(given).partition("e-0")
    if not exponent:
        return text.removesuffix(".0")
    digits = len(text.lstrip("-").replace(".", ""))
    return f"{given:.{digits + 4}f}" if exponent == "5" else f"{text}e-{exponent}"


def _number(given: Any, name: str) -> float | None:
    if given is None:
        return None
    try:
        number = _parsed(given.strip()) if given.__class__ is str else float(given)
    except OverflowError:
        number = None
    if number is None:
        shown = repr(given)
        raise DataError(f"field {name!r}: {shown if len(shown) <= 80 else shown[:77] + '...'} is no number")
    return number if math.isfinite(number) else None


def _parsed(text: str) -> float | None:
    """Text as a number; None where it is none. What only Python takes for a number is none."""
    try:
        return None if "_" in text or text != text.strip() or not text.isascii() else float(text)
    except ValueError:
        return None
